"""Files kept by content hash, and files written so that a half-written one is never visible.

Knows nothing of what the files hold, nor of the database.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from storage.errors import NotFoundError, StoreError, one_sentence
from storage.records import ArtifactRecord

_PARTIAL = ".partial-"
_BLOCK = 1 << 20


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A handle whose bytes appear at `path` all at once when the block ends, or not at all when it raises.

    Written under a temporary name in the same folder, flushed to the disk, renamed. StoreError: full disk, no
    permission.
    """
    with one_sentence(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=_PARTIAL)
        partial = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as handle:
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
            partial.chmod(0o644)  # mkstemp's 0600 would shut out a second user of a shared folder
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make sure that names put into a folder survive a power cut."""
    if os.name == "nt":  # Windows cannot open a folder; its file system journals the rename
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with one_sentence(str(path)), path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


class ArtifactFolder:
    """A folder of files named by the SHA-256 of their bytes; the same bytes are kept once. Safe from many processes."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put_bytes(self, content: bytes) -> ArtifactRecord:
        """Keep bytes."""
        sha256 = hashlib.sha256(content).hexdigest()
        path = self._path(sha256)
        if not path.is_file():
            with atomic_file(path) as handle:
                handle.write(content)
        return ArtifactRecord(sha256=sha256, num_bytes=len(content), path=path)

    def put_file(self, source: Path) -> ArtifactRecord:
        """Keep a copy of a file; StoreError if it changes while it is copied."""
        sha256 = hash_file(source)
        path = self._path(sha256)
        if not path.is_file():
            self._copy(source, path, sha256)
        return ArtifactRecord(sha256=sha256, num_bytes=path.stat().st_size, path=path)

    def _copy(self, source: Path, path: Path, sha256: str) -> None:
        digest = hashlib.sha256()
        with one_sentence(str(source)), source.open("rb") as reader, atomic_file(path) as writer:
            while block := reader.read(_BLOCK):
                digest.update(block)
                writer.write(block)
            if digest.hexdigest() != sha256:
                raise StoreError(f"{source} changed while it was copied; try again when nothing writes to it.")

    def path(self, sha256: str) -> Path:
        """Where the file with this hash lies; NotFoundError if it is not here."""
        path = self._path(sha256)
        if not path.is_file():
            raise NotFoundError(f"{self.root} holds no file with the hash {sha256}; it was deleted or never stored.")
        return path

    def verify(self, sha256: str) -> None:
        """Read the file again; StoreError if its bytes no longer have the hash it is named by."""
        path = self.path(sha256)
        if hash_file(path) != sha256:
            raise StoreError(f"The file {path} is damaged; delete it and store the original again.")

    def remove(self, sha256: str) -> None:
        """Delete a file; one that is not here is fine."""
        path = self._path(sha256)
        with one_sentence(str(path)):
            path.unlink(missing_ok=True)

    def clean_partial(self, older_than_s: float = 86_400.0) -> int:
        """Delete what killed writers left behind, once too old for a writer to be at it; returns how many."""
        count = 0
        with one_sentence(str(self.root)):
            for partial in self.root.glob(f"??/{_PARTIAL}*"):
                if time.time() - partial.stat().st_mtime >= older_than_s:
                    partial.unlink(missing_ok=True)
                    count += 1
        return count

    def _path(self, sha256: str) -> Path:
        if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
            raise ValueError(f"a hash is 64 hexadecimal characters, got {sha256!r}")
        return self.root / sha256[:2] / sha256
