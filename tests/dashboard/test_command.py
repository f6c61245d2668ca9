"""The command line of a request says all that the request says, however odd its text."""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.engine.protocol import DecodeRequest, Message
from backend.errors import HeadwayError
from backend.jobs import decode_command
from backend.jobs.as_text import take_config_file
from dashboard.presenters.command import as_command, as_yaml


def arguments(command: str) -> argparse.Namespace:
    words = shlex.split(command)
    assert words[:2] == ["./run", "decode"]
    parser = argparse.ArgumentParser()
    decode_command.add_arguments(parser)
    return parser.parse_args(words[2:])


def read(text: str) -> DecodeRequest:
    """What the real command line makes of the file."""
    parser = argparse.ArgumentParser()
    decode_command.add_arguments(parser)
    take_config_file(parser)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "decode.yaml"
        file.write_text(text, encoding="utf-8")
        [request] = decode_command.requests_of(parser.parse_args(["--config", str(file)]))
    return request


def parsed(command: str) -> DecodeRequest:
    """What the real command line makes of the command."""
    [request] = decode_command.requests_of(arguments(command))
    return request


TEXT = st.text(alphabet=st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=30)


PROMPT = TEXT.filter(lambda text: text.strip())
TEMPERATURE = st.one_of(st.just(0.0), st.floats(0.001, 100))


@given(prompt=PROMPT, system=TEXT, stop=st.lists(TEXT, max_size=2), temperature=TEMPERATURE, raw=st.booleans())
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
        json_schema='{"enum": ["a b", 1]}',
    )
    assert parsed(as_command(request)) == request == read(as_yaml(request))


def test_a_plain_request_is_a_short_command() -> None:
    request = DecodeRequest(messages=(Message(role="user", content="Hi"),))
    assert as_command(request) == (
        "./run decode --target smollm2-135m --drafter builtin-medusa --prompt Hi --max-new-tokens 128 --rule greedy"
    )


@pytest.mark.parametrize("prompt", ["${HOME} $(rm -rf x) `id`", 'it\'s "quoted"', "-x", "--prompt", "a\nb", "😀"])
def test_a_shell_reads_the_prompt_as_it_is(prompt: str) -> None:
    assert (
        parsed(as_command(DecodeRequest(messages=(Message(role="user", content=prompt),)))).messages[0].content
        == prompt
    )


@given(turns=st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), TEXT), max_size=4), prompt=PROMPT)
def test_a_whole_chat_is_repeated_exactly(turns: list[tuple[str, str]], prompt: str) -> None:
    messages = [Message(role=role, content=text) for role, text in [*turns, ("user", prompt)]]  # type: ignore[arg-type]
    request = DecodeRequest(messages=tuple(messages))
    assert parsed(as_command(request)) == request == read(as_yaml(request))


def test_a_chat_can_come_from_a_file_and_mistakes_are_one_sentence(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(chat))
    assert decode_command.read_messages(str(file)) == decode_command.read_messages(json.dumps(chat)) == chat
    for wrong in ("[]", "[1", '[{"role": "wizard", "content": "x"}]', "missing.json", '[{"role": "user"}]'):
        with pytest.raises(HeadwayError, match=r"^--messages ") as error:
            decode_command.read_messages(wrong)
        assert "\n" not in str(error.value) and str(error.value).endswith(".")


def test_the_command_says_how_the_engine_was_started() -> None:
    request = DecodeRequest(messages=(Message(role="user", content="Hi"),))
    command = as_command(request, {"device": "cuda:1", "dtype": "float16", "trust_remote_code": True})
    args = arguments(command)
    assert (args.device, args.dtype, args.trust_remote_code) == ("cuda:1", "float16", True)
    assert parsed(command) == request
    assert as_yaml(request, {"device": "cuda:1", "trust_remote_code": True}).startswith(
        "# python app.py decode --config FILE.yaml\ntarget: smollm2-135m\n"
    )
    assert read(as_yaml(request, {"device": "cuda:1", "dtype": "float16", "trust_remote_code": True})) == request
    plain = arguments(as_command(request, {}))
    assert (plain.device, plain.dtype, plain.trust_remote_code) == (None, None, False)


@pytest.mark.parametrize("depth", [None, 0, 3])
def test_a_depth_of_none_is_not_written_and_zero_is(depth: int | None) -> None:
    request = DecodeRequest(messages=(Message(role="user", content="Hi"),), max_depth=depth)
    assert ("--max-depth" in as_command(request)) == (depth is not None) and parsed(as_command(request)) == request
