"""One conversation as text and tokens under a target's own chat template, tools included.

Text of messages, tool calls and tool schemas can never forge a turn: strings such as <|im_end|> inside it are encoded
as plain text; private-use characters stand in for them while the template is rendered. Only special tokens that the
data announces may be written by the assistant. Knows no file format and no loss; templates.py is its door.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jinja2 import TemplateError

from backend.errors import HeadwayError

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]]
_FIRST_STAND_IN = 0xE000  # private-use characters stand in for special tokens inside messages while rendering
_LAST_STAND_IN = 0xF8FF
_HELP_TOOLS = "choose a target whose template knows tools, or write the calls into the messages themselves"


class Rendering:
    """One conversation and its prefixes as text, with special tokens inside messages replaced by stand-ins.

    Raises HeadwayError for empty messages, for special tokens the tokenizer does not know, when the template refuses
    the conversation, and when it leaves tools, tool calls or tool outputs out.
    """

    def __init__(
        self, tokenizer: Any, messages: Messages, tools: Tools = (), special_tokens: Sequence[str] = ()
    ) -> None:
        check_messages(messages)
        self.tokenizer = tokenizer
        self.raw = not getattr(tokenizer, "chat_template", None)
        self.tools: list[Any] = []
        uses_tools = bool(tools) or any(m.get("tool_calls") or m["role"] == "tool" for m in messages)
        if uses_tools and self.raw:
            raise HeadwayError(f"This target has no chat template, so it cannot be shown tools; {_HELP_TOOLS}.")
        check_special_tokens(tokenizer, special_tokens)
        self._learn_marks(special_tokens, uses_tools)
        strings = list(_strings([*messages, *tools]))
        everything = "".join(strings)
        free = (chr(c) for c in range(_FIRST_STAND_IN, _LAST_STAND_IN + 1) if chr(c) not in everything)
        found = sorted((mark for mark in self.marks if mark in everything), key=len, reverse=True)
        self.stand_ins = dict(zip(found, free, strict=False))
        probes = tuple(next(free, "") for _ in range(3))
        if len(self.stand_ins) < len(found) or not all(probes):
            raise HeadwayError("The prompt holds too many private-use characters to be encoded safely; remove them.")
        self.messages = [self._guarded_message(message) for message in messages]
        self.tools = [_mapped(dict(tool), self._guard(())) for tool in tools]
        if uses_tools:
            self._settle_tools(probes)

    def text(self, count: int, add_generation_prompt: bool) -> str:
        """The first `count` messages as text."""
        if not self.raw:
            return self._apply(self.messages[:count], add_generation_prompt)
        return "\n\n".join([message["content"] for message in self.messages[:count]] + [""] * add_generation_prompt)

    def encode(self, text: str, at_start: bool = True) -> list[int]:
        """Encode text; special tokens count only where the template wrote them. `at_start`: nothing comes before."""
        if self.raw:
            return self._plain(self._restored(text), add_special_tokens=at_start)
        whole = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        if not any(stand_in in text for stand_in in self.stand_ins.values()):
            return whole
        pieces = re.split("(" + "|".join(sorted(map(re.escape, self.marks), key=len, reverse=True)) + ")", text)
        if self._joined(pieces) != whole:  # a tokenizer that reads text differently behind a special token
            raise HeadwayError(self._not_as_text())
        return self._joined([self._restored(piece) for piece in pieces])

    def encode_apart(self, parts: Sequence[str]) -> list[list[int]]:
        """Ids of consecutive parts of one text, such that each is what it is when the parts before it are fixed.

        Where tokens would join across a border the parts are encoded apart, as they are when an answer is generated.
        """
        whole = "".join(parts)
        ids = self.encode(whole) if whole else []
        ends: list[int] = []
        for part in parts:
            ends.append((ends[-1] if ends else 0) + len(part))
        borders = [self.encode(whole[:end]) if end else [] for end in ends]
        if all(ids[: len(border)] == border for border in borders):
            starts = [0, *map(len, borders)]
            return [ids[start : len(border)] for start, border in zip(starts, borders, strict=False)]
        pieces = [self.encode(part, number == 0) if part else [] for number, part in enumerate(parts)]
        if self.tokenizer.decode([token for piece in pieces for token in piece]) != self.tokenizer.decode(ids):
            raise HeadwayError("This tokenizer joins prompt and answer, so the answer's first token is not known.")
        return pieces

    def num_written(self, part: Sequence[int]) -> int:
        """How many tokens of a turn the assistant writes: all up to its last special token; all when it has none.

        What a template puts after the end-of-turn token (a line end in ChatML) is never generated. Special tokens that
        the data announces are content, not ends.
        """
        ends = [at for at, token in enumerate(part) if token in self.special_ids and token not in self.announced]
        return ends[-1] + 1 if ends else len(part)

    def _learn_marks(self, special_tokens: Sequence[str], uses_tools: bool) -> None:
        """`marks`: every string that is a token with a meaning to the template; `announced`: ids of those the assistant
        may write."""
        added = self.tokenizer.added_tokens_decoder
        names = {str(token): index for index, token in added.items()}
        self.special = {str(token): index for index, token in added.items() if token.special}
        # A token that is not marked special opens or ends turns when the template itself writes it around a message.
        around = "" if self.raw else self._apply([{"role": "user", "content": "x"}], True)
        own = {token for token in special_tokens if token not in around}
        if uses_tools:
            around += self._tool_frame()
        self.marks = self.special | {name: index for name, index in names.items() if name in around}
        self.special_ids = frozenset(self.marks.values())
        self.own = frozenset(own)
        self.announced = frozenset(names[token] for token in own if token in names)

    def _tool_frame(self) -> str:
        """What the template writes around tool calls and outputs; nothing where it refuses this example."""
        call = {"type": "function", "id": "example01", "function": {"name": "f", "arguments": {"a": "b"}}}
        example: list[dict[str, Any]] = [
            {"role": "user", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "name": "f", "tool_call_id": "example01", "content": "y"},
        ]  # fmt: skip
        try:
            return self._apply(example, True)
        except HeadwayError:
            return ""

    def _settle_tools(self, probes: tuple[str, ...]) -> None:
        """Find out whether calls take their arguments as objects or as JSON text, and whether all is shown at all."""
        try:
            self._apply(self.messages, False)
        except HeadwayError:
            as_text = [_with_calls(message, _arguments_as_text) for message in self.messages]
            self._apply(as_text, False)  # where this is refused as well, it says why
            self.messages = as_text
        for_tool, for_call, for_output = probes
        messages = [_with_calls(message, lambda call: _renamed(call, for_call)) for message in self.messages]
        messages = [m | {"content": m["content"] + for_output} if m["role"] == "tool" else m for m in messages]
        tools, self.tools = self.tools, [_renamed(tool, for_tool) for tool in self.tools]
        shown = self._apply(messages, False)
        self.tools = tools
        num_calls = sum(len(message.get("tool_calls", ())) for message in messages)
        missing = [
            name
            for name, gone in (
                ("the tools' schemas", shown.count(for_tool) < len(tools)),
                ("tool calls", shown.count(for_call) < num_calls),
                ("tool outputs", for_output not in shown and any(m["role"] == "tool" for m in messages)),
            )
            if gone
        ]
        if missing:
            raise HeadwayError(f"The chat template of this target leaves out {' and '.join(missing)}; {_HELP_TOOLS}.")

    def _apply(self, messages: Messages, add_generation_prompt: bool) -> str:
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    list(messages),
                    tools=self.tools or None,
                    tokenize=False,
                    add_generation_prompt=add_generation_prompt,
                )
            )
        except (TemplateError, TypeError, KeyError, ValueError, IndexError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise HeadwayError(f"The chat template of this target refuses the conversation: {reason}.") from None

    def _joined(self, pieces: Sequence[str]) -> list[int]:
        """Ids of text pieces and of the template's special tokens, which stand at every odd place."""
        ids: list[int] = []
        for number, piece in enumerate(pieces):
            ids += [self.marks[piece]] if number % 2 else self._plain(piece, add_special_tokens=False)
        return ids

    def _plain(self, text: str, add_special_tokens: bool) -> list[int]:
        """Encode text in which nothing counts as a special token."""
        if not text:
            return []
        ids = list(self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])
        if not self.special_ids.isdisjoint(ids):
            raise HeadwayError(self._not_as_text())
        if not add_special_tokens:
            return ids
        return list(self.tokenizer(text, add_special_tokens=True, split_special_tokens=True)["input_ids"])

    def _guarded_message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The message with stand-ins. The assistant may write announced tokens, and added ones that are not special
        (<think>)."""
        allowed: Sequence[str] = ()
        if message["role"] == "assistant":
            allowed = [mark for mark in self.stand_ins if mark in self.own or mark not in self.special]
        guarded = {key: _mapped(value, self._guard(allowed)) for key, value in message.items()}
        return guarded | {"role": message["role"], "content": guarded.get("content") or ""}

    def _guard(self, allowed: Sequence[str]) -> Callable[[str], str]:
        def guard(text: str) -> str:
            for mark, stand_in in self.stand_ins.items():
                if mark not in allowed:
                    text = text.replace(mark, stand_in)
            return text

        return guard

    def _restored(self, text: str) -> str:
        for mark, stand_in in self.stand_ins.items():
            text = text.replace(stand_in, mark)
        return text

    def _not_as_text(self) -> str:
        names = " and ".join(sorted(self.stand_ins)) or "a special token"
        return f"The prompt holds {names}, which this tokenizer cannot read as plain text; remove it."


def check_messages(messages: Messages) -> None:
    """Raises HeadwayError for no message, and for one that says nothing. A call needs no words, nor does an output."""
    if not messages:
        raise HeadwayError("The conversation is empty; type a prompt.")
    for number, message in enumerate(messages, 1):
        silent = message["role"] == "tool" or message.get("tool_calls")
        if not silent and not (message.get("content") or "").strip():
            raise HeadwayError(f"Message {number} ({message['role']}) is empty; type some text.")


def check_special_tokens(tokenizer: Any, special_tokens: Sequence[str]) -> None:
    """Raises HeadwayError unless each is exactly one token of this tokenizer wherever it stands in a text."""
    known = {str(token) for token in tokenizer.added_tokens_decoder.values()} if special_tokens else set()
    lost = [token for token in special_tokens if token not in known]
    if not lost:
        return
    lengths = [len(tokenizer(token, add_special_tokens=False)["input_ids"]) for token in lost]
    names = ", ".join(f"{token} ({length} tokens)" for token, length in zip(lost, lengths, strict=True))
    raise HeadwayError(
        f"The tokenizer of this target does not know {names} as {'tokens' if len(lost) > 1 else 'a token'} of "
        f"{'their' if len(lost) > 1 else 'its'} own: add them to the tokenizer when the target is fine-tuned, or take "
        "them off special_tokens."
    )


def _strings(value: Any) -> Iterator[str]:
    """Every text inside a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The same JSON value with every text changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(item, change) for item in value]
    return value


def _with_calls(message: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    return message | {"tool_calls": [change(call) for call in calls]} if calls else message


def _arguments_as_text(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return call | {"function": function | {"arguments": json.dumps(function["arguments"], ensure_ascii=False)}}


def _renamed(tool: dict[str, Any], mark: str) -> dict[str, Any]:
    function = tool["function"]
    return tool | {"function": function | {"name": function["name"] + mark}}
