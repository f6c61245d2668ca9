"""Drafters in a real vLLM: acceptance beside Headway's own decoding, a load of many clients, a server that is killed.

    python -m benchmarks.serving --prompts mt_bench.jsonl gsm8k.jsonl ... --limit 7 --out serving.json

Needs vLLM (`python app.py vllm-setup`). On a CPU build times say nothing about other machines; acceptance does.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from backend.jobs import compare_job, load_job
from backend.jobs.compare_config import CompareServingConfig
from backend.jobs.context import ConsoleContext
from backend.jobs.load_config import LoadJobConfig
from backend.jobs.served import prepare, running
from backend.jobs.vllm_config import ServedConfig
from backend.serving.environment import find_vllm
from backend.serving.load import Load, run_load
from backend.settings import Settings
from benchmarks.common import table


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure drafters in vLLM.")
    parser.add_argument("--target", default="smollm2-135m")
    parser.add_argument("--drafters", nargs="+", default=["builtin-medusa"], help="each is compared with vLLM")
    parser.add_argument("--num-tokens", type=int, default=3)
    parser.add_argument("--prompts", nargs="+", default=["prompts/heldout.jsonl"], metavar="FILE")
    parser.add_argument("--limit", type=int, default=7, help="first N prompts of each file")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--parts", nargs="+", default=["compare", "load", "kill"], choices=["compare", "load", "kill"])
    parser.add_argument("--out", metavar="FILE.json", help="also write all numbers there")
    args = parser.parse_args(argv)
    found: dict[str, Any] = {}
    for part in args.parts:
        with tempfile.TemporaryDirectory() as folder:
            found[part] = {"compare": _compare, "load": _load, "kill": _kill}[part](args, Path(folder))
        if args.out:
            Path(args.out).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def _compare(args: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    rows, kept = [("drafter", "position", "Headway", "vLLM", "points apart", "texts equal")], []
    for number, drafter in enumerate(args.drafters):
        config = CompareServingConfig(
            target=args.target, drafter=drafter, num_tokens=args.num_tokens, prompts=tuple(args.prompts),
            limit=args.limit, max_new_tokens=args.max_new_tokens,
        )  # fmt: skip
        done = compare_job.run(config, _context(folder / str(number)))
        equal = done["equal"]["with_and_without"]
        for row in done["positions"]:
            rows.append((
                Path(drafter).name, str(row["position"]), f"{row['own']:.4f}", f"{row['served']:.4f}",
                f"{100 * row['difference']:+.2f}", f"{equal['same']} of {equal['of']}",
            ))  # fmt: skip
        kept.append({"drafter": Path(drafter).name, **{key: value for key, value in done.items() if key != "file"}})
    print(table(rows), flush=True)
    return kept


def _load(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    config = LoadJobConfig(
        target=args.target, drafter=args.drafters[0], num_tokens=args.num_tokens, prompts=tuple(args.prompts),
        limit=args.limit, clients=(args.clients,), seconds=args.seconds, rounds=args.rounds,
        max_new_tokens=args.max_new_tokens,
    )  # fmt: skip
    done = load_job.run(config, _context(folder))
    rows = [
        ("arm", "clients", "tokens/s", "requests", "answered", "failed", "cut", "first token p50 ms", "token p50 ms")
    ]
    for row in done["rows"]:
        rows.append((
            row["arm"], str(row["clients"]), f"{row['tokens_per_s']:.1f}", str(row["requests"]), str(row["answered"]),
            str(row["failed"]), str(row["cut"]), f"{row['ttft_ms']['p50']:.0f}", f"{row['tpot_ms']['p50']:.0f}",
        ))  # fmt: skip
    print(table(rows), flush=True)
    return {key: value for key, value in done.items() if key not in ("file", "raw")}


def _kill(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """How long after a server's death the test has ended, and with how many answers."""
    context = _context(folder)
    config = ServedConfig(target=args.target, drafter=args.drafters[0], num_tokens=args.num_tokens)
    served = prepare(config, context)
    killed: list[float] = []
    with running(config, served, find_vllm(context.settings), context, folder / "vllm.log") as server:

        def kill() -> None:
            killed.append(time.monotonic())
            os.kill(server.pid, signal.SIGKILL)

        load = Load(args.clients, None, args.seconds, args.max_new_tokens)
        plan = LoadJobConfig(prompts=tuple(args.prompts), limit=args.limit)
        prompts = load_job.load_prompts(plan, [Path(path) for path in args.prompts])
        timer = threading.Timer(args.seconds / 3, kill)
        timer.start()
        result = run_load(server.options.url, config.target, prompts, load)
        spent = time.monotonic() - killed[0]
    answered = sum(one.error is None for one in result.records)
    print(
        f"The end of the server was reported after {spent:.2f} s; {answered} answers are kept: {result.gone}",
        flush=True,
    )
    return {"reported_after_s": round(spent, 3), "answered": answered, "gone": result.gone}


def _context(folder: Path) -> ConsoleContext:
    folder.mkdir(parents=True, exist_ok=True)
    return ConsoleContext(Settings.from_environ(), folder)


if __name__ == "__main__":
    sys.exit(main())
