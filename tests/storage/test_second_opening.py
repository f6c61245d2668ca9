"""A process that opens its database a second time still sees what other processes write, and they what it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from storage import Store

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from storage import Store
with Store.open(sys.argv[1]) as store:
    store.create_job(kind="k", name=sys.argv[2], config={})
    print(len(store.list_jobs()))
"""


def in_another_process(database: Path, name: str) -> int:
    """Adds a job and ends; how many jobs that process saw."""
    command = [sys.executable, "-c", PROGRAM, str(database), name]
    return int(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300).stdout)


def test_a_second_store_on_the_same_file_blinds_nobody(tmp_path: Path) -> None:
    database = tmp_path / "runs.db"
    with Store.open(database) as first:
        first.create_job(kind="k", name="ours", config={})
        with Store.open(database) as second:
            assert in_another_process(database, "theirs") == 2
            assert len(first.list_jobs()) == len(second.list_jobs()) == 2
        assert in_another_process(database, "theirs too") == 3
        assert len(first.list_jobs()) == 3
        first.create_job(kind="k", name="ours again", config={})
        assert in_another_process(database, "last") == 5
