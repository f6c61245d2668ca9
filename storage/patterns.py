"""Regular expressions that people type: checked before the database sees them, and searched for, for SQLite, here.

They are those of Python's `re`, with ^ and $ at every line. PostgreSQL searches by itself: its expressions agree in all
that is common, but know neither look-behind nor \\b. Knows no tables.

Making letters of stored bytes and reading them one by one takes a fifth of a second over ten thousand runs. Most texts
lack something that every match holds, and that is seen many times faster in the bytes, so such texts are passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

from storage.columns import decode_text, encode_text
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


def matches(pattern: str, *texts: bytes | None) -> bool:
    """Whether the pattern is found in one of the texts; all as the columns keep them (see `columns`), in UTF-8."""
    wanted = _compiled(pattern)
    return any(text is not None and wanted.found_in(text) for text in texts)


@dataclass(frozen=True)
class _Wanted:
    """An expression, bytes that stand in all it matches, and bytes that stand there at the end of a line."""

    expression: re.Pattern[str]
    holds: tuple[bytes, ...]
    ends: tuple[bytes, ...]

    def found_in(self, text: bytes) -> bool:
        if not all(part in text for part in self.holds):
            return False
        if not all(text.endswith(part) or part + b"\n" in text for part in self.ends):
            return False
        return self.expression.search(decode_text(text.decode())) is not None


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> _Wanted:
    expression = re.compile(decode_text(pattern), re.MULTILINE)
    return _Wanted(expression, *_always_there(expression))


def _always_there(expression: re.Pattern[str]) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """(bytes in everything that the expression matches, those of them at the end of a line): runs of plain letters
    outside all groups and repetitions, as the columns keep them.
    """
    try:
        parser: Any = import_module("re._parser")  # CPython's own, and no promise: without it every text is searched
        parts = list(parser.parse(expression.pattern, expression.flags))
    except (ImportError, AttributeError):
        return (), ()
    if expression.flags & (re.IGNORECASE | re.LOCALE):
        return (), ()
    holds: list[bytes] = []
    ends: list[bytes] = []
    run = ""
    for code, value in [*parts, (None, None)]:
        if str(code) == "LITERAL":
            run += chr(value)
            continue
        if run:
            at_end = str(code) == "AT" and str(value) == "AT_END" and expression.flags & re.MULTILINE
            (ends if at_end else holds).append(encode_text(run).encode())
        run = ""
    return tuple(holds), tuple(ends)


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
