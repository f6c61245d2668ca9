"""How well the planner foretells a training: minutes, memory at the peak, bytes on disk; at a small and a medium size.

    OMP_NUM_THREADS=1 python -m benchmarks.planner --out benchmarks/results/planner.json

Each size is planned by a measuring job in a fresh process, as the Train page's "Measure" does it, and then trained for
real in another one. Printed are what was foretold, what happened, and the quotient; the planner is meant to stay within
a factor of 1.5. Knows the jobs, no family.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANSWERS = Path("prompts/answers-smollm2-135m.npz")
BOUND = 1.5


@dataclass(frozen=True)
class Size:
    """`answers`: every so manieth is taken, this many in all."""

    name: str
    answers: int
    config: dict[str, Any]


SIZES = (
    Size(
        "small", 60,
        {"drafter": {"family": "medusa", "num_heads": 2, "draft_vocab": 2048},
         "training": {"epochs": 4, "batch_tokens": 512, "evaluate_every": 25, "decode_prompts": 2}},
    ),
    Size(
        "medium", 240,
        {"drafter": {"family": "medusa", "num_heads": 4, "draft_vocab": 8192},
         "training": {"epochs": 3, "batch_tokens": 1024, "evaluate_every": 40}},
    ),
)  # fmt: skip


def measure(work: Path, config: dict[str, Any]) -> dict[str, Any]:
    """In a process of its own: what the measuring job says."""
    from backend.jobs.kinds import JOB_KINDS

    made = JOB_KINDS["plan"].config.model_validate(config)
    return JOB_KINDS["plan"].run(made, _context(work))


def train(work: Path, config: dict[str, Any]) -> dict[str, Any]:
    """In a process of its own: what a training really takes."""
    import resource

    import psutil

    import backend.jobs.train_job  # noqa: F401 - what an idle worker has loaded
    from backend.jobs.kinds import JOB_KINDS

    made = JOB_KINDS["train"].config.model_validate(config)
    before, started = psutil.Process().memory_info().rss, time.perf_counter()
    JOB_KINDS["train"].run(made, _context(work))
    took = time.perf_counter() - started
    scale = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    written = sum(file.stat().st_size for file in work.rglob("*") if file.is_file())
    return {"minutes": took / 60, "peak_memory_bytes": peak - before, "bytes": written}


def _context(folder: Path) -> Any:
    from backend.jobs.context import ConsoleContext
    from backend.settings import Settings

    real = Settings.from_environ()
    folder.mkdir(parents=True, exist_ok=True)
    return ConsoleContext(Settings(home=folder / "home", cache=real.cache), folder, quiet=True)


def compare(size: Size, target: str, folder: Path) -> dict[str, Any]:
    """Foretold and happened, by what was asked; the quotient is foretold over happened."""
    from backend.data.answers import pack_answers, unpack_answers

    every = unpack_answers(ANSWERS)
    answers = folder / f"{size.name}.npz"
    pack_answers([every[i * len(every) // size.answers] for i in range(size.answers)], answers)
    config = {"target": target, "answers": str(answers), **size.config}
    foretold = _alone("measure", folder / f"{size.name}-plan", config)
    work = folder / f"{size.name}-train"
    happened = _alone("train", work, {**config, "work": str(work), "out": str(work / "drafter")})
    keys = ("minutes", "peak_memory_bytes", "bytes")
    return {
        "size": size.name,
        "config": size.config,
        "answers": size.answers,
        **{key: {"foretold": foretold[key], "happened": happened[key]} for key in keys},
    }


def _alone(what: str, work: Path, config: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.planner", "--only", what, str(work), json.dumps(config)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'size':8} {'what':20} {'foretold':>12} {'happened':>12} {'quotient':>9}"]
    for row in rows:
        for key in ("minutes", "peak_memory_bytes", "bytes"):
            foretold, happened = row[key]["foretold"], row[key]["happened"]
            scale, unit = (1.0, "min") if key == "minutes" else (1e6, "MB")
            quotient = foretold / happened
            mark = "" if 1 / BOUND <= quotient <= BOUND else "  outside"
            lines.append(
                f"{row['size']:8} {key:20} {foretold / scale:8.2f} {unit:3} {happened / scale:8.2f} {unit:3} "
                f"{quotient:8.2f}{mark}"
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Hold the planner against real trainings.")
    parser.add_argument("--target", default="smollm2-135m")
    parser.add_argument("--sizes", nargs="*", default=[size.name for size in SIZES])
    parser.add_argument("--out", type=Path, help="also write the numbers here as JSON")
    parser.add_argument("--only", nargs=3, metavar=("WHAT", "FOLDER", "CONFIG"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        what, folder, config = args.only
        print(json.dumps({"measure": measure, "train": train}[what](Path(folder), json.loads(config))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for size in SIZES:
            if size.name in args.sizes:
                rows.append(compare(size, args.target, Path(folder)))
                print(table(rows[-1:]), flush=True)
    if args.out:
        from benchmarks.common import machine  # here, so that the processes that are measured load what a worker does

        data = {"conditions": {**machine(), "target": args.target, "answers": ANSWERS.name}, "rows": rows}
        args.out.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
