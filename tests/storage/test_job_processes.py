"""Many workers at once on one database, and workers that are killed: no job twice, no figure lost or doubled."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from storage import JobRecord, StaleAttemptError, Store, StoreError

ROOT = Path(__file__).parents[2]
NUM_STEPS = 60
WORKER = """
import sys, time
from storage import Store, owner_token

url, steps, pause_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
with Store.open(url) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    while (job := store.lease_job(owner_token())) is not None:
        print(job.id, job.attempt, flush=True)
        done = max((row.step for row in store.metrics(job.id)), default=-1)
        checkpoint = done - done % 10  # as from a file that was written every ten steps
        store.drop_metrics_after(job.id, job.attempt, checkpoint - 1)
        for step in range(max(0, checkpoint), steps):
            store.add_metrics(job.id, job.attempt, [(step, {"square": float(step * step)})])
            store.heartbeat(job.id, job.attempt, {"done": step + 1})
            if step % 10 == 9:
                store.put_items(job.id, job.attempt, {str(step // 10): {"step": step}})
            time.sleep(pause_s)
        store.end_job(job.id, job.attempt, "finished", result={"steps": steps})
"""


def _start(url: str, steps: int, pause_s: float = 0.0) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", WORKER, url, str(steps), str(pause_s)]
    return subprocess.Popen(command, cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload,no-any-return]


def _go(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin and worker.stdout and worker.stdout.readline() == "ready\n"
    worker.stdin.write("\n")
    worker.stdin.flush()


def _together(work: Callable[[int], None], num_threads: int = 8) -> None:
    barrier = threading.Barrier(num_threads)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_eight_threads_never_lease_one_job_twice(store: Store) -> None:
    ids = [store.create_job(kind="train", name=str(i), config={}).id for i in range(40)]
    leased: list[JobRecord] = []

    def work(number: int) -> None:
        while (job := store.lease_job(f"thread {number}")) is not None:
            leased.append(job)

    _together(work)
    assert Counter(job.id for job in leased) == Counter(ids) and {job.attempt for job in leased} == {1}
    for job in leased:
        assert store.get_job(job.id).owner == job.owner


def test_of_eight_threads_that_start_the_same_work_one_does(store: Store) -> None:
    outcomes: list[str] = []

    def work(number: int) -> None:
        try:
            outcomes.append(store.create_job(kind="train", name=f"from {number}", config={}, exclusive="/out").id)
        except StoreError as error:
            assert "writes to /out too" in str(error)

    _together(work)
    assert len(outcomes) == 1 and [job.id for job in store.list_jobs()] == outcomes


def test_a_worker_that_lost_its_job_never_writes_again(store: Store) -> None:
    """Seven workers take the job from each other while all of them write: the numbers show who wrote when. Every second
    attempt is left alone until it has written, so that there are writers to tell apart on the busiest machine.
    """
    job_id = store.create_job(kind="train", name="heads", config={}).id
    refused: list[int] = []

    def work(number: int) -> None:
        for _ in range(6):
            job = None
            while job is None:
                current = store.get_job(job_id)
                written = max((row.step for row in store.metrics(job_id)), default=0) // 100
                if current.status == "running" and (current.attempt % 2 == 0 or written >= current.attempt):
                    _take_away(store, current)
                job = store.lease_job(f"thread {number}", job_id=job_id)
            try:
                for step in range(5):
                    store.add_metrics(job_id, job.attempt, [(100 * job.attempt + step, {"attempt": job.attempt})])
                store.end_job(job_id, job.attempt, "interrupted")
                store.resume_job(job_id)
            except StaleAttemptError:
                refused.append(job.attempt)
            except StoreError as error:
                assert "cannot be resumed" in str(error)

    _together(work, 7)
    attempts = [row.values["attempt"] for row in store.metrics(job_id)]
    assert attempts == sorted(attempts), "an attempt wrote after a later one had begun"
    assert set(range(1, 43, 2)) <= set(attempts) and store.get_job(job_id).attempt == 42


def _take_away(store: Store, job: JobRecord) -> None:
    try:
        store.interrupt_job(job.id, job.attempt, "Taken away.")
        store.resume_job(job.id)
    except StoreError:
        return  # another thread was faster


def test_followers_see_every_figure_while_workers_write(store: Store) -> None:
    job = store.create_job(kind="train", name="heads", config={})
    store.lease_job("me")
    seen: dict[int, list[int]] = {}

    def work(number: int) -> None:
        if number < 4:
            for step in range(25):
                store.add_metrics(job.id, 1, [(100 * number + step, {"v": 1.0})])
            return
        last, steps = 0, []
        while len(steps) < 100:
            for row in store.metrics(job.id, last, limit=7):
                last = row.seq
                steps.append(row.step)
        seen[number] = steps

    _together(work, 6)
    expected = [row.step for row in store.metrics(job.id)]
    assert len(expected) == 100 and seen == {4: expected, 5: expected}


def test_four_processes_share_the_queue(shared_url: str) -> None:
    with Store.open(shared_url) as store:
        ids = [store.create_job(kind="train", name=str(i), config={}).id for i in range(12)]
        workers = [_start(shared_url, 5) for _ in range(4)]
        for worker in workers:
            _go(worker)
        leases: list[str] = []
        for worker in workers:
            output, errors = worker.communicate(timeout=120)
            assert worker.returncode == 0, errors
            leases += output.splitlines()
        assert sorted(leases) == sorted(f"{job_id} 1" for job_id in ids)
        for job_id in ids:
            assert store.get_job(job_id).status == "finished" and len(store.metrics(job_id)) == 5


def test_killed_workers_lose_and_double_nothing(shared_url: str) -> None:
    kills = 2
    with Store.open(shared_url) as store:
        job_id = store.create_job(kind="train", name="heads", config={}, exclusive="/out").id
        for kill in range(kills):
            worker = _start(shared_url, NUM_STEPS, 0.02)
            _go(worker)
            while len(store.metrics(job_id)) < 13 * (kill + 1) - kill:
                assert worker.poll() is None
            worker.kill()
            worker.communicate(timeout=60)
            assert store.interrupt_dead_jobs() == [job_id]
            store.resume_job(job_id)
        worker = _start(shared_url, NUM_STEPS)
        _go(worker)
        _, errors = worker.communicate(timeout=60)
        assert worker.returncode == 0, errors
        job, rows = store.get_job(job_id), store.metrics(job_id)
        assert (job.status, job.attempt, job.result) == ("finished", kills + 1, {"steps": NUM_STEPS})
        assert sorted((row.step, row.values["square"]) for row in rows) == [(s, float(s * s)) for s in range(NUM_STEPS)]
        assert sorted(item.key for item in store.items(job_id)) == [str(i) for i in range(NUM_STEPS // 10)]
