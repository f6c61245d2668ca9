"""A file sent by the browser, written to the home folder piece by piece and named by its content. Knows no page."""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path
from types import TracebackType

from backend.errors import HeadwayError

MAX_UPLOAD_BYTES = 200 * 1000 * 1000
SUFFIXES = (".jsonl", ".json", ".txt", ".npz", ".ndjson")


class Upload:
    """Use it as a context: what was not finished is removed at its end.

    Raises HeadwayError for a file that is too large, and when the disk cannot take it.
    """

    def __init__(self, folder: Path, name: str, limit: int = MAX_UPLOAD_BYTES) -> None:
        self._stem, self._suffix = _safe_name(name)
        self._limit = limit
        self._digest = hashlib.sha256()
        self._size = 0
        self._part = folder / f".{uuid.uuid4().hex}.part"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self._part.open("xb")
        except OSError as error:
            raise HeadwayError(f"Cannot write into {folder}: {error.strerror or error}.") from None

    def write(self, piece: bytes) -> None:
        """The next bytes of the file."""
        self._size += len(piece)
        if self._size > self._limit:
            raise HeadwayError(too_large(self._limit))
        try:
            self._file.write(piece)
        except OSError as error:
            raise HeadwayError(f"The file could not be kept: {error.strerror or error}.") from None
        self._digest.update(piece)

    def finish(self) -> Path:
        """The whole file under its name: what the browser called it, and 8 digits of its content's hash."""
        if not self._size:
            raise HeadwayError("The file is empty; choose another one.")
        path = self._part.with_name(f"{self._stem}-{self._digest.hexdigest()[:8]}{self._suffix}")
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._part, path)
        except OSError as error:
            raise HeadwayError(f"The file could not be kept: {error.strerror or error}.") from None
        return path

    def __enter__(self) -> Upload:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)


def too_large(limit: int = MAX_UPLOAD_BYTES) -> str:
    """What to say of a file above the limit."""
    return f"The browser may send at most {limit // 1_000_000} MB; type the file's path instead, which has no limit."


def _safe_name(name: str) -> tuple[str, str]:
    """(stem, suffix) made of letters, digits, dash, underscore and dot, whatever the browser sent."""
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in name.replace("\\", "/").rpartition("/")[2])
    path = Path(plain.strip("-.")[:120] or "upload.jsonl")
    suffix = path.suffix.lower() if path.suffix.lower() in SUFFIXES else ".jsonl"
    return path.stem or "upload", suffix
