"""What tuned trees really do: an evaluation of them beside plain decoding, in turns."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from backend.errors import HeadwayError
from backend.jobs.as_text import validated
from backend.jobs.recorded import run_command
from backend.jobs.tune_config import TuneJobConfig
from backend.settings import Settings


def measured(
    args: argparse.Namespace, settings: Settings, tuning: TuneJobConfig, found: dict[str, Any]
) -> dict[str, Any]:
    """{conditions, rows}: the rows of whole sets, plain decoding among them, of the static tree, the dynamic one and
    the chain with stops, as far as they were found. Raises HeadwayError.

    found: what the search for `tuning` found.
    """
    grown = [one["tree"] for one in (found["dynamic"], found["confidence_stops"]) if one is not None]
    trees = [json.dumps(tree) for tree in (found["paths"], *grown) if tree]
    if not trees:
        raise HeadwayError("There is no tree to measure: plain decoding is the fastest.")
    about = found["conditions"]["calibration"]
    config = validated(
        "evaluate",
        {
            "target": about["target"],
            "drafters": [about["drafter"]["spec"]],
            "trees": trees,
            "prompts": args.measure,
            "limit": args.limit,
            "temperatures": [found["conditions"]["temperature"]],
            "batches": [tuning.batch],
            "max_new_tokens": args.max_new_tokens,
            "dtype": about["dtype"],
            "sampled": tuning.sampled,
        },
    )
    with tempfile.TemporaryDirectory() as work:
        done = run_command("evaluate", config, args, settings, Path(work))
        table = json.loads(Path(done["table"]).read_text(encoding="utf-8"))
    rows = [row for row in table["rows"] if row["category"] is None]
    return {"conditions": table["setup"], "rows": rows}
