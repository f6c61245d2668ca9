"""The command line of a request says all that the request says, however odd its text."""

from __future__ import annotations

import argparse
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.engine.protocol import DecodeRequest, Message
from backend.jobs import decode_command
from dashboard.presenters.command import as_command


def parsed(command: str) -> DecodeRequest:
    """What the real command line makes of the command."""
    words = shlex.split(command)
    assert words[:3] == ["python", "app.py", "decode"]
    parser = argparse.ArgumentParser()
    decode_command.add_arguments(parser)
    args = parser.parse_args(words[3:])
    return decode_command.request_of(args, [{"role": "user", "content": args.prompt}])


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
