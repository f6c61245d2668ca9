"""Prompts and the files that people keep them in.

Read here: JSONL rows with `turns` (the shape MT-bench, EAGLE, Medusa and Spec-Bench share), ShareGPT
(`conversations`), OpenAI (`messages`) and Alpaca (`instruction`, `input`, `output`), one JSON object a line or one JSON
array of them; the format is recognised row by row, so files may be mixed. Any row may carry `tools` (JSON schemas) and
`special_tokens`; a first row with nothing but these holds for all rows behind it. Knows no tokenizer, no template and
no model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backend.data.messages import (
    BrokenRowError,
    Message,
    asked_hash,
    conversation,
    special_token_names,
    text_of,
    tool_schemas,
)
from backend.data.rows import Row, iter_rows
from backend.errors import HeadwayError

FORMATS = {"turns": "turns", "conversations": "ShareGPT", "messages": "messages", "instruction": "Alpaca"}
_FOR_ALL = frozenset({"tools", "special_tokens", "licence", "license", "description"})


@dataclass(frozen=True)
class Prompt:
    """What is asked. `turns`: the user's messages in order; `messages`: the whole conversation where one was given.

    `tools`: JSON schemas of what the assistant may call. `special_tokens`: strings in the assistant's messages that are
    tokens of their own.
    """

    question_id: str
    category: str
    turns: tuple[str, ...]
    messages: tuple[Message, ...] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    special_tokens: tuple[str, ...] = ()

    def chat(self) -> list[dict[str, Any]]:
        """The conversation as dictionaries; without given answers these are the user's turns alone."""
        messages = self.messages or tuple(Message("user", turn) for turn in self.turns)
        return [message.as_dict() for message in messages]

    @property
    def num_answers(self) -> int:
        """How many answers of an assistant the row gives."""
        return sum(message.role == "assistant" for message in self.messages or ())

    @property
    def num_questions(self) -> int:
        """How many answers a target is asked for: one a user turn. Where tools were called, what they gave back belongs
        to the calls the row gives; then it is one for each of the row's own answers, and one at an open end."""
        return len(self._given_ends) if self.uses_tools else len(self.turns)

    def question(self, number: int, own_answers: Sequence[str] = (), system: str | None = None) -> list[dict[str, Any]]:
        """The messages before answer `number`, from 0.

        `own_answers`: what the target said to the questions before; they take the place of the row's answers, except
        where tools were called. `system`: instead of the row's own system messages.
        """
        if self.uses_tools:
            messages = list((self.messages or ())[: self._given_ends[number]])
        else:
            turns = [Message("user", turn) for turn in self.turns[: number + 1]]
            messages = [message for message in self.messages or () if message.role == "system"] + turns[:1]
            for answer, turn in zip(own_answers[:number], turns[1:], strict=True):
                messages += [Message("assistant", answer), turn]
        if system is not None:
            messages = [Message("system", system), *(one for one in messages if one.role != "system")]
        return [message.as_dict() for message in messages]

    @property
    def uses_tools(self) -> bool:
        """Whether the row holds tool calls or their outputs."""
        return any(message.tool_calls or message.role == "tool" for message in self.messages or ())

    @property
    def _given_ends(self) -> list[int]:
        """Where an answer belongs in the given conversation: at each of its answers, and at its end when it is open."""
        messages = self.messages or ()
        ends = [index for index, message in enumerate(messages) if message.role == "assistant"]
        return ends if messages and messages[-1].role == "assistant" else [*ends, len(messages)]

    @property
    def asked(self) -> str:
        """The hash of the first question as it is asked, whatever file it stands in."""
        return asked_hash(self.question(0), self.tools)

    @property
    def wanted(self) -> str | None:
        """The row's own answer to its first question, without special tokens; None where it gives none as text."""
        end = next((at for at, one in enumerate(self.messages or ()) if one.role == "assistant"), None)
        if end is None or not self.messages or not self.messages[end].content:
            return None
        text = self.messages[end].content
        for token in self.special_tokens:
            text = text.replace(token, "")
        return text

    def place(self, seed: int = 0) -> float:
        """Where the hash of the prompt's turns falls in [0, 1): which side of a split it stands on."""
        digest = hashlib.sha256(json.dumps([seed, *self.turns]).encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64


@dataclass(frozen=True)
class PromptFile:
    """The prompts of a file, and its broken rows as (line from 1, reason); in a JSON array a row counts as a line."""

    prompts: tuple[Prompt, ...]
    broken: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class PromptRow:
    """One row as it was read: the prompt, or why there is none. `format`: how the row writes it; `value`: the JSON."""

    line: int
    prompt: Prompt | None
    problem: str | None
    format: str = ""
    repeated_id: bool = False
    value: Any = None


def iter_prompts(path: str | Path, feed: Callable[[bytes], object] | None = None) -> Iterator[PromptRow]:
    """The rows of a file one after another; see `iter_rows` for `feed` and errors.

    Question ids that are missing become `row-<line>`; repeated ones get `#2`, `#3` and so on, because answers are
    kept by id.
    """
    seen: dict[str, int] = {}
    for_all: Mapping[str, Any] = {}
    first = True
    for row in iter_rows(path, feed):
        if first and isinstance(row.value, Mapping) and row.value and row.value.keys() <= _FOR_ALL:
            for_all, first = row.value, False
            continue
        first = False
        try:
            prompt, kind = _prompt(row, for_all)
        except BrokenRowError as reason:
            yield PromptRow(row.line, None, str(reason), value=row.value)
            continue
        own = _with_own_id(prompt, seen)
        yield PromptRow(row.line, own, None, kind, own is not prompt, row.value)


def read_prompts(path: str | Path, limit: int | None = None) -> PromptFile:
    """Read at most `limit` prompts. Broken rows are described, not fatal.

    Raises HeadwayError when the file cannot be read or holds no usable prompt, and for a limit below 1.
    """
    if limit is not None and limit < 1:
        raise HeadwayError(f"The limit must be at least 1 prompt, but it is {limit}.")
    prompts: list[Prompt] = []
    broken: list[tuple[int, str]] = []
    for row in iter_prompts(path):
        if row.prompt is None:
            broken.append((row.line, row.problem or ""))
            continue
        prompts.append(row.prompt)
        if len(prompts) == limit:
            break
    if not prompts:
        raise no_prompts(path, broken)
    return PromptFile(tuple(prompts), tuple(broken))


def no_prompts(path: str | Path, broken: Sequence[tuple[int, str]]) -> HeadwayError:
    """What to say of a file without a single usable row."""
    first = f"the first problem is in line {broken[0][0]}: {broken[0][1]}" if broken else "the file is empty"
    return HeadwayError(f"No usable prompt in {path} ({first}); give JSONL rows with a list named turns.")


def split_by_hash(prompts: Sequence[Prompt], fraction: float, seed: int) -> tuple[list[Prompt], list[Prompt]]:
    """Split into (kept, held out); about `fraction` of the prompts are held out.

    A prompt's side depends on its turns and the seed alone, so it stays on its side when a file grows, and equal
    prompts never stand on both. Raises ValueError for a fraction outside [0, 1].
    """
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"fraction must be between 0 and 1, got {fraction}")
    kept: list[Prompt] = []
    held_out: list[Prompt] = []
    for prompt in prompts:
        (held_out if prompt.place(seed) < fraction else kept).append(prompt)
    return kept, held_out


