"""Messages of a conversation, tool calls and tool outputs included, in one shape whatever shape they came in.

Read here: OpenAI's `messages` (`tool_calls`, role `tool`), ShareGPT's `conversations` (from: human, gpt, tool,
function_call, observation). Knows no template and no tokenizer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

SPEAKERS = {
    "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant",
    "model": "assistant", "system": "system", "developer": "system", "tool": "tool", "observation": "tool",
    "function": "tool", "ipython": "tool", "function_call": "assistant",
}  # fmt: skip


class BrokenRowError(ValueError):
    """Why one row cannot be used; the text goes on behind “line 3”."""


@dataclass(frozen=True)
class Message:
    """One message of a conversation; `role` is system, user, assistant or tool.

    `tool_calls`: what the assistant calls, as OpenAI writes it, with `arguments` as an object; `content` may then be
    empty. `reasoning`: the assistant's thinking where the row gives it apart. `name`, `tool_call_id`: of a tool's
    output.
    """

    role: str
    content: str
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    reasoning: str | None = None
    name: str | None = None
    tool_call_id: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The shape chat templates take."""
        given: dict[str, Any] = {"role": self.role, "content": self.content}
        more = {
            "tool_calls": [dict(call) for call in self.tool_calls], "reasoning_content": self.reasoning,
            "name": self.name, "tool_call_id": self.tool_call_id,
        }  # fmt: skip
        return given | {key: value for key, value in more.items() if value}


def asked_hash(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()) -> str:
    """16 hexadecimal characters that are the same wherever the same is asked: messages as `as_dict` gives them."""
    asked = [list(map(dict, messages)), list(map(dict, tools))]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def text_of(value: Any, what: str) -> str:
    """The text, if it is one with anything in it. Raises BrokenRowError."""
    if not isinstance(value, str):
        raise BrokenRowError(f"{what} is no text")
    if not value.strip():
        raise BrokenRowError(f"{what} is empty")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BrokenRowError(f"{what} holds half of a surrogate pair, which is no character") from None
    return value


def conversation(value: Any, key: str) -> tuple[Message, ...]:
    """The messages under `key` of a row. Raises BrokenRowError with what is wrong."""
    if not isinstance(value, list) or not value:
        raise BrokenRowError(f"{key} is not a list with at least one message")
    messages = tuple(_message(item, f"message {number}") for number, item in enumerate(value, 1))
    speakers = [message.role for message in messages if message.role != "system"]
    if speakers[:1] != ["user"]:
        raise BrokenRowError("the conversation does not begin with the user")
    for number, message in enumerate(messages[1:], 2):
        if message.role == "tool" and messages[number - 2].role not in ("assistant", "tool"):
            raise BrokenRowError(f"message {number} is a tool's output, but no assistant called a tool before it")
    return tuple(_with_call_ids(messages))


def tool_schemas(value: Any) -> tuple[Mapping[str, Any], ...]:
    """The tools of a row: JSON schemas in OpenAI's shape, bare function schemas, or either as JSON text."""
    if value is None or value == "" or value == []:
        return ()
    tools = _from_text(value, "tools")
    if not isinstance(tools, list):
        raise BrokenRowError("tools is not a list of JSON schemas")
    return tuple(_schema(tool, number) for number, tool in enumerate(tools, 1))


def special_token_names(value: Any) -> tuple[str, ...]:
    """The new special tokens a row or file announces."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(
        isinstance(token, str) and token.strip() == token != "" for token in value
    ):
        raise BrokenRowError("special_tokens is not a list of texts without blanks around them")
    return tuple(dict.fromkeys(text_of(token, "a special token") for token in value))


def _with_call_ids(messages: Sequence[Message]) -> Iterator[Message]:
    """Calls and outputs without an id get one, in order: some templates demand them (nine letters or digits)."""
    made = 0
    waiting: list[Mapping[str, Any]] = []
    for message in messages:
        if message.tool_calls:
            waiting = []
            for call in message.tool_calls:
                made += "id" not in call
                waiting.append(call if "id" in call else {**call, "id": f"call{made:05d}"})
            message = replace(message, tool_calls=tuple(waiting))
        elif message.role == "tool":
            call = waiting.pop(0) if waiting else {}
            message = replace(
                message,
                tool_call_id=message.tool_call_id or call.get("id"),
                name=message.name or call.get("function", {}).get("name"),
            )
        yield message


def _message(item: Any, what: str) -> Message:
    if not isinstance(item, Mapping):
        raise BrokenRowError(f"{what} is no JSON object")
    speaker = item.get("from", item.get("role"))
    role = SPEAKERS.get(speaker) if isinstance(speaker, str) else None
    if role is None:
        raise BrokenRowError(f"{what} has the unknown speaker {speaker!r}")
    content = _joined(item.get("value", item.get("content")))
    if speaker == "function_call":
        return Message(role, "", _calls(_from_text(content, f"{what}'s call"), what))
    calls = _calls(item.get("tool_calls"), what) if role == "assistant" else ()
    reasoning = item.get("reasoning_content") or None
    if reasoning is not None and role == "assistant":
        text_of(reasoning, f"{what}'s reasoning")
    empty = content is None or (isinstance(content, str) and not content.strip())
    may_be_empty = bool(calls) or role == "tool"  # a call needs no words, and some tools say nothing
    names = [item.get(key) if isinstance(item.get(key), str) else None for key in ("name", "tool_call_id")]
    return Message(
        role, "" if empty and may_be_empty else text_of(content, what), calls,
        reasoning if role == "assistant" else None, *(names if role == "tool" else (None, None)),
    )  # fmt: skip


def _joined(content: Any) -> Any:
    """OpenAI content may be a list of parts; text parts are joined, any other part makes the message unusable."""
    if not isinstance(content, list):
        return content
    texts = [part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") == "text"]
    known = [text for text in texts if isinstance(text, str)]
    return "".join(known) if len(known) == len(content) else False


def _calls(value: Any, what: str) -> tuple[Mapping[str, Any], ...]:
    if value is None or value == []:
        return ()
    calls = value if isinstance(value, list) else [value]
    return tuple(_call(call, f"tool call {number} of {what}") for number, call in enumerate(calls, 1))


def _call(call: Any, what: str) -> Mapping[str, Any]:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise BrokenRowError(f"{what} is no JSON object")
    name = text_of(function.get("name"), f"the name in {what}")
    arguments = _from_text(function.get("arguments", {}) or {}, f"the arguments of {what}")
    if not isinstance(arguments, Mapping):
        raise BrokenRowError(f"the arguments of {what} are no JSON object")
    made: dict[str, Any] = {"type": "function", "function": {"name": name, "arguments": dict(arguments)}}
    return made | ({"id": call["id"]} if isinstance(call.get("id"), str) else {})


def _schema(tool: Any, number: int) -> Mapping[str, Any]:
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        raise BrokenRowError(f"tool {number} is no JSON object")
    text_of(function.get("name"), f"the name of tool {number}")
    return tool if "function" in tool else {"type": "function", "function": dict(function)}


def _from_text(value: Any, what: str) -> Any:
    """JSON that may come as text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise BrokenRowError(f"{what} is text, but no valid JSON") from None
