"""Kills workers a hundred times and shows that nothing is lost: distil, train and evaluate on the tiny target.

    python -m benchmarks.kills --kills 100

Most kills wait until an attempt does its own work: steps of a training, answers. Two workers at a time and two readers
share one database. Every job must end right after it is resumed, with what an
undisturbed run leaves: the same answers byte for byte, the same curve and weights, the same counts; no row doubled, no
half file, and nobody told that the database is locked.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backend.settings import Settings
from benchmarks.common import machine
from benchmarks.killing import (
    WORK,
    Killed,
    Trace,
    fork_server,
    leftovers,
    locked_messages,
    queue_job,
    run_with_kills,
    trace_of,
)
from storage import Store, StoreError

KINDS = ("distill", "train", "evaluate")
PROMPTS = 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--target", default="tiny-llama")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="shorter jobs")
    parser.add_argument("--out", metavar="FILE.json", help="also write the numbers there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headway-kills-") as temporary:
        settings = Settings(home=Path(temporary) / "home", cache=Path(temporary) / "cache")
        settings.home.mkdir()
        report = Kills(args, settings, Path(temporary)).run()
    print(json.dumps(report, indent=1))
    if args.out:
        Path(args.out).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if report["passed"] else 1)


@dataclass
class Kills:
    """One measurement: undisturbed runs first, then killed ones until the number is reached."""

    args: argparse.Namespace
    settings: Settings
    folder: Path
    told: dict[str, list[Killed]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    left: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> dict[str, Any]:
        started = time.monotonic()
        self.context = fork_server()
        self.prompts = self.folder / "prompts.jsonl"
        self.prompts.write_text("".join(_prompt(number) for number in range(8 if self.args.small else PROMPTS)))
        with Store.open(self.settings.database) as store:
            self.whole = {kind: self._undisturbed(store, kind) for kind in self.args.kinds}
            self.left = self.args.kills
            readers = self._start_readers()
            threads = [threading.Thread(target=self._worker, args=(number,)) for number in range(self.args.workers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            reads = self._stop_readers(readers)
            self.faults += [f"left behind: {path}" for path in leftovers(self.folder)]
            self.faults += locked_messages(self.settings)
        return self._report(time.monotonic() - started, reads)

    def _undisturbed(self, store: Store, kind: str) -> Trace:
        job_id = queue_job(store, kind, self._config(kind, "whole"), f"{kind} undisturbed")
        run_with_kills(self.context, store, self.settings, job_id, random.Random(0), lambda: False)
        trace = trace_of(store, self.settings, job_id)
        if trace.status != "finished":
            raise SystemExit(f"{kind} does not even finish undisturbed: {store.get_job(job_id).error}")
        return trace

    def _worker(self, number: int) -> None:
        """Job after job, killed on its way, until all kills are done."""
        rng = random.Random(self.args.seed * 1000 + number)
        turn = number
        with Store.open(self.settings.database) as store:
            while self._want():
                kind = self.args.kinds[turn % len(self.args.kinds)]
                try:
                    self._one(store, kind, f"{number}-{turn}", rng)
                except (StoreError, AssertionError, OSError) as error:
                    self.faults.append(f"{kind}: {type(error).__name__}: {error}")
                turn += 1

    def _one(self, store: Store, kind: str, name: str, rng: random.Random) -> None:
        job_id = queue_job(store, kind, self._config(kind, name), f"{kind} {name}")
        told = run_with_kills(self.context, store, self.settings, job_id, rng, self._want, self._killed)
        trace = trace_of(store, self.settings, job_id)
        with self.lock:
            self.told.setdefault(kind, []).append(told)
            self.faults += told.errors
            if trace.status != "finished":
                self.faults.append(f"{kind} {name} is {trace.status}: {store.get_job(job_id).error}")
            for part in ("metrics", "items", "files"):
                if getattr(trace, part) != getattr(self.whole[kind], part):
                    self.faults.append(f"{kind} {name}: {part} differ from the undisturbed run")
        print(f"{kind} {name}: {told.num_kills} kills, {trace.status}, {self.left} kills left", file=sys.stderr)

    def _want(self) -> bool:
        with self.lock:
            return self.left > 0

    def _killed(self) -> None:
        with self.lock:
            self.left -= 1

    def _config(self, kind: str, name: str) -> dict[str, Any]:
        target, small = {"target": self.args.target, "device": "cpu"}, self.args.small
        if kind == "distill":
            out = str(self.folder / f"answers-{name}.jsonl")
            length = 12 if small else 24
            return target | {"prompts": [str(self.prompts)], "out": out, "max_new_tokens": length, "batch": 6}
        if kind == "train":
            judged = {"evaluate_every": 10 if small else 50, "decode_prompts": 2, "decode_tokens": 16}
            training = judged | {
                "steps": 30 if small else 300,
                "batch_tokens": 32,
                "checkpoint_every": 7,
                "report_every": 2,
            }
            return target | {
                "answers": str(self.folder / "answers-whole.jsonl"),
                "out": str(self.folder / f"drafter-{name}"),
                "drafter": {"num_heads": 2, "draft_vocab": 128},
                "training": training,
                "held_out": 0.2,
                "tree_nodes": 4,
                "work": str(self.folder / f"work-{name}"),
            }
        return target | {
            "name": f"evaluation {name}",  # two of one name would be one that somebody started twice
            "drafters": ["ngram"],
            "prompts": [str(self.prompts)],
            "temperatures": [0.0, 1.0],
            "batches": [1] if small else [1, 4],
            "max_new_tokens": 8 if small else 16,
        }

    # -- readers
    # ----------------------------------------------------------------------------------------------------------

    def _start_readers(self) -> list[Any]:
        """Two processes that look at everything all the time, as two browser tabs would."""
        started = []
        for _ in range(2):
            parent, child = multiprocessing.Pipe()
            process = self.context.Process(target=_read, args=(str(self.settings.database), child), daemon=True)
            process.start()
            started.append((process, parent))
        return started

    def _stop_readers(self, readers: list[Any]) -> int:
        reads = 0
        for process, pipe in readers:
            pipe.send("stop")
            count, errors = pipe.recv()
            reads += count
            self.faults += [f"a reader was told: {error}" for error in errors]
            process.join()
        return reads

    def _report(self, wall_s: float, reads: int) -> dict[str, Any]:
        kinds = {
            kind: {
                "jobs": len(told),
                "kills": sum(one.num_kills for one in told),
                "attempts": sum(one.attempts for one in told),
                "most_kills_of_one_job": max(one.num_kills for one in told),
                "killed_while": _sum([one.kills for one in told]),
            }
            for kind, told in sorted(self.told.items())
        }
        kills = sum(one["kills"] for one in kinds.values())
        at_work = sum(one["killed_while"].get(WORK[kind], 0) for kind, one in kinds.items())
        if 2 * at_work < kills:
            self.faults.append(f"only {at_work} of {kills} kills came while a job did its own work")
        return {
            "conditions": {
                **machine(), "target": self.args.target, "workers": self.args.workers, "seed": self.args.seed,
            },
            "kills": kills,
            "kills_at_work": at_work,
            "asked_for": self.args.kills,
            "reads_by_two_readers": reads,
            "wall_s": round(wall_s, 1),
            "kinds": kinds,
            "faults": self.faults,
            "passed": not self.faults,
        }


def _read(database: str, pipe: Any) -> None:
    count, errors, seen = 0, set(), {}
    with Store.open(database) as store:
        while not pipe.poll(0.02):
            try:
                for job in store.list_jobs(limit=20):
                    for kind, rows in (("m", store.metrics), ("i", store.items)):
                        new = rows(job.id, after_seq=seen.get((kind, job.id), 0))
                        seen[kind, job.id] = max([row.seq for row in new], default=seen.get((kind, job.id), 0))
                    count += 1
            except StoreError as error:
                errors.add(str(error))
    pipe.send((count, sorted(errors)))


def _prompt(number: int) -> str:
    turns = [f"Say the number {number} and its double, please.", "And once more?"][: 1 + number % 2]
    return json.dumps({"question_id": f"q{number}", "category": "numbers", "turns": turns}) + "\n"


def _sum(counts: list[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for key, value in one.items():
            total[key] = total.get(key, 0) + value
    return dict(sorted(total.items()))


if __name__ == "__main__":
    main()
