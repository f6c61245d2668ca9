"""`runs`: what is in the store, as a table or as JSON. Reads only."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from backend.errors import HeadwayError
from backend.settings import Settings
from storage import RunFilter, RunSummary, Store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="newest N runs (default 20)")
    parser.add_argument("--search", help="text in prompt, answer, notes or tags")
    parser.add_argument("--show", metavar="ID", help="one run with everything but its steps")
    parser.add_argument("--steps", metavar="ID", help="the recorded steps of one run, one JSON object a line")
    parser.add_argument("--db", metavar="PATH_OR_URL", help="database; default: runs.db in Headway's home folder")
    parser.add_argument("--json", action="store_true", help="one JSON object a run on stdout")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print runs; raises StoreError for an unknown id or a database that can't be opened."""
    if args.limit < 1:
        raise HeadwayError(f"--limit must be at least 1, but it is {args.limit}.")
    with Store.open(args.db or settings.database) as store:
        if args.steps:
            store.get_run(args.steps)
            for step in store.steps(args.steps):
                print(json.dumps(step, ensure_ascii=False))
        elif args.show:
            print(json.dumps(asdict(store.get_run(args.show)), ensure_ascii=False, default=str, indent=2))
        else:
            runs = store.list_runs(RunFilter(search=args.search), limit=args.limit)
            for line in _lines(runs, args.json):
                print(line)
    return 0


def _lines(runs: list[RunSummary], as_json: bool) -> list[str]:
    if as_json:
        return [json.dumps(asdict(run) | {"acceptance_length": run.acceptance_length}, default=str) for run in runs]
    if not runs:
        return ["No runs yet: start one on the Live page with `python app.py`."]
    rows = [("id", "when", "status", "drafter", "T", "tokens", "length", "prompt"), *map(_row, runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(7)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row[:7], widths, strict=True)) + "  " + row[7]
        for row in rows
    ]


def _row(run: RunSummary) -> tuple[str, ...]:
    length = run.acceptance_length
    prompt = " ".join(run.prompt_start.split())
    return (
        run.id,
        run.created_at.astimezone().strftime("%Y-%m-%d %H:%M"),
        run.status,
        run.drafter_name,
        _plain(run.settings.get("request", {}).get("temperature")),
        _plain(run.num_tokens),
        "" if length is None else f"{length:.2f}",
        prompt[:60] + ("…" if len(prompt) > 60 else ""),
    )


def _plain(value: Any) -> str:
    return "" if value is None else str(value)
