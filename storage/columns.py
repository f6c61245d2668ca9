"""Column types that give back exactly what was put in, on every database.

Knows no tables. Free text of users and models may hold NUL characters and lone surrogates, which PostgreSQL refuses and
which make SQLite's LIKE stop early or its driver raise; both are escaped on the way in. JSON is kept as text for the
same reason.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, String, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

ESCAPE = "\x10"  # "data link escape": a control character that text hardly ever holds; itself doubled
_UNSAFE = re.compile("[\x00\x10\ud800-\udfff]")
_ESCAPED = re.compile("\x10(\x10|0|d[89a-f][0-9a-f]{2})")


def encode_text(text: str) -> str:
    """Text without NUL and lone surrogates from which `decode_text` restores the original."""
    return _UNSAFE.sub(_escape, text)


def decode_text(stored: str) -> str:
    """The inverse of `encode_text`; an escape that was cut off at the end stays as it is."""
    return _ESCAPED.sub(_restore, stored) if ESCAPE in stored else stored


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if character == ESCAPE:
        return ESCAPE * 2
    return ESCAPE + ("0" if character == "\x00" else f"{ord(character):04x}")


def _restore(match: re.Match[str]) -> str:
    code = match.group(1)
    if code == ESCAPE:
        return ESCAPE
    return chr(int(code, 16))


class _Exact(TypeDecorator[str]):
    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else encode_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else decode_text(value)


class ExactText(_Exact):
    """Text of any characters and any length."""

    impl = Text
    cache_ok = True


class ExactString(_Exact):
    """A short name; asking for one of any characters is no error, it is just not found."""

    cache_ok = True


class JsonText(TypeDecorator[Any]):
    """A JSON value as text. Tuples come back as lists; NaN and the infinities survive."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        # ensure_ascii=False: a search for an emoji or an umlaut must find it.
        return None if value is None else encode_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(decode_text(value))


class UtcDateTime(TypeDecorator[datetime]):
    """A moment: stored as naive UTC (readable in any database shell), handed out aware."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a moment needs a time zone, got {value.isoformat()}")
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)
