"""Conversations as token ids: the target's own chat template, and which tokens the assistant writes.

Text of messages can never forge a turn: strings such as <|im_end|> inside it are encoded as plain text. (Templates
whose turn marks are ordinary text, `USER:`, cannot be protected so.) Without a template the raw mode joins the contents
with blank lines; `raw_notice` says so. Knows no model and no file format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from jinja2 import TemplateError

from backend.errors import HeadwayError

Messages = Sequence[Mapping[str, str]]
RAW_NOTICE = "This target has no chat template: the messages are joined with blank lines and sent as raw text."
_FIRST_STAND_IN = 0xE000  # private-use characters stand in for special tokens inside messages while rendering
_LAST_STAND_IN = 0xF8FF


@dataclass(frozen=True)
class MaskRow:
    """One token of a rendered conversation; `text` is printable (line ends are shown as \\n)."""

    position: int
    token_id: int
    text: str
    trained: bool


def raw_notice(tokenizer: Any) -> str | None:
    """A sentence to show when the tokenizer has no chat template, else None."""
    return None if getattr(tokenizer, "chat_template", None) else RAW_NOTICE


def encode_chat(
    tokenizer: Any, messages: Messages, add_generation_prompt: bool = True, max_tokens: int | None = None
) -> list[int]:
    """Token ids of the conversation, equal to `apply_chat_template` for text that holds no special token.

    Raises HeadwayError for an empty conversation or message, for more than `max_tokens` tokens, when the template
    refuses the roles, and when special tokens in the text cannot be encoded as plain text.
    """
    rendering = _Rendering(tokenizer, messages)
    return _checked(rendering.encode(rendering.text(len(messages), add_generation_prompt)), max_tokens)


def encode_raw(tokenizer: Any, text: str, max_tokens: int | None = None) -> list[int]:
    """Token ids of a text without any template, with the tokenizer's own first token. Errors as in encode_chat."""
    if not text.strip():
        raise HeadwayError("The prompt is empty; type some text.")
    return _checked(list(tokenizer(text, split_special_tokens=True)["input_ids"]), max_tokens)


def loss_mask(tokenizer: Any, messages: Messages, max_tokens: int | None = None) -> tuple[list[int], list[bool]]:
    """(ids, mask): mask is True on the tokens the assistant writes, its end-of-turn token included, and nowhere else.

    Works for every template: what the assistant writes in a turn is what lies between the conversation before it,
    rendered with a generation prompt, and the conversation up to it. Where tokens would join across such a border the
    parts are encoded apart, as they are when an answer is generated. Raises HeadwayError as encode_chat does, without
    an assistant turn, and when the template rewrites earlier turns (then no such borders exist).
    """
    rendering = _Rendering(tokenizer, messages)
    if not any(message["role"] == "assistant" for message in messages):
        raise HeadwayError("The conversation has no answer of the assistant; nothing in it can be trained on.")
    ids: list[int] = []
    mask: list[bool] = []
    for part, written in rendering.parts():
        length = _num_written(part, rendering.special_ids) if written else 0
        ids += part
        mask += [True] * length + [False] * (len(part) - length)
    return _checked(ids, max_tokens), mask


def describe_mask(tokenizer: Any, ids: Sequence[int], mask: Sequence[bool]) -> list[MaskRow]:
    """One row a token for the command line. Part of a character is shown as the tokenizer's own symbol."""
    rows = []
    for position, (token, trained) in enumerate(zip(ids, mask, strict=True)):
        text = tokenizer.decode([token], skip_special_tokens=False)
        if not text or "\ufffd" in text:
            text = str(tokenizer.convert_ids_to_tokens(token))
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
        rows.append(MaskRow(position, int(token), shown, bool(trained)))
    return rows


def format_mask(rows: Sequence[MaskRow]) -> str:
    """The rows as a table of position, token id, yes/no, text."""
    lines = [f"{'position':>8} {'id':>7} trained text"]
    lines += [f"{r.position:>8} {r.token_id:>7} {'yes' if r.trained else 'no':<7} {r.text}" for r in rows]
    return "\n".join(lines)