def _prompt(row: Row, for_all: Mapping[str, Any]) -> tuple[Prompt, str]:
    """The prompt of a row and the name of its format."""
    if row.problem is not None:
        raise BrokenRowError(row.problem)
    value = row.value
    if not isinstance(value, Mapping):
        raise BrokenRowError("is no JSON object")
    name = value.get("question_id", value.get("id"))
    question_id = f"row-{row.line}" if name is None or name == "" else text_of(str(name), "question_id")
    prompt = Prompt(
        question_id, text_of(value.get("category") or "none", "category"), (),
        tools=tool_schemas(value.get("tools", for_all.get("tools"))),
        special_tokens=special_token_names(value.get("special_tokens", for_all.get("special_tokens"))),
    )  # fmt: skip
    key = next((key for key in FORMATS if key in value), None)
    if key is None:
        raise BrokenRowError("has none of turns, conversations, messages and instruction")
    if key == "turns":
        return replace(prompt, turns=_turns(value["turns"])), FORMATS[key]
    messages = _alpaca(value) if key == "instruction" else conversation(value[key], key)
    turns = tuple(message.content for message in messages if message.role == "user")
    return replace(prompt, turns=turns, messages=messages), FORMATS[key]


def _with_own_id(prompt: Prompt, seen: dict[str, int]) -> Prompt:
    """Give a repeated question id a number that no earlier row has."""
    name = prompt.question_id
    while name in seen:
        seen[prompt.question_id] += 1
        name = f"{prompt.question_id}#{seen[prompt.question_id]}"
    seen[name] = 1
    return prompt if name == prompt.question_id else replace(prompt, question_id=name)


def _turns(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise BrokenRowError("turns is not a list with at least one text")
    return tuple(text_of(turn, f"turn {number}") for number, turn in enumerate(value, 1))


def _alpaca(row: Mapping[str, Any]) -> tuple[Message, ...]:
    question = text_of(row["instruction"], "instruction")
    if row.get("input"):
        question = f"{question}\n\n{text_of(row['input'], 'input')}"
    if not row.get("output"):
        return (Message("user", question),)
    return (Message("user", question), Message("assistant", text_of(row["output"], "output")))
