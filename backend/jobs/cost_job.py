"""Measuring a cost curve as a job: rounds over all points in turns, one item a round, until the time is up.

Holds the device; a curve measured while somebody else had it is marked *contended* and feeds no recommendation. A job
that was killed goes on with the next round. Knows no page.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from backend.drafters.base import Drafter
from backend.engine.protocol import DecodeRequest
from backend.engine.remember import register_version
from backend.engine.workbench import Workbench
from backend.errors import Cancelled, HeadwayError
from backend.jobs.bystanders import Bystanders
from backend.jobs.context import JobContext
from backend.jobs.cost_config import CostJobConfig
from backend.jobs.opening import holding
from backend.jobs.places import write_result
from backend.jobs.tune_conditions import measured_with
from backend.targets.memory import available_bytes, kv_bytes_per_token, model_sizes
from backend.targets.target import Target
from backend.trees import TreeShape
from backend.tuning.cost_curve import CostCurve
from backend.tuning.cost_measure import (
    FEWEST_ROUNDS,
    MOST_ROUNDS,
    Bench,
    Drafting,
    Found,
    Point,
    Task,
    curve_of,
    scout,
    tasks,
    trees_for,
    within_memory,
)

SETUP, FILE = "setup", "cost.json"
BUSY = 0.1  #: share of the processors that others may use before it is said


def run(config: CostJobConfig, context: JobContext) -> dict[str, Any]:
    """Measure. Returns {file, rounds, knee_rows, plain_step_ms, contended, notes}.

    Raises HeadwayError for what a person can mend; Cancelled when it was asked to stop.
    """
    bench = Workbench(context.settings, context.device or config.device, config.dtype, config.trust_remote_code)
    target = bench.target(config.target, lambda part, sentence: context.progress(part, 1, "loading", sentence))
    if context.store is not None:
        context.link(version_id=register_version(context.store, target))
    request = DecodeRequest(target=config.target, drafter=config.drafter, force=config.force)
    drafter, warnings = bench.drafter(request, target)
    conditions = measured_with(target, config.drafter, drafter) | {"sizes": model_sizes(target)}
    with holding(context, target, f"timing {config.target}") as alone:
        _measure(config, context, target, drafter, conditions, alone)
    return _finished(context, config, conditions, warnings)


def _measure(
    config: CostJobConfig,
    context: JobContext,
    target: Target,
    drafter: Drafter,
    conditions: dict[str, Any],
    alone: bool,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Rounds until the time is up; those of earlier attempts count."""
    before = context.items()
    blocks, notes = _blocks(config, target, drafter)
    if SETUP not in before:
        context.item(SETUP, {"conditions": conditions, "contended": not alone, "notes": notes})
    else:
        _check_same(before[SETUP]["conditions"], conditions)
    rounds = [data for key, data in before.items() if key != SETUP]
    wanted = [_task(one) for one in rounds[0]["tasks"]] if rounds else [task for block in blocks for task in block]
    timer = Bench(target, drafter, wanted, config.seed)
    spent, number = sum(one["seconds"] for one in rounds), len(rounds)
    while number < MOST_ROUNDS:
        if context.should_stop():
            raise Cancelled("Measuring was stopped; the rounds so far are kept.")
        longest = max((one["seconds"] for one in rounds[1:]), default=0.0)
        if number >= FEWEST_ROUNDS and spent + longest > config.seconds:
            break
        context.progress(min(spent, config.seconds), config.seconds, "s", f"round {number + 1}")
        started, others = clock(), Bystanders()
        if number == 0:
            found, dropped = scout(timer, blocks, config.seconds, clock)
            wanted, said = list(found), dropped
        else:
            found, said = {task: timer.time(task) for task in wanted}, []
        data = _item(found, clock() - started, others.share(), said)
        context.item(f"round {number:02d}", data)
        rounds.append(data)
        spent, number = spent + data["seconds"], number + 1
    context.progress(config.seconds, config.seconds, "s", "")