class _Rendering:
    """One conversation and its prefixes as text, with special tokens inside messages replaced by stand-ins."""

    def __init__(self, tokenizer: Any, messages: Messages) -> None:
        _check_messages(messages)
        self.tokenizer = tokenizer
        self.raw = raw_notice(tokenizer) is not None
        added = tokenizer.added_tokens_decoder
        special = {str(token): index for index, token in added.items() if token.special}
        # A token that is not marked special opens or ends turns when the template itself writes it around a message.
        around = "" if self.raw else self._apply([{"role": "user", "content": "x"}], True)
        self.marks = special | {str(token): index for index, token in added.items() if str(token) in around}
        self.special_ids = frozenset(self.marks.values())
        contents = "".join(message["content"] for message in messages)
        free = (chr(c) for c in range(_FIRST_STAND_IN, _LAST_STAND_IN + 1) if chr(c) not in contents)
        found = sorted((mark for mark in self.marks if mark in contents), key=len, reverse=True)
        self.stand_ins = dict(zip(found, free, strict=False))
        if len(self.stand_ins) < len(found):
            raise HeadwayError("The prompt holds too many private-use characters to be encoded safely; remove them.")
        self.messages = [{**message, "content": self._guarded(message, special)} for message in messages]

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

    def parts(self) -> Iterator[tuple[list[int], bool]]:
        """The conversation cut into (ids, whether the assistant wrote them)."""
        full = self.text(len(self.messages), False)
        cuts = self._cuts(full)
        ids = self.encode(full)
        borders = [self.encode(full[:cut]) if cut else [] for cut in cuts]
        if all(ids[: len(border)] == border for border in borders):
            pieces = [ids[len(a) : len(b)] for a, b in pairwise(borders)]
        else:
            pieces = [self.encode(full[start:end], start == 0) if start < end else [] for start, end in pairwise(cuts)]
            if self.tokenizer.decode([token for piece in pieces for token in piece]) != self.tokenizer.decode(ids):
                raise HeadwayError("This tokenizer joins prompt and answer, so the answer's first token is not known.")
        for number, piece in enumerate(pieces):
            yield piece, number % 2 == 1

    def _cuts(self, full: str) -> list[int]:
        """Character positions 0, start and end of each assistant turn, end of the text."""
        cuts = [0]
        for index, message in enumerate(self.messages):
            if message["role"] != "assistant":
                continue
            for prefix in (self.text(index, True), self.text(index + 1, False)):
                if not full.startswith(prefix) or len(prefix) < cuts[-1]:
                    raise HeadwayError(
                        f"The chat template of this target rewrites earlier turns (seen at message {index + 1}), so "
                        "the assistant's tokens cannot be told apart; train on one answer a conversation."
                    )
                cuts.append(len(prefix))
        return [*cuts, len(full)]

    def _apply(self, messages: Messages, add_generation_prompt: bool) -> str:
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    list(messages), tokenize=False, add_generation_prompt=add_generation_prompt
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

    def _guarded(self, message: Mapping[str, str], special: Mapping[str, int]) -> str:
        """The content with stand-ins. The assistant may write added tokens that are not special (<think>)."""
        content = message["content"]
        for mark, stand_in in self.stand_ins.items():
            if mark in special or message["role"] != "assistant":
                content = content.replace(mark, stand_in)
        return content

    def _restored(self, text: str) -> str:
        for mark, stand_in in self.stand_ins.items():
            text = text.replace(stand_in, mark)
        return text

    def _not_as_text(self) -> str:
        names = " and ".join(sorted(self.stand_ins)) or "a special token"
        return f"The prompt holds {names}, which this tokenizer cannot read as plain text; remove it."


def _num_written(part: Sequence[int], special_ids: frozenset[int]) -> int:
    """How many tokens of a turn the assistant writes: all up to the last special token; all when there is none.

    What a template puts after the end-of-turn token (a line end in ChatML) is never generated.
    """
    ends = [position for position, token in enumerate(part) if token in special_ids]
    return ends[-1] + 1 if ends else len(part)


def _check_messages(messages: Messages) -> None:
    if not messages:
        raise HeadwayError("The conversation is empty; type a prompt.")
    for number, message in enumerate(messages, 1):
        if not message["content"].strip():
            raise HeadwayError(f"Message {number} ({message['role']}) is empty; type some text.")


def _checked(ids: list[int], max_tokens: int | None) -> list[int]:
    if not ids:
        raise HeadwayError("The prompt has no tokens; type some text.")
    if max_tokens is not None and len(ids) > max_tokens:
        raise HeadwayError(f"The prompt has {len(ids)} tokens, but at most {max_tokens} fit; shorten it.")
    return ids
