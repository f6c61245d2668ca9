"""Files that no row refers to: found, and what is wanted, young or elsewhere is never among them."""

from __future__ import annotations

import errno
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from storage import ArtifactFolder, Store, StoreError, delete_orphan
from tests.storage.samples import register

NOW = datetime.now(UTC) + timedelta(hours=2)


@pytest.fixture
def homes(tmp_path: Path) -> dict[str, Path]:
    """Folders that do not exist yet."""
    return {name: tmp_path / name for name in ("jobs", "features", "drafters", "artifacts")}


def _write(path: Path, size: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def _orphans(store: Store, homes: dict[str, Path]) -> dict[str, int]:
    found = store.find_orphans(homes)
    assert [one.num_bytes for one in found] == sorted((one.num_bytes for one in found), reverse=True)
    return {f"{one.home}/{one.path.relative_to(homes[one.home])}": one.num_bytes for one in found}


def test_what_rows_refer_to_stays(url: str, homes: dict[str, Path]) -> None:
    with Store.open(url, clock=lambda: NOW) as store:
        artifacts = ArtifactFolder(homes["artifacts"])
        wanted, unwanted = artifacts.put_bytes(b"wanted"), artifacts.put_bytes(b"unwanted")
        version = register(store)
        store.register_drafter(
            family="medusa",
            name="a",
            path=str(homes["drafters"] / "registered"),
            weights_hash="h",
            version_id=version.id,
        )
        job = store.create_job(
            kind="train",
            name="n",
            config={"answers": [{"sha256": wanted.sha256}], "out": str(homes["drafters"] / "being made" / "heads")},
            exclusive=str(homes["drafters"] / "reserved"),
        )
        store.register_dataset(
            kind="answers",
            name="d",
            path="C:\\data\\windows-name",
            content_hash="c0ffee",
            num_rows=1,
            num_broken=0,
            details={"features": "sha256:0123abcd"},
        )
        store.create_run(prompt="", drafter_name="x", settings={"request": {"drafter": "drafters/replayed"}})
        for name in (
            "registered",
            "being made",
            "reserved",
            "replayed",
            "windows-name",
            "c0ffee",
            "forgotten",
            ".hidden",
        ):
            _write(homes["drafters"] / name / "heads.bin")
        _write(homes["drafters"] / ".reserved.work" / "checkpoint")
        _write(homes["drafters"] / ".forgotten.work" / "checkpoint", 40)
        _write(homes["features"] / "0123abcd" / "shard-0")
        _write(homes["features"] / "4567" / "deep" / "shard-0", 1_000)
        _write(homes["features"] / "4567" / "shard-1", 1)
        _write(homes["jobs"] / job.id / "log.txt")
        _write(homes["jobs"] / "1m8pq6ewpnth4" / "log.txt", 7)
        forked = {"start_from": "1m8pq6ewpn777@300", "answers": "/data/mine@home.jsonl"}
        store.create_job(kind="train", name="fork", config=forked)
        _write(homes["jobs"] / "1m8pq6ewpn777" / "run" / "weights-300.pt")
        _write(homes["drafters"] / "mine@home.jsonl")
        assert _orphans(store, homes) == {
            "features/4567": 1_001,
            "drafters/.forgotten.work": 40,
            "drafters/.hidden": 10,
            "drafters/forgotten": 10,
            f"artifacts/{unwanted.sha256[:2]}/{unwanted.sha256}": 8,
            "jobs/1m8pq6ewpnth4": 7,
        }
        for orphan in store.find_orphans(homes):
            delete_orphan(orphan)
        assert (
            store.find_orphans(homes) == [] and wanted.path.exists() and (homes["jobs"] / job.id / "log.txt").exists()
        )


def test_what_was_touched_within_the_hour_stays(tmp_path: Path, homes: dict[str, Path]) -> None:
    now = datetime.now(UTC)
    with Store.open(tmp_path / "store.sqlite", clock=lambda: now) as store:
        old, young = _write(homes["features"] / "old" / "shard"), _write(homes["features"] / "young" / "deep" / "shard")
        future = _write(homes["features"] / "future" / "shard")  # written before the clock was set back
        for path in (*old.parents[:1], old, young.parent, young.parents[1], future.parent):
            os.utime(path, (now.timestamp() - 3_700,) * 2)
        os.utime(future, (now.timestamp() + 86_400,) * 2)
        assert _orphans(store, homes) == {"features/old": 10}
        os.utime(young, (now.timestamp() - 3_500,) * 2)
        assert _orphans(store, homes) == {"features/old": 10}
        os.utime(young, (now.timestamp() - 3_700,) * 2)
        assert _orphans(store, homes) == {"features/old": 10, "features/young": 10}


def test_links_are_deleted_never_followed(tmp_path: Path, homes: dict[str, Path]) -> None:
    elsewhere = _write(tmp_path / "elsewhere" / "precious", 500)
    homes["features"].mkdir()
    (homes["features"] / "linked").symlink_to(elsewhere.parent)
    _write(homes["features"] / "folder" / "file", 5)
    (homes["features"] / "folder" / "linked").symlink_to(elsewhere.parent)
    with Store.open(tmp_path / "store.sqlite", clock=lambda: NOW) as store:
        found = store.find_orphans(homes)
        assert {one.path.name for one in found} == {"linked", "folder"} and sum(one.num_bytes for one in found) < 400
        for orphan in found:
            delete_orphan(orphan)
            if orphan.path.name == "linked":
                delete_orphan(orphan)  # one that is gone is fine
    assert elsewhere.exists() and list(homes["features"].iterdir()) == []


def test_what_cannot_be_deleted_is_one_sentence(
    tmp_path: Path, homes: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "no")

    log = _write(homes["jobs"] / "gone" / "log.txt")
    with Store.open(tmp_path / "store.sqlite", clock=lambda: NOW) as store:
        (orphan,) = store.find_orphans(homes)
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", refuse)
            with pytest.raises(StoreError, match=r"gone cannot be written; make it"):
                delete_orphan(orphan)
        assert log.exists()
        delete_orphan(orphan)
        assert not log.exists()


def test_usage_measures_folders(store: Store, homes: dict[str, Path]) -> None:
    _write(homes["jobs"] / "a" / "log.txt", 7)
    _write(homes["jobs"] / "b" / "deep" / "checkpoint", 100)
    assert store.usage(homes).folder_bytes == {"jobs": 107, "features": 0, "drafters": 0, "artifacts": 0}
    assert store.usage().folder_bytes == {} and store.is_empty()
    register(store)
    assert not store.is_empty()
