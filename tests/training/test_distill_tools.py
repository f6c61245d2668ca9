"""A target answers rows with tools: it sees the schemas and the given calls, and a row it cannot take is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.data.answers import read_answers
from backend.data.messages import Message
from backend.data.prompts import Prompt
from backend.data.templates import encode_chat
from backend.errors import HeadwayError
from backend.targets.identity import VersionIdentity
from backend.targets.target import Target
from backend.targets.tiny import tiny_model
from backend.training.config import DistillConfig
from backend.training.distill import distill, num_answers
from tests.data.conftest import LLAMA_TEMPLATE, WEATHER, with_template

CALL = {"type": "function", "id": "call00001", "function": {"name": "weather", "arguments": {"city": "Bonn"}}}
CONFIG = DistillConfig(max_new_tokens=4, temperatures=(0.0,), batch=4)


@pytest.fixture(scope="module")
def target() -> Target:
    identity = VersionIdentity("tools", "none", "none", "tiny", "llama", "tools")
    return Target(tiny_model("llama"), with_template(LLAMA_TEMPLATE), identity, "tools")


def row(name: str, *calls: dict[str, object]) -> Prompt:
    messages = (
        Message("user", "Weather?"), Message("assistant", "", calls), Message("tool", "rain", name="weather"),
        Message("assistant", "It rains."), Message("user", "Thanks."),
    )  # fmt: skip
    return Prompt(name, "tools", ("Weather?", "Thanks."), messages, (WEATHER,))


def test_every_answer_is_asked_for_behind_the_given_conversation(target: Target, tmp_path: Path) -> None:
    prompts = [row("a", CALL), Prompt("b", "plain", ("hi",), tools=(WEATHER,))]
    assert num_answers(prompts, CONFIG) == 4
    distill(target, prompts, CONFIG, tmp_path / "a.jsonl")
    answers = {(one.question_id, one.turn): one for one in read_answers(tmp_path / "a.jsonl").answers}
    assert sorted(answers) == [("a", 0), ("a", 1), ("a", 2), ("b", 0)]
    chat = prompts[0].chat()
    for turn, end in enumerate((1, 3, 5)):
        expected = encode_chat(target.tokenizer, chat[:end], tools=[WEATHER])
        assert list(answers["a", turn].prompt_ids) == expected
    assert "weather" in target.tokenizer.decode(answers["b", 0].prompt_ids)


def test_a_row_the_template_cannot_take_is_named(target: Target, tmp_path: Path) -> None:
    prompts = [Prompt("fine", "plain", ("hi",)), row("two", CALL, {**CALL, "id": "call00002"})]
    with pytest.raises(HeadwayError, match=r"Prompt two cannot be answered: .* only single tool-calls"):
        distill(target, prompts, CONFIG, tmp_path / "a.jsonl")


def test_a_prompt_without_room_for_an_answer_is_left_out_and_named(target: Target, tmp_path: Path) -> None:
    said: list[str] = []
    prompts = [Prompt("fine", "plain", ("hi",)), Prompt("long", "plain", ("word " * target.max_context,))]
    done = distill(target, prompts, CONFIG, tmp_path / "a.jsonl", say=said.append)
    assert [one.question_id for one in read_answers(tmp_path / "a.jsonl").answers] == ["fine"]
    assert done.answers == 1 and len(said) == 1 and said[0].startswith("Prompt long is left out: it has ")
