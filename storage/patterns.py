"""Regular expressions that people type: checked before the database sees them, and searched for, for SQLite, here.

They are those of Python's `re`, with ^ and $ at every line. PostgreSQL searches by itself: its expressions agree in all
that is common, but know neither look-behind nor \\b. Knows no tables.

Handing ten thousand texts to Python and reading them letter by letter takes a fifth of a second. Most lack something
that every match holds, which a database sees many times faster, so `needed` says what to look for first.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import Any

from storage.columns import decode_text
from storage.errors import StoreError

_FLAGS = re.compile(r"\(\?([aimsux]+)\)")
_UNBOUNDED = re.compile(r"[*+]|\{\d*,\d*\}")
_CLASS = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)


def check(pattern: str) -> None:
    """StoreError for what is no regular expression, or one that could take for ever."""
    try:
        re.compile(pattern, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise StoreError(
            f"{pattern!r} is no regular expression ({error}); correct it, or search for the plain text instead."
        ) from error
    if _repeats_a_repeat(pattern):
        raise StoreError(
            f"The pattern {pattern!r} repeats a group that repeats something itself, which can take for ever; write it "
            "with one repetition."
        )


def matches(pattern: str, *texts: str | None) -> bool:
    """Whether the pattern is found in one of the texts; all as the columns keep them (see `columns`)."""
    search = _compiled(pattern).search
    return any(text is not None and search(decode_text(text)) is not None for text in texts)


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(decode_text(pattern), re.MULTILINE)


def needed(pattern: str) -> tuple[str, bool] | None:
    """(text that stands in everything the pattern matches, whether at the end of a line); None where none is known.

    The longest run of plain letters outside all groups and repetitions; one at the end of a line is preferred, as fewer
    texts have it.
    """
    expression = re.compile(pattern, re.MULTILINE)
    try:
        parser: Any = import_module("re._parser")  # CPython's own, and no promise: without it every text is searched
        parts = list(parser.parse(expression.pattern, expression.flags))
    except (ImportError, AttributeError):
        return None
    if expression.flags & re.IGNORECASE:
        return None
    found: list[tuple[str, bool]] = []
    run = ""
    for code, value in [*parts, (None, None)]:
        if str(code) == "LITERAL":
            run += chr(value)
            continue
        if run:
            found.append((run, str(code) == "AT" and str(value) == "AT_END"))
        run = ""
    return max(found, key=lambda one: (one[1], len(one[0])), default=None)


def for_postgres(pattern: str) -> str:
    """The same pattern with PostgreSQL's options for what Python does: ^ and $ at every line, . for all but its end."""
    flags = _FLAGS.match(pattern)
    letters = flags.group(1) if flags else ""
    options = ("w" if "s" in letters else "n") + "".join(letter for letter in "ix" if letter in letters)
    return f"(?{options})" + pattern[flags.end() if flags else 0 :]


def _repeats_a_repeat(pattern: str) -> bool:
    """Whether a group with a repetition in it is repeated, as in (a+)+, which can take for ever to search."""
    inside = [False]  # per open group: whether it holds a repetition
    position = 0
    while position < len(pattern):
        character, group_repeats = pattern[position], False
        atom = _CLASS.match(pattern, position) if character == "[" else None
        position = atom.end() if atom else position + (2 if character == "\\" else 1)
        if character == "(":
            inside.append(False)
            continue
        if character == ")" and len(inside) > 1:
            group_repeats = inside.pop()
        repeat = _UNBOUNDED.match(pattern, position)
        if repeat is not None:
            if group_repeats:
                return True
            position = repeat.end()
        inside[-1] |= group_repeats or repeat is not None
    return False
