"""The calibration: answers prompts and keeps what the drafter would have guessed along the way; one item an answer.

Answers that are there already are not given again, so a calibration that was killed goes on, and finds what an
undisturbed one finds. Knows no page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backend.data.prompts import read_prompts
from backend.engine.protocol import DecodeRequest
from backend.engine.remember import register_version
from backend.engine.workbench import Workbench
from backend.errors import Cancelled, HeadwayError
from backend.jobs.asking import Question, questions_that_fit
from backend.jobs.calibrate_config import CalibrateJobConfig
from backend.jobs.context import JobContext
from backend.jobs.going_on import SETUP, begin
from backend.jobs.opening import holding
from backend.jobs.places import write_result
from backend.jobs.tune_conditions import measured_with
from backend.targets.target import Target
from backend.trees import TreeShape
from backend.tuning.calibrating import WideTree, calibrate, wide_tree
from backend.tuning.calibration import Calibration, joined
from backend.tuning.tuned import predicted

FILE = "calibration.json"
CHUNK = 4  #: times the batch: prompts that are handed to one decode


def run(config: CalibrateJobConfig, context: JobContext) -> dict[str, Any]:
    """Calibrate. Returns {file, positions, prompts, hits, notes}.

    Raises HeadwayError for what a person can mend, and when target, drafter or prompts are not those that an earlier
    attempt used; Cancelled when it was asked to stop.
    """
    files = [Path(path).expanduser() for path in config.prompts]
    hashes = context.pin(files)
    listed = [prompt for file in files for prompt in read_prompts(file, config.limit).prompts]
    bench = Workbench(context.settings, context.device or config.device, config.dtype, config.trust_remote_code)
    target = bench.target(config.target, lambda part, sentence: context.progress(part, 1, "loading", sentence))
    if context.store is not None:
        context.link(version_id=register_version(context.store, target))
    request = DecodeRequest(target=config.target, drafter=config.drafter, force=config.force)
    drafter, warnings = bench.drafter(request, target)
    wide = wide_tree(drafter, config.nodes, config.ranks, config.depth)
    questions = questions_that_fit(target, listed, config.max_new_tokens + wide.shape.max_depth)
    conditions = measured_with(target, config.drafter, drafter) | {
        "prompts": {Path(path).name: content for path, content in hashes.items()},
        "num_prompts": len(questions),
        "left_out": len(listed) - len(questions),
        "warnings": warnings,
        "temperatures": list(config.temperatures),
        "max_new_tokens": config.max_new_tokens,
        "seed": config.seed,
    }
    setup = {"conditions": conditions, "shape": wide.shape.to_json(), "ranks": wide.ranks, "parallel": wide.parallel}
    begin(context, setup, target, "calibration")
    with holding(context, target, f"calibrating {drafter.name}"):
        _answer_missing(config, context, target, wide, questions)
    return _finished(config, context, wide, conditions)


def _answer_missing(
    config: CalibrateJobConfig, context: JobContext, target: Target, wide: WideTree, questions: list[Question]
) -> None:
    done = set(context.items())
    total, answered = len(questions) * len(config.temperatures), 0
    for temperature in config.temperatures:
        missing = [one for one in questions if one.key(f"T{temperature:g}") not in done]
        answered += len(questions) - len(missing)
        for chunk in _chunks(missing, CHUNK * config.batch):
            context.progress(answered, total, "answers", f"T = {temperature:g}")
            by_number = {one.number: one for one in chunk}
            found = calibrate(
                target,
                wide,
                [one.ids for one in chunk],
                [(one.prompt.question_id, one.prompt.category) for one in chunk],
                temperature,
                config.max_new_tokens,
                min(config.batch, len(chunk)),
                config.seed,
                list(by_number),
                context.should_stop,
            )
            for number, walk in found:
                context.item(by_number[number].key(f"T{temperature:g}"), walk.to_dict())
                answered += 1
                context.progress(answered, total, "answers", f"T = {temperature:g}")
            if context.should_stop():
                raise Cancelled("The calibration was stopped; what it has answered is kept.")


def _chunks(questions: list[Question], size: int) -> Iterator[list[Question]]:
    for start in range(0, len(questions), size):
        yield questions[start : start + size]


def calibration_of(items: dict[str, dict[str, Any]]) -> Calibration:
    """What a job has so far. Raises HeadwayError when it has not begun."""
    setup = items.get(SETUP)
    if setup is None:
        raise HeadwayError("The calibration has not begun yet; wait a moment.")
    walks = [data for key, data in sorted(items.items()) if key != SETUP]
    shape = tuple(tuple(path) for path in setup["shape"])
    return Calibration(TreeShape(shape), setup["ranks"], setup["parallel"], joined(walks), setup["conditions"])


def _finished(
    config: CalibrateJobConfig, context: JobContext, wide: WideTree, conditions: dict[str, Any]
) -> dict[str, Any]:
    made = calibration_of(context.items())
    tables = made.tables()
    text = json.dumps(made.to_dict() | {"tables": tables}) + "\n"
    rates = tables["marginal" if made.parallel else "conditional"]
    return {
        "file": str(write_result(context.folder, FILE, text, config.out)),
        "positions": made.positions,
        "prompts": tables["prompts"],
        "hits": [[round(one["rate"] or 0.0, 5) for one in row] for row in rates],
        "own_tree_length": _own(made, conditions),
        "parallel": wide.parallel,
        "notes": conditions["warnings"],
    }


def _own(made: Calibration, conditions: dict[str, Any]) -> float | None:
    """What the drafter's own tree would have accepted; None when there is too little."""
    paths = tuple(tuple(path) for path in conditions["drafter"]["tree_paths"])
    if not len(made.whole_ranks) or not paths:
        return None
    return round(predicted(made, TreeShape(paths), None, 1, 0).length, 4)
