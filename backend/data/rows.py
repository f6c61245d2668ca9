"""Rows of a data file, one after another, without holding the file: JSONL, or one JSON array of any size.

Looks at bytes and JSON only; what a row means is decided in prompts.py. A row that cannot be read is given back with
the reason, so that one bad line costs itself and nothing else. Knows no tokenizer and no model.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.errors import HeadwayError

MAX_ROW_BYTES = 32 * 2**20
_CHUNK = 2**20
_MAGIC = {
    b"PAR1": "a Parquet file", b"\x1f\x8b": "a gzip archive", b"PK\x03\x04": "a zip archive",
    b"ARROW1": "an Arrow file", b"GGUF": "a GGUF model", b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"SQLite format 3": "an SQLite database", b"\x89PNG": "a picture", b"%PDF": "a PDF document",
}  # fmt: skip
_ENCODINGS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
              (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\],]', re.DOTALL)
_BLANK = " \t\r\n"


@dataclass(frozen=True)
class Row:
    """A parsed row, or why there is none. `line` counts from 1; in a JSON array a row counts as a line."""

    line: int
    value: Any
    problem: str | None = None


def iter_rows(path: str | Path, feed: Callable[[bytes], object] | None = None) -> Iterator[Row]:
    """The rows of a file in order; blank lines are passed over.

    `feed` is given every byte of the file in order (for a hash, or to see how far the reading is); all of them only
    when the rows are read to the end. Raises HeadwayError for a file that cannot be opened and for one that is no text.
    """
    path = Path(path)
    with _told(path), path.open("rb", buffering=0) as raw:
        file: io.BufferedReader[Any] = io.BufferedReader(_Fed(raw, feed), _CHUNK)
        head = file.peek(4096)[:4096]
        encoding = next((name for mark, name in _ENCODINGS if head.startswith(mark)), "utf-8-sig")
        if encoding == "utf-8-sig":
            _refuse_binary(path, head)
        text = head.decode(encoding, "ignore").lstrip("\ufeff" + _BLANK)
        if text.startswith("["):
            yield from _Array(file, encoding).rows()
            while file.read(_CHUNK):  # what follows the array belongs to the file's hash too
                pass
        elif encoding == "utf-8-sig":
            yield from _lines(file)
        else:
            with io.TextIOWrapper(file, encoding=encoding, errors="replace") as lines:
                yield from (_parsed(number, line) for number, line in enumerate(lines, 1) if line.strip())


class _Fed(io.RawIOBase):
    """A raw file that shows what is read to somebody."""

    def __init__(self, raw: io.RawIOBase | Any, feed: Callable[[bytes], object] | None) -> None:
        self._raw = raw
        self._feed = feed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = int(self._raw.readinto(buffer) or 0)
        if self._feed is not None and count:
            self._feed(bytes(memoryview(buffer)[:count]))
        return count


def _refuse_binary(path: Path, head: bytes) -> None:
    kind = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
    if kind is None and b"\0" in head:
        kind = "a binary file"
    if kind is not None:
        raise HeadwayError(f"{path} is {kind}, not text; save the rows as UTF-8 JSONL, one JSON object a line.")


def _lines(file: io.BufferedReader[Any]) -> Iterator[Row]:
    number = 0
    while data := file.readline(MAX_ROW_BYTES + 1):
        number += 1
        if len(data) > MAX_ROW_BYTES:
            while not data.endswith(b"\n") and (data := file.readline(_CHUNK)):
                pass
            yield Row(number, None, f"is longer than {MAX_ROW_BYTES >> 20} MB")
            continue
        if number == 1:
            data = data.removeprefix(codecs.BOM_UTF8)
        if not data.strip():
            continue
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            yield Row(number, None, f"is not UTF-8 text (byte {error.start + 1} of the line)")
            continue
        yield _parsed(number, text)


class _Array:
    """The elements of one JSON array. Their ends are found by counting brackets outside strings where parsing fails,
    so that a broken element costs only itself."""

    def __init__(self, file: io.BufferedReader[Any], encoding: str) -> None:
        self._read = codecs.getreader(encoding)(file, "surrogateescape" if "8" in encoding else "replace").read
        self._text = ""
        self._at = 0
        self._over = False
        self._decode = json.JSONDecoder().raw_decode

    def rows(self) -> Iterator[Row]:
        self._skip(_BLANK + "\ufeff")
        self._at += 1  # the opening bracket
        number = 0
        while self._skip(_BLANK + ","):
            if self._text[self._at] == "]":
                self._at += 1
                if self._skip(_BLANK):
                    yield Row(number + 1, None, "stands behind the end of the array and is not read")
                return
            number += 1
            row = self._element(number)
            yield row
            if self._at < 0:
                return
        yield Row(number + 1, None, "is missing: the array is not closed, so the file is cut off")

    def _element(self, number: int) -> Row:
        """The element that begins here; `_at` is then behind it, or -1 when its end cannot be found."""
        while True:
            if self._text[self._at] == "{":
                try:
                    value, self._at = self._decode(self._text, self._at)
                    return Row(number, value)
                except (ValueError, RecursionError):
                    pass  # damaged, or not read to its end yet
            if (end := self._end()) is not None:
                text, self._at = self._text[self._at : end], end
                return _parsed(number, text)
            if len(self._text) - self._at > MAX_ROW_BYTES:
                self._at = -1
                return Row(number, None, f"has no end within {MAX_ROW_BYTES >> 20} MB; what follows is not read")
            if not self._more():
                self._at = -1
                return Row(number, None, "is cut off: the array has no end")

    def _end(self) -> int | None:
        """Where the element that begins here ends in what was read; None when more is needed."""
        depth = 0
        for match in _STRUCTURE.finditer(self._text, self._at):
            mark = match.group()
            if mark == '"':  # a string that is not closed yet
                return None
            if depth == 0 and mark in (",", "]"):
                return match.start()
            depth += (mark in "{[") - (mark in "}]") if len(mark) == 1 else 0
            if depth == 0 and mark in ("}", "]"):
                return match.end()
        return None

    def _skip(self, characters: str) -> bool:
        """Go on to the next other character; False at the end of the file."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in characters:
                    return True
                self._at += 1
            if not self._more():
                return False

    def _more(self) -> bool:
        """Read on: at least as much again as is kept, so that a long element is not looked at too often."""
        if self._over:
            return False
        self._text = self._text[self._at :]
        self._at = 0
        fresh = self._read(max(_CHUNK, len(self._text)))
        self._over = not fresh
        self._text += fresh
        return bool(fresh)


def _parsed(line: int, text: str) -> Row:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return Row(line, None, f"is no valid JSON ({error.msg} at character {error.pos + 1})")
    except (RecursionError, ValueError):  # ValueError: an integer of more digits than Python parses
        return Row(line, None, "is nested too deeply or holds an endless number")
    return Row(line, value)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn an operating-system error into one sentence."""
    try:
        yield
    except UnicodeError:
        raise HeadwayError(f"{path} is not UTF-8 text; save it as UTF-8 JSONL.") from None
    except OSError as error:
        raise HeadwayError(f"Cannot read the prompts in {path}: {error.strerror or error}.") from None
