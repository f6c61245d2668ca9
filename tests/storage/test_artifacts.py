"""Files by content hash, and files that are never seen half written."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from pathlib import Path

import pytest

from storage import ArtifactFolder, NotFoundError, StoreError
from storage.artifacts import atomic_file, hash_file


@pytest.fixture
def folder(tmp_path: Path) -> ArtifactFolder:
    """An empty artifact folder that does not exist yet."""
    return ArtifactFolder(tmp_path / "artifacts")


def _files(folder: ArtifactFolder) -> list[Path]:
    return [path for path in folder.root.rglob("*") if path.is_file()]


def test_the_same_bytes_are_kept_once(folder: ArtifactFolder, tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "source").write_bytes(content)
    first = folder.put_file(tmp_path / "source")
    assert folder.put_bytes(content) == first
    assert first.sha256 == hashlib.sha256(content).hexdigest() and first.num_bytes == 3_000_000
    assert _files(folder) == [first.path] == [folder.path(first.sha256)]
    assert first.path.read_bytes() == content
    folder.verify(first.sha256)


def test_damage_is_noticed(folder: ArtifactFolder) -> None:
    record = folder.put_bytes(b"heads")
    record.path.write_bytes(b"headz")
    with pytest.raises(StoreError, match="is damaged"):
        folder.verify(record.sha256)


def test_what_is_not_there_is_named(folder: ArtifactFolder, tmp_path: Path) -> None:
    missing = "0" * 64
    with pytest.raises(NotFoundError, match=missing):
        folder.path(missing)
    with pytest.raises(NotFoundError, match="nowhere does not exist"):
        folder.put_file(tmp_path / "nowhere")
    for bad in ("", "../../etc/passwd", "G" * 64, "0" * 63):
        with pytest.raises(ValueError, match="64 hexadecimal"):
            folder.path(bad)
    record = folder.put_bytes(b"x")
    folder.remove(record.sha256)
    folder.remove(record.sha256)
    assert _files(folder) == []


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_nothing_behind(
    folder: ArtifactFolder, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, full)
        with pytest.raises(StoreError, match=r"disk that holds .* is full"):
            folder.put_bytes(b"heads")
    assert _files(folder) == []
    assert folder.put_bytes(b"heads").path.read_bytes() == b"heads"


def test_a_source_that_changes_while_copied_is_refused(folder: ArtifactFolder, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"after")
    before = hashlib.sha256(b"before").hexdigest()
    with pytest.raises(StoreError, match="changed while it was copied"):
        folder._copy(source, folder._path(before), before)
    assert _files(folder) == []


def test_a_failing_writer_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), atomic_file(path) as handle:
        handle.write(b"new")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]
    with atomic_file(path) as handle:
        handle.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path]


def test_leftovers_of_killed_writers_are_cleaned_once_old(folder: ArtifactFolder) -> None:
    record = folder.put_bytes(b"kept")
    leftover = record.path.with_name(".partial-abc")
    leftover.write_bytes(b"half")
    assert folder.clean_partial() == 0 and leftover.exists()
    two_days_ago = time.time() - 2 * 86_400
    os.utime(leftover, (two_days_ago, two_days_ago))
    assert folder.clean_partial() == 1
    assert _files(folder) == [record.path]


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="not a folder"):
        ArtifactFolder(tmp_path / "file" / "artifacts").put_bytes(b"x")
    with pytest.raises(StoreError):
        hash_file(tmp_path)
