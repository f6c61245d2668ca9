"""The first question of a prompt as every measurement asks it: with its tools, where an answer fits behind it."""

from __future__ import annotations

import pytest

from backend.data.prompts import Prompt
from backend.jobs.asking import encode_first, first_question
from backend.targets.identity import VersionIdentity
from backend.targets.target import Target
from backend.targets.tiny import tiny_model
from tests.data.conftest import LLAMA_TEMPLATE, WEATHER, with_template


@pytest.fixture(scope="module")
def target() -> Target:
    identity = VersionIdentity("tools", "none", "none", "tiny", "llama", "tools")
    return Target(tiny_model("llama"), with_template(LLAMA_TEMPLATE), identity, "tools")


def test_the_target_is_shown_the_tools_and_the_first_turn_only(target: Target) -> None:
    prompt = Prompt("a", "tools", ("Weather?", "Thanks."), tools=(WEATHER,))
    text = target.tokenizer.decode(encode_first(target, prompt))
    assert "weather" in text and "Weather?" in text and "Thanks." not in text
    assert "weather" not in target.tokenizer.decode(encode_first(target, Prompt("b", "plain", ("Hi?",))))


def test_a_prompt_without_room_is_none(target: Target) -> None:
    prompt = Prompt("a", "plain", ("Hi?",))
    ids = encode_first(target, prompt)
    assert first_question(target, prompt, target.max_context - len(ids)) == ids
    assert first_question(target, prompt, target.max_context - len(ids) + 1) is None
