"""Prompts and the files that people keep them in.

Read here: JSONL rows with `turns` (the shape MT-bench, EAGLE, Medusa and Spec-Bench share), ShareGPT
(`conversations`), OpenAI (`messages`) and Alpaca (`instruction`, `input`, `output`), one JSON object a line or one JSON
array of them; the format is recognised row by row, so files may be mixed. Knows no tokenizer, no template and no model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backend.errors import HeadwayError

SPEAKERS = {
    "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant",
    "model": "assistant", "system": "system", "developer": "system",
}


@dataclass(frozen=True)
class Message:
    """One message of a conversation; `role` is system, user or assistant."""

    role: str
    content: str

    def as_dict(self) -> dict[str, str]:
        """The shape chat templates take."""
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True)
class Prompt:
    """What is asked. `turns`: the user's messages in order; `messages`: the whole conversation where one was given."""

    question_id: str
    category: str
    turns: tuple[str, ...]
    messages: tuple[Message, ...] | None = None

    def chat(self) -> list[dict[str, str]]:
        """The conversation as dictionaries; without given answers these are the user's turns alone."""
        messages = self.messages or tuple(Message("user", turn) for turn in self.turns)
        return [message.as_dict() for message in messages]


@dataclass(frozen=True)
class PromptFile:
    """The prompts of a file, and its broken rows as (line from 1, reason); in a JSON array a row counts as a line."""

    prompts: tuple[Prompt, ...]
    broken: tuple[tuple[int, str], ...]


class _BrokenRow(ValueError):
    """Why one row cannot be used."""


def read_prompts(path: str | Path, limit: int | None = None) -> PromptFile:
    """Read at most `limit` prompts. Broken rows are described, not fatal.

    Question ids that are missing become `row-<line>`; repeated ones get `#2`, `#3` and so on, because answers are
    kept by id. Raises HeadwayError when the file cannot be read or holds no usable prompt, and for a limit below 1.
    """
    if limit is not None and limit < 1:
        raise HeadwayError(f"The limit must be at least 1 prompt, but it is {limit}.")
    path = Path(path)
    prompts: list[Prompt] = []
    broken: list[tuple[int, str]] = []
    seen: dict[str, int] = {}
    for line, row in _rows(path):
        if limit is not None and len(prompts) == limit:
            break
        try:
            prompt = _prompt(row, line)
        except _BrokenRow as reason:
            broken.append((line, str(reason)))
            continue
        prompts.append(_with_own_id(prompt, seen))
    if not prompts:
        first = f"the first problem is in line {broken[0][0]}: {broken[0][1]}" if broken else "the file is empty"
        raise HeadwayError(f"No usable prompt in {path} ({first}); give JSONL rows with a list named turns.")
    return PromptFile(tuple(prompts), tuple(broken))


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
        digest = hashlib.sha256(json.dumps([seed, *prompt.turns]).encode()).digest()
        position = int.from_bytes(digest[:8], "big") / 2**64  # uniform in [0, 1)
        (held_out if position < fraction else kept).append(prompt)
    return kept, held_out


def _rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line, parsed row); a row that is no JSON is yielded as the _BrokenRow that says so."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            start = file.read(1)
            while start.isspace():
                start = file.read(1)
            file.seek(0)
            if start == "[":
                yield from enumerate(_array(file.read(), path), 1)
                return
            for line, text in enumerate(file, 1):
                if text.strip():
                    yield line, _parse(text)
    except UnicodeDecodeError:
        raise HeadwayError(f"{path} is not UTF-8 text; save it as UTF-8 JSONL.") from None
    except OSError as error:
        raise HeadwayError(f"Cannot read the prompts in {path}: {error.strerror or error}.") from None


def _array(text: str, path: Path) -> list[Any]:
    rows = _parse(text)
    if isinstance(rows, _BrokenRow):
        raise HeadwayError(f"{path} begins like a JSON array but {rows}; mend it or give one JSON object a line.")
    return list(rows)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        return _BrokenRow(f"is no valid JSON ({error.msg} at character {error.pos + 1})")
    except (RecursionError, ValueError):  # ValueError: an integer of more digits than Python parses
        return _BrokenRow("is nested too deeply or holds an endless number")


def _prompt(row: Any, line: int) -> Prompt:
    if isinstance(row, _BrokenRow):
        raise row
    if not isinstance(row, Mapping):
        raise _BrokenRow("is no JSON object")
    name = row.get("question_id", row.get("id"))
    question_id = f"row-{line}" if name is None or name == "" else _text(str(name), "question_id")
    category = row.get("category") or "none"
    prompt = Prompt(question_id, _text(category, "category"), ())
    if "turns" in row:
        return replace(prompt, turns=_turns(row["turns"]))
    if "conversations" in row or "messages" in row:
        key = "conversations" if "conversations" in row else "messages"
        messages = _conversation(row[key], key)
    elif "instruction" in row:
        messages = _alpaca(row)
    else:
        raise _BrokenRow("has none of turns, conversations, messages and instruction")
    turns = tuple(message.content for message in messages if message.role == "user")
    return replace(prompt, turns=turns, messages=messages)


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
        raise _BrokenRow("turns is not a list with at least one text")
    return tuple(_text(turn, f"turn {number}") for number, turn in enumerate(value, 1))


def _conversation(value: Any, key: str) -> tuple[Message, ...]:
    if not isinstance(value, list) or not value:
        raise _BrokenRow(f"{key} is not a list with at least one message")
    messages = []
    for number, item in enumerate(value, 1):
        if not isinstance(item, Mapping):
            raise _BrokenRow(f"message {number} is no JSON object")
        speaker = item.get("from", item.get("role"))
        role = SPEAKERS.get(speaker) if isinstance(speaker, str) else None
        if role is None:
            raise _BrokenRow(f"message {number} has the unknown speaker {speaker!r}")
        messages.append(Message(role, _text(_joined(item.get("value", item.get("content"))), f"message {number}")))
    speakers = [message.role for message in messages if message.role != "system"]
    if speakers[:1] != ["user"]:
        raise _BrokenRow("the conversation does not begin with the user")
    return tuple(messages)


def _joined(content: Any) -> Any:
    """OpenAI content may be a list of parts; text parts are joined, any other part makes the message unusable."""
    if not isinstance(content, list):
        return content
    texts = [part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") == "text"]
    known = [text for text in texts if isinstance(text, str)]
    return "".join(known) if len(known) == len(content) else None


def _alpaca(row: Mapping[str, Any]) -> tuple[Message, ...]:
    question = _text(row["instruction"], "instruction")
    if row.get("input"):
        question = f"{question}\n\n{_text(row['input'], 'input')}"
    if not row.get("output"):
        return (Message("user", question),)
    return (Message("user", question), Message("assistant", _text(row["output"], "output")))


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise _BrokenRow(f"{what} is no text")
    if not value.strip():
        raise _BrokenRow(f"{what} is empty")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise _BrokenRow(f"{what} holds half of a surrogate pair, which is no character") from None
    return value
