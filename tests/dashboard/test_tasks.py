"""Work a page waits for: told how far it is, stopped when nobody wants it, errors as sentences."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from backend.errors import HeadwayError
from dashboard.tasks import KEPT, Progress, Tasks
from storage.errors import NotFoundError


def ended(tasks: Tasks, task_id: str) -> dict[str, Any]:
    give_up = time.monotonic() + 10
    while (found := tasks.get(task_id).to_json())["state"] == "running":
        assert time.monotonic() < give_up
        time.sleep(0.005)
    return found


def test_a_result_an_error_and_a_fault() -> None:
    tasks = Tasks()

    def refuse(progress: Progress) -> None:
        raise HeadwayError("Choose another file.")

    assert ended(tasks, tasks.start(lambda progress: {"rows": 3}))["result"] == {"rows": 3}
    assert ended(tasks, tasks.start(refuse)) | {"id": ""} == {
        "id": "", "state": "failed", "fraction": None, "result": None, "error": "Choose another file."}
    fault = ended(tasks, tasks.start(lambda progress: 1 // 0))
    assert fault["state"] == "failed" and "Something went wrong" in fault["error"]
    with pytest.raises(NotFoundError, match="no longer known"):
        tasks.get("gone")


def test_progress_is_told_and_ends_what_was_cancelled() -> None:
    tasks = Tasks()
    halfway, go_on = threading.Event(), threading.Event()

    def work(progress: Progress) -> None:
        progress(1, 2)
        halfway.set()
        go_on.wait(10)
        progress(2, 2)

    task_id = tasks.start(work)
    assert halfway.wait(10) and tasks.get(task_id).to_json()["fraction"] == 0.5
    tasks.cancel(task_id)
    go_on.set()
    assert ended(tasks, task_id)["state"] == "cancelled"


def test_old_tasks_are_forgotten_and_running_ones_kept() -> None:
    tasks = Tasks(threads=KEPT + 50)
    go_on = threading.Event()
    first = tasks.start(lambda progress: go_on.wait(10))
    ids = [tasks.start(lambda progress: None) for _ in range(KEPT + 20)]
    for task_id in ids[-5:]:
        ended(tasks, task_id)
    tasks.start(lambda progress: None)
    assert tasks.get(first).state == "running"
    with pytest.raises(NotFoundError):
        tasks.get(ids[0])
    go_on.set()
