"""Conversations as token ids: the target's own chat template, and which tokens the assistant writes.

Text of messages can never forge a turn: strings such as <|im_end|> inside it are encoded as plain text. (Templates
whose turn marks are ordinary text, `USER:`, cannot be protected so.) Without a template the raw mode joins the contents
with blank lines; `raw_notice` says so. Knows no model and no file format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backend.data.rendering import Messages, Rendering, Tools
from backend.errors import HeadwayError

RAW_NOTICE = "This target has no chat template: the messages are joined with blank lines and sent as raw text."


@dataclass(frozen=True)
class MaskRow:
    """One token of a rendered conversation; `text` is printable (line ends are shown as \\n)."""

    position: int
    token_id: int
    text: str
    trained: bool
    special: bool = False


@dataclass(frozen=True)
class ConversationMask:
    """A conversation as tokens; `mask` is True on the tokens the assistant writes. `note`: what a person should know,
    such as answers that are not trained on, else None."""

    ids: tuple[int, ...]
    mask: tuple[bool, ...]
    num_answers: int
    num_trained_answers: int
    note: str | None = None


def raw_notice(tokenizer: Any) -> str | None:
    """A sentence to show when the tokenizer has no chat template, else None."""
    return None if getattr(tokenizer, "chat_template", None) else RAW_NOTICE


def encode_chat(
    tokenizer: Any,
    messages: Messages,
    add_generation_prompt: bool = True,
    max_tokens: int | None = None,
    tools: Tools = (),
    special_tokens: Sequence[str] = (),
) -> list[int]:
    """Token ids of the conversation, equal to `apply_chat_template` for text that holds no special token.

    `tools`: JSON schemas shown to the target. `special_tokens`: strings in the assistant's messages that are tokens of
    their own. Raises HeadwayError for an empty conversation or message, for more than `max_tokens` tokens, when the
    template refuses the roles or has no place for tools, when the tokenizer does not know a special token, and when
    special tokens in the text cannot be encoded as plain text.
    """
    rendering = Rendering(tokenizer, messages, tools, special_tokens)
    return _checked(rendering.encode(rendering.text(len(messages), add_generation_prompt)), max_tokens)


def encode_raw(tokenizer: Any, text: str, max_tokens: int | None = None) -> list[int]:
    """Token ids of a text without any template, with the tokenizer's own first token. Errors as in encode_chat."""
    if not text.strip():
        raise HeadwayError("The prompt is empty; type some text.")
    return _checked(list(tokenizer(text, split_special_tokens=True)["input_ids"]), max_tokens)


def loss_mask(
    tokenizer: Any,
    messages: Messages,
    max_tokens: int | None = None,
    tools: Tools = (),
    special_tokens: Sequence[str] = (),
) -> tuple[list[int], list[bool]]:
    """(ids, mask): mask is True on the tokens the assistant writes, its end-of-turn token included, and nowhere else.

    See `mask_conversation`, which says more about what it found.
    """
    found = mask_conversation(tokenizer, messages, max_tokens, tools, special_tokens)
    return list(found.ids), list(found.mask)


def mask_conversation(
    tokenizer: Any,
    messages: Messages,
    max_tokens: int | None = None,
    tools: Tools = (),
    special_tokens: Sequence[str] = (),
) -> ConversationMask:
    """The conversation with the tokens of the assistant marked: text, tool calls and end-of-turn tokens, never what a
    tool gave back.

    Works for every template, with {% generation %} marks or without: what the assistant writes in a turn is what lies
    between the conversation before it, rendered with a generation prompt, and the conversation up to it. Answers that
    the template rewrites once the conversation goes on (it drops their thinking, say) are not what the target ever
    writes, so they are masked and the note says how many; `answer_samples` gives each of them as it was written. Raises
    HeadwayError as encode_chat does, without an assistant turn, and when not even the last answer can be told apart.
    """
    rendering = Rendering(tokenizer, messages, tools, special_tokens)
    turns = _assistant_turns(messages)
    full = rendering.text(len(messages), False)
    parts, num_trained, at = [], 0, 0
    for index in turns:
        before, upto = rendering.text(index, True), rendering.text(index + 1, False)
        if full.startswith(upto) and upto.startswith(before) and len(before) >= at:
            parts += [full[at : len(before)], upto[len(before) :]]
            num_trained, at = num_trained + 1, len(upto)
        elif index == turns[-1]:
            raise HeadwayError(_no_border(rendering, index))
    parts.append(full[at:])
    ids: list[int] = []
    mask: list[bool] = []
    for number, part in enumerate(rendering.encode_apart(parts)):
        written = rendering.num_written(part) if number % 2 else 0
        ids += part
        mask += [True] * written + [False] * (len(part) - written)
    skipped = len(turns) - num_trained
    note = None
    if skipped:
        note = (
            f"The chat template of this target rewrites earlier turns, so {skipped} of {len(turns)} answers are not "
            "trained on as they stand here."
        )
    return ConversationMask(tuple(_checked(ids, max_tokens)), tuple(mask), len(turns), num_trained, note)


