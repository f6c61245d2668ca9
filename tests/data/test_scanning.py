"""Previews, counts, splits, hashes and what is registered, against the slow way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from backend.data.answers import AnswerWriter, pack_answers
from backend.data.prompts import read_prompts, split_by_hash
from backend.data.registering import (
    answers_lineage,
    dataset_entry,
    lineage_beside,
    lineage_sentence,
    split_lineage,
)
from backend.data.scanning import (
    ANSWERS,
    LENGTH_EDGES,
    MAX_BROKEN_SHOWN,
    PROMPTS,
    content_hash,
    kind_of,
    preview,
    scan,
)
from backend.errors import HeadwayError
from backend.training.split import split_held_out
from tests.data.conftest import answer

Write = Callable[[Sequence[Any]], Path]


def many(count: int) -> list[Any]:
    rows: list[Any] = [{"turns": [f"question {n} " + "x" * n], "category": f"c{n % 3}"} for n in range(count)]
    return [*rows, "broken", {"turns": []}, {"instruction": "Add.", "output": "3", "id": "row-1"}, rows[0]]


def test_a_scan_counts_what_reading_gives(write_rows: Write) -> None:
    path = write_rows(many(60))
    found, file = scan(path), read_prompts(path)
    assert (found.kind, found.num_rows, found.num_broken) == (PROMPTS, 62, 2)
    assert found.broken == file.broken and [line for line, _ in found.broken] == [61, 62]
    assert found.categories == {"c0": 21, "c1": 20, "c2": 20, "none": 1}
    assert found.content_hash == hashlib.sha256(path.read_bytes()).hexdigest() == content_hash(path)
    assert found.num_bytes == path.stat().st_size and sum(found.lengths) == 62
    shorter = sum(sum(map(len, prompt.turns)) < LENGTH_EDGES[0] for prompt in file.prompts)
    assert found.lengths[0] == shorter > 1
    assert found.more == {
        "turns": 62, "with_answers": 1, "with_tools": 0, "repeated_ids": 1, "repeated_prompts": 1,
        "formats": {"turns": 61, "Alpaca": 1}, "special_tokens": []}  # fmt: skip


@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.2, 1.0])
def test_the_split_told_is_the_split_made(write_rows: Write, fraction: float) -> None:
    path = write_rows(many(300))
    kept, held_out = split_by_hash(read_prompts(path).prompts, fraction, seed=0)
    assert scan(path).split(fraction) == (len(kept), len(held_out))


def test_answers_are_counted_and_split_as_training_does(tmp_path: Path) -> None:
    answers = [
        answer(n, prompt_ids=(n, turn), turn=turn, temperature=heat, truncated=n == 3)
        for turn in range(2) for heat in (0.0, 1.0) for n in range(80)
    ]  # fmt: skip
    with AnswerWriter(tmp_path / "a.jsonl") as writer:
        for one in answers:
            writer.write(one)
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"cut')
    pack_answers(answers, tmp_path / "a.npz")
    for name in ("a.jsonl", "a.npz"):
        found = scan(tmp_path / name)
        assert (found.kind, found.num_rows, found.length_unit) == (ANSWERS, 320, "tokens")
        trained, held = split_held_out(answers, 0.2)
        assert found.split(0.2) == (len(trained), len(held)) and held
        assert found.more["temperatures"] == {"0": 160, "1": 160} and found.more["truncated"] == 4
        assert found.content_hash == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        assert kind_of(tmp_path / name) == ANSWERS


def test_a_preview_reads_no_further_than_it_must(write_rows: Write, tmp_path: Path) -> None:
    rows = preview(write_rows(many(5)), limit=7)
    assert rows.more and [row.line for row in rows.rows] == list(range(1, 8))
    assert rows.rows[5].problem is not None and rows.rows[5].prompt is None
    assert not preview(write_rows([{"turns": ["a"]}])).more
    big = tmp_path / "big.jsonl"
    big.write_text('{"turns": ["a"]}\n' * 300_000 + "\0")
    assert len(preview(big, limit=20).rows) == 20


def test_broken_rows_are_all_counted_and_the_first_are_shown(write_rows: Write) -> None:
    found = scan(write_rows([{"turns": ["a"]}, *["x"] * (MAX_BROKEN_SHOWN + 5)]))
    assert found.num_broken == MAX_BROKEN_SHOWN + 5 and len(found.broken) == MAX_BROKEN_SHOWN


def test_progress_may_stop_a_scan(write_rows: Write) -> None:
    path = write_rows(many(20))
    seen: list[tuple[int, int]] = []
    scan(path, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (path.stat().st_size,) * 2

    def stop(done: int, total: int) -> None:
        raise HeadwayError("Stopped.")

    with pytest.raises(HeadwayError, match="Stopped"):
        scan(path, stop)


def test_files_without_a_usable_row_are_one_sentence(write_rows: Write, tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="the file is empty"):
        scan(write_rows([]))
    with pytest.raises(HeadwayError, match="the first problem is in line 1: is no valid JSON"):
        scan(write_rows(["x"]))
    with pytest.raises(HeadwayError, match="Cannot read"):
        scan(tmp_path / "none.jsonl")
    with pytest.raises(HeadwayError, match="Is a directory"):
        scan(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"prompt_ids": [1], "answer_ids": [2]}\n')
    with pytest.raises(HeadwayError, match=r"Line 1 of .* is no answer"):
        scan(tmp_path / "a.jsonl")


def test_entries_hold_json_and_the_lineage_reads_as_a_sentence(write_rows: Write, tmp_path: Path) -> None:
    found = scan(write_rows(many(9)))
    entry = dataset_entry(found, name="  my  prompts ", licence=" MIT ")
    arguments = entry.arguments()
    assert json.loads(json.dumps(arguments)) == arguments
    assert (entry.name, entry.licence, entry.num_rows, entry.num_broken) == ("my prompts", "MIT", 11, 2)
    assert dataset_entry(found).name == "rows" and arguments["details"]["categories"]["c0"] == 4
    assert lineage_sentence(PROMPTS, {}) == "brought as a file"
    side = split_lineage(entry, "held-out", 0.05)
    assert lineage_sentence(PROMPTS, side) == "held-out side of my prompts (5 % held out)"
    how = {"temperatures": [0.0, 1.0], "seed": 3}
    lineage = answers_lineage({"rows.jsonl": found.content_hash}, how, "job-1")
    assert lineage == {"prompts": {"rows.jsonl": found.content_hash}, "settings": how, "job": "job-1"}
    assert lineage_sentence(ANSWERS, lineage, "tiny") == "prompts rows.jsonl → answers by tiny at T = 0, 1"
    assert lineage_sentence(ANSWERS, {}, "", ["0.5"]).endswith("→ answers by an unknown version at T = 0.5")


def test_the_note_beside_answers_tells_who_wrote_them(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert lineage_beside(path) == {}
    note = {"version": {"weights_id": "ab" * 32}, "answering": {"seed": 1, "max_new_tokens": 9, "system": None}}
    (tmp_path / "a.jsonl.job.json").write_text(json.dumps(note))
    lineage = lineage_beside(path)
    assert lineage["settings"]["max_new_tokens"] == 9
    assert "answers by version abababababab at T = 0.7" in lineage_sentence(ANSWERS, lineage, "", [0.7])
    (tmp_path / "a.jsonl.job.json").write_text("[]")
    assert lineage_beside(path) == {}
