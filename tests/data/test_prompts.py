"""Prompt files in four formats, broken rows, unreadable files, the split."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.data.prompts import Message, Prompt, read_prompts, split_by_hash
from backend.errors import HeadwayError

Write = Callable[[Sequence[Any]], Path]
CALL = {"name": "add", "arguments": {"a": 1}}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
TURNS = {"question_id": 7, "category": "math", "turns": ["a", "b"], "reference": ["x"]}
SHAREGPT = {"id": "s", "conversations": [
    {"from": "system", "value": "be kind"}, {"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]}
OPENAI = {"messages": [
    {"role": "user", "content": [{"type": "text", "text": "2"}, {"type": "text", "text": "+2"}]},
    {"role": "assistant", "content": "4"}]}
ALPACA = {"instruction": "Add.", "input": "1, 2", "output": "3"}


def test_four_formats_in_one_file(write_rows: Write) -> None:
    file = read_prompts(write_rows([TURNS, "", SHAREGPT, OPENAI, ALPACA]))
    assert file.broken == ()
    assert file.prompts == (
        Prompt("7", "math", ("a", "b")),
        Prompt("s", "none", ("hi",), (
            Message("system", "be kind"), Message("user", "hi"), Message("assistant", "hello"))),
        Prompt("row-4", "none", ("2+2",), (Message("user", "2+2"), Message("assistant", "4"))),
        Prompt("row-5", "none", ("Add.\n\n1, 2",), (Message("user", "Add.\n\n1, 2"), Message("assistant", "3"))),
    )
    assert file.prompts[0].chat() == [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    assert file.prompts[2].chat()[1] == {"role": "assistant", "content": "4"}


def test_a_json_array_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "share.json"
    path.write_text("\ufeff \n" + json.dumps([SHAREGPT, {"x": 1}, TURNS], indent=1), encoding="utf-8")
    file = read_prompts(path)
    assert [prompt.question_id for prompt in file.prompts] == ["s", "7"]
    assert [line for line, _ in file.broken] == [2]


def test_limit_and_repeated_ids(write_rows: Write) -> None:
    path = write_rows([TURNS, {**TURNS, "question_id": "7#2"}, TURNS, TURNS])
    assert [prompt.question_id for prompt in read_prompts(path).prompts] == ["7", "7#2", "7#3", "7#4"]
    assert len(read_prompts(path, limit=2).prompts) == 2
    with pytest.raises(HeadwayError, match="limit must be at least 1 prompt, but it is 0"):
        read_prompts(path, limit=0)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"turns": ["a"', "is no valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('"text"', "is no JSON object"),
        ({"prompt": "x"}, "has none of turns"),
        ({"turns": []}, "at least one text"),
        ({"turns": ["a", " "]}, "turn 2 is empty"),
        ({"turns": ["a", 3]}, "turn 2 is no text"),
        ({"turns": ["\ud800"]}, "half of a surrogate pair"),
        ({"turns": ["a"], "category": 5}, "category is no text"),
        ({"conversations": {}}, "conversations is not a list"),
        ({"conversations": [3]}, "message 1 is no JSON object"),
        ({"conversations": [{"from": "robot", "value": "x"}]}, "unknown speaker 'robot'"),
        ({"conversations": [{"from": "tool", "value": "x"}]}, "does not begin with the user"),
        ({"conversations": [{"from": "gpt", "value": "x"}]}, "does not begin with the user"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "message 1 is no text"),
        ({"instruction": None}, "instruction is no text"),
        ({"turns": ["a"], "tools": "[{"}, "tools is text, but no valid JSON"),
        ({"turns": ["a"], "tools": {"name": "f"}}, "tools is not a list"),
        ({"turns": ["a"], "tools": [{"type": "function", "function": {}}]}, "the name of tool 1 is no text"),
        ({"turns": ["a"], "special_tokens": ["<a>", " "]}, "special_tokens is not a list of texts"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": "x"}]}, "no assistant called"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"function": {}}]}]},
         "the name in tool call 1 of message 2 is no text"),
        ({"messages": [{"role": "user", "content": "a"},
                       {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}]},
         "the arguments of tool call 1 of message 2 are no JSON object"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": None}]}, "2 is no text"),
    ],
)
def test_broken_rows_are_described_and_not_fatal(write_rows: Write, row: Any, reason: str) -> None:
    file = read_prompts(write_rows([TURNS, row]))
    assert len(file.prompts) == 1 and [line for line, _ in file.broken] == [2]
    assert reason in file.broken[0][1]
    with pytest.raises(HeadwayError, match="No usable prompt"):
        read_prompts(write_rows([row]))


def test_unreadable_files_are_one_sentence(tmp_path: Path, write_rows: Write) -> None:
    with pytest.raises(HeadwayError, match="No such file"):
        read_prompts(tmp_path / "missing.jsonl")
    with pytest.raises(HeadwayError, match="Is a directory"):
        read_prompts(tmp_path)
    with pytest.raises(HeadwayError, match="the file is empty"):
        read_prompts(write_rows(["", "  "]))
    with pytest.raises(HeadwayError, match="line 1: is cut off: the array has no end"):
        read_prompts(write_rows(['[{"turns": ["a"']))
    (tmp_path / "latin").write_bytes('{"turns": ["Käse"]}'.encode("latin-1"))
    with pytest.raises(HeadwayError, match="is not UTF-8"):
        read_prompts(tmp_path / "latin")


@given(st.lists(st.text(min_size=1), max_size=40), st.integers(), st.floats(0, 1))
@settings(deadline=None)
def test_split_keeps_every_prompt_once_and_on_its_side(texts: list[str], seed: int, fraction: float) -> None:
    prompts = [Prompt(str(number), "x", (text,)) for number, text in enumerate(texts)]
    kept, held_out = split_by_hash(prompts, fraction, seed)
    assert sorted((*kept, *held_out), key=lambda p: int(p.question_id)) == prompts
    assert not {p.turns for p in kept} & {p.turns for p in held_out}
    for prompt in prompts:  # a side does not depend on the other prompts
        assert split_by_hash([prompt], fraction, seed)[1] == [p for p in held_out if p == prompt]


def test_split_fraction_and_seed() -> None:
    prompts = [Prompt(str(number), "x", (f"text {number}",)) for number in range(2000)]
    assert split_by_hash(prompts, 0.0, 1)[1] == [] and split_by_hash(prompts, 1.0, 1)[0] == []
    first, second = (split_by_hash(prompts, 0.1, seed)[1] for seed in (1, 2))
    assert 140 < len(first) < 260 and first != second
    with pytest.raises(ValueError, match=r"between 0 and 1, got 1\.5"):
        split_by_hash(prompts, 1.5, 1)


def test_tools_calls_and_outputs_in_both_shapes(write_rows: Write) -> None:
    asked = {"role": "user", "content": "1 and 2?"}
    called = {"role": "assistant", "content": None, "tool_calls": [{"function": {**CALL, "arguments": '{"a": 1}'}}]}
    told = [{"role": "tool", "content": ""}, {"role": "assistant", "content": "3", "reasoning_content": "easy"}]
    openai = {"messages": [asked, called, *told], "tools": [TOOL["function"]]}
    sharegpt = {"tools": json.dumps([TOOL]), "conversations": [
        {"from": "human", "value": "1 and 2?"}, {"from": "function_call", "value": json.dumps(CALL)},
        {"from": "observation", "value": "3"}, {"from": "gpt", "value": "3"}]}
    first, second = read_prompts(write_rows([openai, sharegpt])).prompts
    call = {"type": "function", "function": CALL, "id": "call00001"}
    assert first.messages == (
        Message("user", "1 and 2?"), Message("assistant", "", (call,)),
        Message("tool", "", name="add", tool_call_id="call00001"), Message("assistant", "3", reasoning="easy"))
    assert second.messages is not None and second.messages[1] == first.messages[1]
    assert first.tools == second.tools == (TOOL,) and first.num_answers == second.num_answers == 2
    assert first.chat()[1] == {"role": "assistant", "content": "", "tool_calls": [call]}
    assert first.chat()[3]["reasoning_content"] == "easy"


def test_a_first_row_may_speak_for_all(write_rows: Write) -> None:
    head = {"special_tokens": ["<call>", "<end>", "<call>"], "tools": [TOOL]}
    own = {"turns": ["b"], "special_tokens": [], "tools": []}
    file = read_prompts(write_rows([head, {"turns": ["a"]}, own, head]))
    assert [(p.question_id, p.special_tokens, p.tools) for p in file.prompts] == [
        ("row-2", ("<call>", "<end>"), (TOOL,)), ("row-3", (), ())]
    assert [line for line, _ in file.broken] == [4]  # later it is a row like any other


def test_questions_hold_own_answers_or_the_given_calls(write_rows: Write) -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": CALL}]}
    plain = {"messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "a"},
                          {"role": "assistant", "content": "given"}, {"role": "user", "content": "b"}]}
    used = {"messages": [{"role": "user", "content": "a"}, call, {"role": "tool", "content": "3"}]}
    first, second, third = read_prompts(write_rows([plain, used, TURNS])).prompts
    assert (first.num_questions, second.num_questions, third.num_questions) == (2, 2, 2)
    assert [(m["role"], m["content"]) for m in first.question(1, ["own"])] == [
        ("system", "be kind"), ("user", "a"), ("assistant", "own"), ("user", "b")]
    assert first.question(0, system="short") == [
        {"role": "system", "content": "short"}, {"role": "user", "content": "a"}]
    assert [m["role"] for m in second.question(0)] == ["user"]
    assert [m["role"] for m in second.question(1, system="s")] == ["system", "user", "assistant", "tool"]
    assert third.question(0) == [{"role": "user", "content": "a"}]