def answer_samples(
    tokenizer: Any,
    messages: Messages,
    max_tokens: int | None = None,
    tools: Tools = (),
    special_tokens: Sequence[str] = (),
) -> list[tuple[list[int], list[int]]]:
    """(prompt ids, answer ids) for every turn of the assistant, each behind exactly the prompt it is served with.

    For templates that rewrite history this is the only way to train on all answers of a conversation. Errors as in
    `mask_conversation`.
    """
    rendering = Rendering(tokenizer, messages, tools, special_tokens)
    samples = []
    for index in _assistant_turns(messages):
        before, upto = rendering.text(index, True), rendering.text(index + 1, False)
        if not upto.startswith(before):
            raise HeadwayError(_no_border(rendering, index))
        prompt, answer = rendering.encode_apart([before, upto[len(before) :]])
        answer = answer[: rendering.num_written(answer)]
        _checked([*prompt, *answer], max_tokens)
        samples.append((prompt, answer))
    return samples


def describe_mask(tokenizer: Any, ids: Sequence[int], mask: Sequence[bool]) -> list[MaskRow]:
    """One row a token for the command line. Part of a character is shown as the tokenizer's own symbol."""
    special = {index for index, token in tokenizer.added_tokens_decoder.items() if token.special}
    rows = []
    for position, (token, trained) in enumerate(zip(ids, mask, strict=True)):
        text = tokenizer.decode([token], skip_special_tokens=False)
        if not text or "\ufffd" in text:
            text = str(tokenizer.convert_ids_to_tokens(token))
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
        rows.append(MaskRow(position, int(token), shown, bool(trained), int(token) in special))
    return rows


def format_mask(rows: Sequence[MaskRow]) -> str:
    """The rows as a table of position, token id, yes/no, text."""
    lines = [f"{'position':>8} {'id':>7} trained text"]
    lines += [f"{r.position:>8} {r.token_id:>7} {'yes' if r.trained else 'no':<7} {r.text}" for r in rows]
    return "\n".join(lines)


def _assistant_turns(messages: Messages) -> list[int]:
    turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    if not turns:
        raise HeadwayError("The conversation has no answer of the assistant; nothing in it can be trained on.")
    return turns


def _no_border(rendering: Rendering, index: int) -> str:
    """Why the answer at `index` cannot be told apart from what is before it."""
    asked, prompted = rendering.text(index, False), rendering.text(index, True)
    if rendering.text(index + 1, False).startswith(asked) and prompted.startswith(asked):
        opening = " ".join(prompted[len(asked) :].split())[-60:]
        return (
            f"This target begins its answers with “{opening}”, but the answer in message {index + 1} does not begin "
            "so under its chat template; give the answer with its thinking (reasoning_content), or distil answers."
        )
    return (
        f"The chat template of this target rewrites earlier turns (seen at message {index + 1}), so "
        "the assistant's tokens cannot be told apart; train on one answer a conversation."
    )


def _checked(ids: list[int], max_tokens: int | None) -> list[int]:
    if not ids:
        raise HeadwayError("The prompt has no tokens; type some text.")
    if max_tokens is not None and len(ids) > max_tokens:
        raise HeadwayError(f"The prompt has {len(ids)} tokens, but at most {max_tokens} fit; shorten it.")
    return ids
