"""`db` as a person and a script see it: nothing deleted unasked, nothing overwritten, one sentence for a mistake."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

import app
from storage import Store


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a database that knows one ended run, and folders of orphans and of young files."""
    home = tmp_path / "home"
    monkeypatch.setenv("HEADWAY_HOME", str(home))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    with Store.open(home / "runs.db") as store:
        store.cancel_run(store.create_run(prompt="p", drafter_name="none", settings={}))
    for folder in (home / "jobs" / "1m8pq6ewpnth4", home / "drafters" / "heads", home / "drafters" / ".heads.work"):
        _write(folder / "file")
    _write(tmp_path / "cache" / "features" / "ab12" / "file")
    _write(home / "jobs" / "young" / "log.txt", age_s=60)
    return home


def _write(path: Path, age_s: float = 7_200.0) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 1_500)
    for each in (path, path.parent):
        os.utime(each, (time.time() - age_s,) * 2)


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = app.main(["db", *words])
    out, err = capsys.readouterr()
    return code, out, err


def _files(*folders: Path) -> set[str]:
    return {path.parent.name for folder in folders for path in folder.rglob("*") if path.is_file()}


def test_gc_lists_and_deletes_only_with_yes(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    folders = (home / "jobs", home / "drafters", home.parent / "cache" / "features")
    everything = {"1m8pq6ewpnth4", "heads", ".heads.work", "ab12", "young"}
    code, out, err = _run(capsys, "gc")
    assert code == 0 and err == "" and _files(*folders) == everything
    assert "1.5 kB" in out and "4.5 kB that nothing refers to; delete it with: db gc --yes" in out
    assert out.index("Kept, because") < out.index(f"{home / 'drafters' / 'heads'}\n")
    code, out, _ = _run(capsys, "gc", "--yes", "--json")
    answer = json.loads(out)
    deleted = {Path(one["path"]).name for one in answer["orphans"] if one["deleted"]}
    assert code == 0 and deleted == {"1m8pq6ewpnth4", ".heads.work", "ab12"} and answer["deleted_bytes"] == 4_500
    assert _files(*folders) == {"heads", "young"}
    code, out, _ = _run(capsys, "gc", "--yes", "--outputs")
    assert "Deleted 1 of 1 orphans, 1.5 kB." in out and _files(*folders) == {"young"}
    assert "Nothing to delete." in _run(capsys, "gc")[1]


def test_gc_leaves_features_alone_while_jobs_are_open(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    with Store.open(home / "runs.db") as store:
        job = store.create_job(kind="train", name="n", config={}, exclusive=str(home / "drafters" / "heads"))
        store.request_job(job.id, "pause")
    code, out, err = _run(capsys, "gc", "--yes")
    assert code == 0 and "jobs that are not finished" in err and "Deleted 1 of 1" in out
    assert _files(home / "drafters", home.parent / "cache") == {"heads", ".heads.work", "ab12"}


def test_gc_asks_every_database_of_the_home(capsys: pytest.CaptureFixture[str], home: Path, tmp_path: Path) -> None:
    with Store.open(home / "runs.db") as store:
        store.create_run(prompt="p", drafter_name="x", settings={"features": "features/ab12"})
    with Store.open(tmp_path / "other.db") as store:
        store.create_run(prompt="p", drafter_name="x", settings={"job": "1m8pq6ewpnth4"})
    code, out, _ = _run(capsys, "gc", "--db", str(tmp_path / "other.db"), "--json")
    assert code == 0 and {Path(one["path"]).name for one in json.loads(out)["orphans"]} == {"heads", ".heads.work"}


def test_gc_believes_no_empty_or_missing_database(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    (home / "runs.db").unlink()
    code, out, err = _run(capsys, "gc", "--yes")
    assert code == 2 and out == "" and "There is no database" in err and not (home / "runs.db").exists()
    Store.open(home / "runs.db").close()
    code, out, err = _run(capsys, "gc", "--yes")
    assert code == 2 and out == "" and "holds nothing" in err and len(err.splitlines()) == 1
    assert len(_files(home / "jobs", home / "drafters")) == 4


def test_backup_makes_a_whole_copy_and_replaces_nothing(
    capsys: pytest.CaptureFixture[str], home: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copies" / "runs.db"
    code, out, _ = _run(capsys, "backup", str(copy))
    assert code == 0 and str(copy) in out and "checked" in out
    with Store.open(copy) as store:
        assert store.count_runs() == 1
    code, out, err = _run(capsys, "backup", str(copy), "--json")
    assert code == 2 and out == "" and "exists already" in err
    code, out, _ = _run(capsys, "backup", str(tmp_path / "second.db"), "--json")
    answer = json.loads(out)
    assert answer == {"copy": str(tmp_path / "second.db"), "num_bytes": (tmp_path / "second.db").stat().st_size}


def test_upgrade_says_what_it_did(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "already at schema" in _run(capsys, "upgrade")[1]
    code, out, _ = _run(capsys, "upgrade", "--db", str(tmp_path / "new.db"))
    assert code == 0 and "Made a new database" in out
    answer = json.loads(_run(capsys, "upgrade", "--json")[1])
    assert answer["before"] == answer["after"] and answer["copy"] is None


def test_usage_counts_rows_and_bytes(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    code, out, _ = _run(capsys, "usage")
    assert code == 0 and "runs 1" in out and str(home / "jobs") in out
    answer = json.loads(_run(capsys, "usage", "--json")[1])
    assert answer["folder_bytes"] == {
        "jobs": 3_000, "features": 1_500, "answers": 0, "drafters": 3_000, "versions": 0, "exports": 0, "artifacts": 0,
    }  # fmt: skip
    assert answer["num_runs"] == 1 and answer["file_bytes"] > 0 and answer["free_bytes"] > 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["backup"], "Write db backup FILE"),
        (["gc", "file"], "takes no file"),
        (["usage", "--yes"], "--yes belongs to db gc"),
        (["upgrade", "--outputs"], "--outputs belongs to db gc"),
        (["backup", "copy.db", "--db", "missing.db"], "There is no database"),
        (["gc", "--db", "missing.db"], "There is no database"),
    ],
)
def test_mistakes_are_one_sentence(capsys: pytest.CaptureFixture[str], words: list[str], sentence: str) -> None:
    code, out, err = _run(capsys, *words)
    assert code == 2 and out == "" and sentence in err and len(err.strip().splitlines()) == 1


def test_an_unknown_action_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        app.main(["db", "shrink"])
    assert caught.value.code == 2 and len(capsys.readouterr().err.strip().splitlines()) == 1