def _blocks(config: CostJobConfig, target: Target, drafter: Drafter) -> tuple[list[list[Task]], list[str]]:
    room = target.max_context - config.max_rows - 1
    contexts = sorted({min(one, room) for one in config.contexts})
    if contexts[0] < 1:
        raise HeadwayError(f"{target.name} has a context of {target.max_context} tokens; ask for fewer rows.")
    notes = [
        f"A context of {one} tokens was not measured: {target.name} has room for {room}."
        for one in config.contexts
        if one > room
    ]
    shapes = [] if drafter.family == "none" else trees_for(drafter)
    blocks = tasks(sorted({1, *config.batches}), contexts, config.max_rows, shapes)
    limit = config.memory_gb * 1e9 if config.memory_gb else available_bytes(target.device) / 2
    blocks, left_out = within_memory(blocks, kv_bytes_per_token(target.model.config, target.dtype), int(limit))
    return blocks, notes + left_out


def _check_same(before: dict[str, Any], now: dict[str, Any]) -> None:
    same = ("version", "device", "dtype", "threads", "packages", "drafter")
    changed = [key for key in same if before.get(key) != now[key]]
    if changed:
        raise HeadwayError(
            f"This measurement can't go on: {' and '.join(changed)} changed since it began; start a new one."
        )


def _item(found: Found, seconds: float, busy: float | None, notes: list[str]) -> dict[str, Any]:
    """A round as JSON: tasks and their times in the same order."""
    return {
        "tasks": [_told(task) for task in found],
        "ms": [list(value) if isinstance(value, tuple) else value for value in found.values()],
        "seconds": seconds,
        "others_busy": busy,
        "notes": notes,
    }


def _told(task: Task) -> dict[str, Any]:
    if isinstance(task, Point):
        return asdict(task)
    return {"tree": None if task.shape is None else task.shape.to_json(), "batch": task.batch}


def _task(data: dict[str, Any]) -> Task:
    if "rows" in data:
        return Point(data["rows"], data["batch"], data["context"])
    tree = data["tree"]
    return Drafting(None if tree is None else TreeShape(tuple(tuple(path) for path in tree)), data["batch"])


def curve_from_items(items: dict[str, dict[str, Any]]) -> CostCurve:
    """The curve of the rounds so far. Raises HeadwayError when there is none."""
    rounds = [data for key, data in sorted(items.items()) if key != SETUP]
    if SETUP not in items or not rounds:
        raise HeadwayError("Nothing has been measured yet; wait for the first round.")
    found: list[Found] = []
    for data in rounds:
        values = [tuple(value) if isinstance(value, list) else value for value in data["ms"]]
        found.append(dict(zip(map(_task, data["tasks"]), values, strict=True)))
    notes = [*items[SETUP]["notes"], *(sentence for data in rounds for sentence in data["notes"])]
    busy = max((data["others_busy"] or 0.0 for data in rounds), default=0.0)
    if items[SETUP]["contended"]:
        notes.append("Measured while another program had the device, so no tree is chosen by it.")
    elif busy > BUSY:
        notes.append(f"Other programs used up to {100 * busy:.0f} % of the processors: measure again when it is quiet.")
    curve = curve_of(found, items[SETUP]["conditions"]["drafter"]["name"], notes)
    return replace(curve, conditions=items[SETUP]["conditions"] | {"contended": items[SETUP]["contended"]})


def _finished(
    context: JobContext, config: CostJobConfig, conditions: dict[str, Any], warnings: list[str]
) -> dict[str, Any]:
    items = context.items()
    curve = curve_from_items(items)
    text = json.dumps(curve.to_dict()) + "\n"
    return {
        "file": str(write_result(context.folder, FILE, text, config.out)),
        "rounds": len(items) - 1,
        "knee_rows": curve.knee(),
        "plain_step_ms": curve.plain(1, min(curve.contexts)).ms,
        "contended": items[SETUP]["contended"],
        "notes": [*warnings, *curve.notes],
    }
