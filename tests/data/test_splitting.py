"""A file as two files: the same sides as reading gives, nothing lost, nothing half."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from backend.data.prompts import read_prompts, split_by_hash
from backend.data.splitting import write_split
from backend.errors import HeadwayError

Write = Callable[[Sequence[Any]], Path]
TOOL = {"type": "function", "function": {"name": "f"}}


def test_both_sides_hold_what_the_split_says(write_rows: Write, tmp_path: Path) -> None:
    rows = [{"special_tokens": ["<c>"], "tools": [TOOL]}, *({"turns": [f"q{n}"], "own": n} for n in range(90)), "x"]
    path = write_rows(rows)
    training, held_out = tmp_path / "new" / "t.jsonl", tmp_path / "new" / "h.jsonl"
    counts = write_split(path, training, held_out, 0.2)
    kept, held = split_by_hash(read_prompts(path).prompts, 0.2, 0)
    assert list(read_prompts(training).prompts) == kept and list(read_prompts(held_out).prompts) == held
    assert counts == (len(kept), len(held)) and sum(counts) == 90
    assert json.loads(training.read_text().splitlines()[0])["own"] in range(90)
    assert sorted(file.name for file in training.parent.iterdir()) == ["h.jsonl", "t.jsonl"]


@pytest.mark.parametrize(("fraction", "sentence"), [(0.001, "none would be held out"), (0.999, "none would be trained"),
                                                   (0.0, "between 0 and 1"), (1.0, "between 0 and 1")])  # fmt: skip
def test_an_empty_side_leaves_no_file(write_rows: Write, tmp_path: Path, fraction: float, sentence: str) -> None:
    path = write_rows([{"turns": [f"q{n}"]} for n in range(5)])
    with pytest.raises(HeadwayError, match=sentence):
        write_split(path, tmp_path / "t.jsonl", tmp_path / "h.jsonl", fraction)
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_place_that_cannot_be_written_is_one_sentence(write_rows: Write, tmp_path: Path) -> None:
    path = write_rows([{"turns": [f"q{n}"]} for n in range(5)])
    (tmp_path / "file").write_text("")
    with pytest.raises(HeadwayError, match="Cannot write"):
        write_split(path, tmp_path / "file" / "t.jsonl", tmp_path / "file" / "h.jsonl", 0.5)
