"""The search for the fastest tree as a job: what is found is kept, so that an export and the front page know of it.

Turns files and jobs into a calibration and a cost curve, searches, and writes one JSON file. Knows nothing of how a
search works.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from backend.drafters.adaptive import refuse_sampled
from backend.engine.remember import recorded_drafter, recorded_version
from backend.errors import Cancelled, HeadwayError
from backend.jobs.context import JobContext
from backend.jobs.places import write_result
from backend.jobs.tune_conditions import check_here, check_together
from backend.jobs.tune_config import TuneJobConfig
from backend.jobs.tune_sources import calibration_at, cost_at
from backend.trees import parse_any_tree
from backend.trees.search import HitTable
from backend.trees.shapes import parse_tree
from backend.tuning.calibration import Calibration
from backend.tuning.cost_curve import CostCurve
from backend.tuning.files import path_of_text, read_hits
from backend.tuning.tuned import Report, Tuned, expected, foretold, tune_calibration, tune_hits

FILE = "tuned.json"


def run(config: TuneJobConfig, context: JobContext) -> dict[str, Any]:
    """Search. Returns {file, drafter, num_nodes, paths, expected_acceptance_length, expected_tokens_per_s, speedup,
    notes}; the file has all that `tune-tree --json` prints.

    Raises HeadwayError for what a person can mend; Cancelled when it was asked to stop.
    """
    cost = cost_at(config.cost, context.store) if config.cost else None
    if cost is not None:
        check_here(cost.conditions)
    if config.hits is not None:
        table = _table(config.hits)
        tuned = tune_hits(table, cost, config.nodes, config.batch, config.context)
        found = tuned.to_dict() | _against_hits(config, table, cost)
    else:
        whole = calibration_at(str(config.calibration), context.store)
        temperature = whole.temperatures[0] if config.temperature is None else config.temperature
        calibration = whole.only(temperature, config.category)
        tuned = _searched(config, calibration, cost, _reporter(context))
        tuned.conditions.update({"calibration": dict(calibration.conditions), "temperature": temperature})
        found = tuned.to_dict() | _against(config, calibration, cost)
    about = tuned.conditions.get("calibration", {})
    _link(context, about)
    file = write_result(context.folder, FILE, json.dumps(found, ensure_ascii=False) + "\n", config.out)
    brief = ("num_nodes", "paths", "expected_acceptance_length", "expected_tokens_per_s", "speedup", "notes")
    return {"file": str(file), "drafter": about.get("drafter", {}).get("spec")} | {name: found[name] for name in brief}


def _table(path: str) -> HitTable:
    read = read_hits(path)
    return HitTable(read.hits, {path_of_text(text): row for text, row in read.conditional.items()})


def _searched(config: TuneJobConfig, calibration: Calibration, cost: CostCurve | None, report: Report) -> Tuned:
    if cost is not None:
        check_together(calibration.conditions, cost.conditions)
    grows = bool(calibration.conditions.get("drafter", {}).get("grows")) and not config.sampled
    tuned = tune_calibration(
        calibration, cost, config.nodes, config.batch, config.context, grows=grows, stops=not config.sampled,
        report=report,
    )  # fmt: skip
    if config.sampled:
        try:
            refuse_sampled(True)
        except HeadwayError as error:  # named and left out: a static tree can still be found
            return tuned.noting(str(error))
    return tuned


def _reporter(context: JobContext) -> Report:
    def report(done: int, total: int, what: str) -> None:
        if context.should_stop():
            raise Cancelled("The search was stopped.")
        context.progress(done, total, "searches", what)

    return report


def _against(config: TuneJobConfig, calibration: Calibration, cost: CostCurve | None) -> dict[str, Any]:
    """What is predicted of other trees with the same rates: {"against": {tree: candidate}}; nothing where none is
    named. Raises HeadwayError for what is no tree.
    """
    trees = {text: parse_any_tree(text) for text in config.against}
    at = calibration.context if config.context is None else config.context
    found = {text: foretold(calibration, tree, cost, config.batch, at) for text, tree in trees.items()}
    return {"against": found} if found else {}


def _against_hits(config: TuneJobConfig, table: HitTable, cost: CostCurve | None) -> dict[str, Any]:
    """The same from rates alone."""
    shapes = {text: parse_tree(text) for text in config.against}
    at = config.context if config.context is not None else min(cost.contexts) if cost is not None else 0
    found = {text: expected(table, shape, cost, config.batch, at).to_dict() for text, shape in shapes.items()}
    return {"against": found} if found else {}


def _link(context: JobContext, about: Mapping[str, Any]) -> None:
    """The tree belongs to the version and the heads that were calibrated, where the store knows them."""
    version_id = recorded_version(context.store, about.get("version"))
    if version_id is not None:
        weights = about.get("drafter", {}).get("weights")
        context.link(version_id=version_id, drafter_id=recorded_drafter(context.store, weights, version_id))
