"""Rows token by token: what the page shows is what training reads; the small process answers, survives and ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.data.answers import Answer, AnswerWriter
from backend.data.prompts import read_prompts
from backend.data.templates import encode_chat, loss_mask
from backend.errors import HeadwayError
from backend.jobs.mask_helper import MaskHelper
from backend.jobs.show_mask import answer_line, pieces_of, show_row
from backend.settings import Settings
from backend.targets.tiny import tiny_checkpoint, tiny_tokenizer

TINY = tiny_tokenizer()
ROWS: list[Any] = [
    {"messages": [{"role": "user", "content": "hi ü"}, {"role": "assistant", "content": "yes"}]},
    "broken",
    {"turns": ["first", "second"]},
    {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<call>x"}],
     "special_tokens": ["<call>"]},
]  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", cache=tmp_path / "cache")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in ROWS))
    return path


def test_a_row_with_answers_shows_what_training_masks(path: Path) -> None:
    shown = show_row(TINY, str(path), 1)
    ids, mask = loss_mask(TINY, read_prompts(path).prompts[0].chat())
    assert [token.id for token in shown.tokens] == ids and [token.trained for token in shown.tokens] == mask
    assert (shown.num_tokens, shown.num_trained, shown.title) == (len(ids), 4, "row row-1")
    assert [token.text for token in shown.tokens if token.special] == ["<|im_start|>", "<|im_end|>"] * 2
    assert [token.text for token in shown.tokens if token.id > 127 and not token.special] == ["Ã", "¼"]


def test_a_row_without_an_answer_says_so(path: Path) -> None:
    shown = show_row(TINY, str(path), 2)
    assert [token.id for token in shown.tokens] == encode_chat(TINY, [{"role": "user", "content": "first"}])
    assert shown.num_trained == 0 and "no answer yet" in shown.notes[0] and "first of its 2 turns" in shown.notes[0]


def test_distilled_answers_show_their_own_tokens(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with AnswerWriter(path) as writer:
        writer.write(Answer("q", "none", (257, 65), (66, 258), 0.7, 0, "length", True, 1))
        writer.write(Answer("q", "none", (70_000,), (66,), 0.0, 0, "eos", False))
    shown = show_row(TINY, str(path), 1)
    assert [(token.id, token.trained) for token in shown.tokens] == [(257, False), (65, False), (66, True), (258, True)]
    assert shown.title == "row q, turn 2, T = 0.7" and "cut at the length limit" in shown.notes[0]
    with pytest.raises(HeadwayError, match="tokens beyond this target's 260; choose the target that wrote them"):
        show_row(TINY, str(path), 2)


@pytest.mark.parametrize(("number", "sentence"), [(0, "counted from 1"), (9, "no row 9"), (3, "does not know <call>")])
def test_rows_that_cannot_be_shown_are_one_sentence(path: Path, number: int, sentence: str) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        show_row(TINY, str(path), number)


def test_a_lone_sentencepiece_token_keeps_its_blank() -> None:
    class Pieces:
        def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
            return {1: "the", 2: "", 3: "s"}[ids[0]]

        def convert_ids_to_tokens(self, token: int) -> str:
            return {1: "\u2581the", 2: "<0xC3>", 3: "s"}[token]

    assert pieces_of(Pieces(), [1, 2, 3]) == [" the", "<0xC3>", "s"]


def test_requests_get_one_line_each_whatever_they_ask(settings: Settings, path: Path) -> None:
    request = {"target": "tiny-llama", "path": str(path), "number": 1}
    assert answer_line(json.dumps(request), settings)["mask"]["num_trained"] == 4
    assert "There is no target" in answer_line(json.dumps({**request, "target": "./gone"}), settings)["error"]
    assert "no row 99" in answer_line(json.dumps({**request, "number": 99}), settings)["error"]


def test_a_folder_on_disk_is_read_without_its_weights(settings: Settings, path: Path, tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "model")
    for weights in folder.glob("*.safetensors"):
        weights.unlink()
    request = {"target": str(folder), "path": str(path), "number": 1}
    assert answer_line(json.dumps(request), settings)["mask"]["num_trained"] == 4
    (folder / "tokenizer.json").write_text("{")
    empty = tiny_checkpoint(tmp_path / "other")
    (empty / "tokenizer.json").write_text("{")
    assert "no readable tokenizer" in answer_line(json.dumps({**request, "target": str(empty)}), settings)["error"]


@pytest.fixture
def helper(settings: Settings) -> Iterator[MaskHelper]:
    made = MaskHelper(settings)
    yield made
    made.close()


def test_the_process_answers_is_replaced_when_it_dies_and_its_replies_are_kept(helper: MaskHelper, path: Path) -> None:
    first = helper.mask("tiny-llama", path, 1)
    assert first["num_trained"] == 4 and first["tokens"][0]["text"] == "<|im_start|>"
    with pytest.raises(HeadwayError, match="no row 9"):
        helper.mask("tiny-llama", path, 9)
    process = helper._running[0]
    process.kill()
    process.wait()
    assert helper.mask("tiny-llama", path, 1) is first  # kept, no process is asked
    path.write_text(json.dumps(ROWS[2]))
    assert helper.mask("tiny-llama", path, 1)["num_trained"] == 0  # the file has changed, another process answers
    assert helper._running[0] is not process
    with pytest.raises(HeadwayError, match="Cannot read"):
        helper.mask("tiny-llama", path.with_name("gone"), 1)


def test_the_helper_loads_no_torch() -> None:
    program = "import sys, backend.jobs.mask_helper; sys.exit(any(m in sys.modules for m in ('torch', 'transformers')))"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
