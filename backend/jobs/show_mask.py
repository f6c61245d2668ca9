"""One row of a data file token by token under a target's template, the trained tokens marked. A small process of its
own: `python -m backend.jobs.show_mask` answers one JSON line with one JSON line.

The dashboard's process imports no torch, and transformers' tokenizers do; what is shown comes from the code that
trains. Ends when its input ends. Knows no weights.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from backend.data.answers import Answer, iter_answers, unpack_answers
from backend.data.prompts import Prompt, iter_prompts
from backend.data.scanning import ANSWERS, kind_of
from backend.data.templates import encode_chat, mask_conversation, raw_notice
from backend.errors import HeadwayError
from backend.settings import Settings

MAX_TOKENS_SHOWN = 8000


@dataclass(frozen=True)
class ShownToken:
    """`text`: what the token adds to the text, or the tokenizer's own symbol for a part of a character."""

    id: int
    text: str
    trained: bool
    special: bool


@dataclass(frozen=True)
class ShownMask:
    """A row as tokens; at most MAX_TOKENS_SHOWN of `num_tokens`. `title`: which row it is; `notes`: what to know."""

    title: str
    tokens: tuple[ShownToken, ...]
    num_tokens: int
    num_trained: int
    notes: tuple[str, ...] = ()


def show_prompt(tokenizer: Any, prompt: Prompt) -> ShownMask:
    """A prompt, with its answers where the row gives some."""
    notes = [note for note in (raw_notice(tokenizer),) if note]
    tools, special_tokens = prompt.tools, prompt.special_tokens
    if prompt.num_answers:
        found = mask_conversation(tokenizer, prompt.chat(), tools=tools, special_tokens=special_tokens)
        notes += [found.note] if found.note else []
        return _shown(tokenizer, f"row {prompt.question_id}", found.ids, found.mask, notes)
    first = prompt.chat()[:1] if prompt.messages is None else prompt.chat()
    ids = encode_chat(tokenizer, first, tools=tools, special_tokens=special_tokens)
    more = f" Shown is the first of its {len(prompt.turns)} turns." if len(prompt.turns) > len(first) else ""
    notes.append(f"This row has no answer yet, so nothing in it is trained on; distil to let the target answer.{more}")
    return _shown(tokenizer, f"row {prompt.question_id}", ids, [False] * len(ids), notes)


def show_answer(tokenizer: Any, answer: Answer) -> ShownMask:
    """An answer that a target wrote, behind its prompt: exactly the tokens that training reads."""
    size = len(tokenizer)
    if max((*answer.prompt_ids, *answer.answer_ids), default=0) >= size:
        raise HeadwayError(f"These answers have tokens beyond this target's {size}; choose the target that wrote them.")
    ids = [*answer.prompt_ids, *answer.answer_ids]
    mask = [False] * len(answer.prompt_ids) + [True] * len(answer.answer_ids)
    notes = ["This answer was cut at the length limit, so it has no end token."] if answer.truncated else []
    title = f"row {answer.question_id}, turn {answer.turn + 1}, T = {answer.temperature:g}"
    return _shown(tokenizer, title, ids, mask, notes)


def show_row(tokenizer: Any, path: str, number: int) -> ShownMask:
    """The `number`-th usable row, from 1. Raises HeadwayError when there are fewer."""
    if number < 1:
        raise HeadwayError(f"Rows are counted from 1, but {number} was asked for.")
    rows: Any
    if kind_of(path) == ANSWERS:
        rows = unpack_answers(path) if Path(path).suffix == ".npz" else iter_answers(path)
    else:
        rows = (row.prompt for row in iter_prompts(path) if row.prompt is not None)
    found = next(islice(rows, number - 1, None), None)
    if found is None:
        raise HeadwayError(f"The file has no row {number}; choose a smaller number.")
    return show_answer(tokenizer, found) if isinstance(found, Answer) else show_prompt(tokenizer, found)


def _shown(tokenizer: Any, title: str, ids: Any, mask: Any, notes: list[str]) -> ShownMask:
    added = {index for index, token in tokenizer.added_tokens_decoder.items()}
    pieces = pieces_of(tokenizer, list(ids[:MAX_TOKENS_SHOWN]))
    tokens = tuple(
        ShownToken(int(token), text, bool(trained), int(token) in added)
        for token, text, trained in zip(ids, pieces, mask, strict=False)
    )
    return ShownMask(title, tokens, len(ids), sum(map(bool, mask)), tuple(notes))


def pieces_of(tokenizer: Any, ids: list[int]) -> list[str]:
    """The text of each token; a part of a character is the tokenizer's own symbol, as it has no text alone."""
    pieces = []
    for token in ids:
        text = tokenizer.decode([token], skip_special_tokens=False)
        symbol = str(tokenizer.convert_ids_to_tokens(token))
        if not text or "\ufffd" in text:
            text = symbol
        elif symbol.startswith("\u2581") and not text.startswith(" "):  # SentencePiece: a lone token loses its blank
            text = " " + text
        pieces.append(str(text))
    return pieces


def answer_line(line: str, settings: Settings) -> dict[str, Any]:
    """The reply to one request {target, path, number}: {mask} or {error}, a sentence."""
    try:
        request = json.loads(line)
        tokenizer = _tokenizer(str(request["target"]), settings)
        return {"mask": asdict(show_row(tokenizer, str(request["path"]), int(request["number"])))}
    except HeadwayError as error:
        return {"error": str(error)}
    except Exception:  # the page has to hear of it; the traceback is for the log
        import traceback

        traceback.print_exc()
        return {"error": "The row could not be shown; Headway's log has the details."}


@lru_cache(maxsize=4)
def _tokenizer(target: str, settings: Settings) -> Any:
    from backend.targets.tokenizer import load_tokenizer

    return load_tokenizer(target, settings)


def main() -> None:
    """Reads requests from standard input until it ends. What libraries print goes to stderr."""
    parser = argparse.ArgumentParser(description="Show rows token by token, one JSON request a line.")
    parser.add_argument("--home", type=Path, required=True, help="Headway's home folder")
    parser.add_argument("--cache", type=Path, required=True, help="Headway's cache folder")
    arguments = parser.parse_args()
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    settings = Settings(arguments.home, arguments.cache)
    for line in sys.stdin:
        replies.write(json.dumps(answer_line(line, settings)) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
