"""`watch`: whether drafters still fit the versions they meet; exit code 1 when an alarm was raised.

Turns options into a config and runs the job. Knows nothing of how it is done.
"""

from __future__ import annotations

import argparse
import json
from typing import cast

from backend.jobs.as_text import add_config_options, config_of
from backend.jobs.console import say
from backend.jobs.recorded import add_store_arguments, run_command
from backend.jobs.watch_config import WatchJobConfig
from backend.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "watch")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Watch and say what was found; raises HeadwayError for anything the person can mend."""
    config = cast(WatchJobConfig, config_of("watch", args))
    done = run_command("watch", config, args, settings)
    if args.json:
        print(json.dumps(done, ensure_ascii=False))
        return int(bool(done["alarms"]))
    for row in done["series"]:
        say(_line(row))
    for one in done["alarms"]:
        say(one["sentence"])
    rejected = sum(done["rejected"].values())
    say(f"{done['requests']:,} requests, {len(done['alarms'])} alarms, {rejected} lines that are no requests.")
    return int(bool(done["alarms"]))


def _line(row: dict[str, object]) -> str:
    recent, baseline = row["recent"], row["baseline"]
    told = "no request yet" if recent is None else f"{recent:.2f} tokens a step over {row['requests']} requests"
    against = "no baseline yet" if baseline is None else f"baseline {baseline:.2f}"
    domain = f" on {row['domain']}" if row["domain"] else ""
    return f"{row['drafter']} with {row['version']}{domain}: {told}, {against}"
