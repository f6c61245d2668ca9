"""The command line of a request says all that the request says, however odd its text."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.engine.protocol import DecodeRequest, Message
from dashboard.presenters.command import as_command


def parsed(command: str) -> DecodeRequest:
    """What a command line parser makes of the command: an independent reading of the flags."""
    words = shlex.split(command)
    assert words[:3] == ["python", "app.py", "decode"]
    parser = argparse.ArgumentParser(allow_abbrev=False)
    text = ("--target", "--drafter", "--prompt", "--system", "--rule", "--tree")
    for flag in text:
        parser.add_argument(flag)
    for flag in ("--max-new-tokens", "--top-k", "--max-depth", "--seed"):
        parser.add_argument(flag, type=int)
    for flag in ("--temperature", "--top-p", "--min-p", "--repetition-penalty", "--epsilon", "--delta"):
        parser.add_argument(flag, type=float)
    parser.add_argument("--ban", type=int, action="append", default=[], dest="banned_tokens")
    parser.add_argument("--stop", action="append", default=[])
    for flag in ("--raw", "--sampled", "--force"):
        parser.add_argument(flag, action="store_true")
    values: dict[str, Any] = {
        name: value for name, value in vars(parser.parse_args(words[3:])).items() if value is not None
    }
    prompt, system, raw = values.pop("prompt"), values.pop("system", None), values.pop("raw")
    if raw:
        values["raw_prompt"] = prompt
    else:
        turns = [] if system is None else [Message(role="system", content=system)]
        values["messages"] = (*turns, Message(role="user", content=prompt))
    return DecodeRequest.model_validate(values)


TEXT = st.text(alphabet=st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=30)


@given(prompt=TEXT, system=TEXT, stop=st.lists(TEXT, max_size=2), temperature=st.floats(0, 5), raw=st.booleans())
def test_the_command_is_the_request(prompt: str, system: str, stop: list[str], temperature: float, raw: bool) -> None:
    turns = (Message(role="system", content=system), Message(role="user", content=prompt))
    request = DecodeRequest(
        messages=() if raw else turns,
        raw_prompt=prompt if raw else None,
        temperature=temperature,
        stop=tuple(stop),
        rule="rejection",
        tree="[[0],[1],[0,0]]",
        max_depth=2,
        banned_tokens=(5, 7),
        sampled=True,
        seed=9,
        top_p=0.123456789,
    )
    assert parsed(as_command(request)) == request


def test_a_plain_request_is_a_short_command() -> None:
    request = DecodeRequest(messages=(Message(role="user", content="Hi"),))
    assert as_command(request) == (
        "python app.py decode --target smollm2-135m --drafter builtin-medusa --prompt Hi "
        "--max-new-tokens 128 --rule greedy"
    )


@pytest.mark.parametrize("prompt", ["${HOME} $(rm -rf x) `id`", 'it\'s "quoted"', "-x", "--prompt", "a\nb", "😀"])
def test_a_shell_reads_the_prompt_as_it_is(prompt: str) -> None:
    assert (
        parsed(as_command(DecodeRequest(messages=(Message(role="user", content=prompt),)))).messages[0].content
        == prompt
    )


def test_earlier_turns_are_said_to_be_missing() -> None:
    roles = ("user", "assistant", "user")
    request = DecodeRequest(messages=tuple(Message(role=role, content=role) for role in roles))  # type: ignore[arg-type]
    note, command = as_command(request).split("\n")
    assert note.startswith("# ") and parsed(command).messages[-1].content == "user"
