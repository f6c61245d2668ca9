"""A release as a job: a new checkpoint gets a drafter of its own, which is measured and held against what serves now.

It is made of the other jobs, each a stage (stage.py): the target answers the prompts, a drafter learns, a tree is tuned
on prompts it did not learn from, and acceptance and speed are measured on yet others. Killed anywhere it goes on there.
Knows what follows what; nothing of how any of it is done.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from backend.analysis.counts import PromptCounts
from backend.analysis.evaluation import PLAIN, part_from_dict
from backend.analysis.paired import Figure, difference, ratio
from backend.drafters.checkpoint import META, read_meta, write_json_atomically, write_text_atomically
from backend.engine.remember import recorded_version, register_drafter
from backend.errors import HeadwayError
from backend.jobs import release_stages as stages
from backend.jobs.context import JobContext
from backend.jobs.evaluate_config import SETUP
from backend.jobs.release_config import ReleaseJobConfig
from backend.jobs.release_report import report_text
from backend.jobs.release_stages import DRAFTER, SERVING, Serving
from backend.jobs.stage import StageContext, begun_as, stage

REPORT, TEXT = "report.json", "report.md"


def run(config: ReleaseJobConfig, context: JobContext) -> dict[str, Any]:
    """Release. Returns {passed, out, report, acceptance_length, speedup, checks, weights}.

    Raises HeadwayError for anything the person can mend, Cancelled when asked to stop.
    """
    out = Path(config.out).expanduser()
    if out.exists() and not (context.folder / "out").is_dir():
        raise HeadwayError(f"{out} is there already; choose another folder for this release.")
    begun_as(context, config.model_dump(mode="json"), "release")
    context.pin([Path(path).expanduser() for path in config.prompts])
    serving = _serving(config, context)
    sides = stage(context, "prompts", lambda inner: stages.split_prompts(config, inner))
    answers = stage(context, "answers", lambda inner: stages.answered(config, inner, sides["train"]))
    trained = stages.trained(config, context, answers["out"], serving)
    ways = {name: found["out"] for name, found in trained.items()}
    tuned = stage(context, "tree", lambda inner: stages.tuned(config, inner, ways["train"], sides["tune"]))
    asked = sides["measure"]
    measured = stage(context, "measure", lambda inner: stages.measured(config, inner, ways, tuned, asked, serving))
    before = stages.measured_before(config, context, serving, asked)
    scores = stage(context, "evaluation", lambda inner: stages.scored(config, inner, ways["train"], serving))
    kept = max(ways, key=lambda name: float(measured["lengths"][name]))
    found = {
        "name": config.name or out.name,
        "target": config.target,
        "kept": kept,
        "started_from": trained[kept]["started_from"],
        "answers": {name: answers[name] for name in ("answers", "tokens", "truncated")},
        "tree": tuned["paths"],
        "measured": measured,
        "serving": asdict(serving) | {"measured": before},
        "against_serving": None if before is None else _paired(context, kept),
        "scores": scores,
        "config": config.model_dump(mode="json"),
    }
    found["checks"] = _checks(config, found)
    found["passed"] = all(one["passed"] for one in found["checks"])
    stage(context, "out", lambda inner: _written(out, ways[kept], found))
    _register(context, out)
    meta = read_meta(out / DRAFTER)
    return {
        "passed": found["passed"], "out": str(out), "report": str(out / REPORT), "checks": found["checks"],
        "acceptance_length": measured["lengths"][kept], "speedup": measured["speedups"][kept],
        "weights": meta.weights_sha256,
    }  # fmt: skip


def _serving(config: ReleaseJobConfig, context: JobContext) -> Serving:
    """As the person named it, else what the store labels so. Raises HeadwayError for half a name without a label."""
    target, drafter = config.serving_target, config.serving_drafter
    if context.store is not None and (target is None or drafter is None):
        versions = context.store.list_versions()
        wanted = [one for one in versions if (SERVING in one.tags if target is None else one.source == target)]
        for version in wanted[:1]:
            target = target or version.source
            made = sorted(context.store.list_drafters(version.id), key=lambda one: one.created_at)
            drafter = drafter or (made[-1].path if made else None)
    if config.max_drop is not None and (target is None or drafter is None):
        raise HeadwayError(
            "A largest drop needs to know what serves now: label a version `serving`, or give --serving-target and "
            "--serving-drafter."
        )
    if config.compare_warm_start and drafter is None:
        raise HeadwayError("There is no drafter to start from: give --serving-drafter, or leave the comparison out.")
    return Serving(target, drafter)


def _paired(context: JobContext, kept: str) -> dict[str, Any]:
    """How much the new acceptance length is above the serving one, paired by prompt."""
    measured = json.loads((context.folder / "measure" / "result.json").read_text(encoding="utf-8"))
    new = _lengths(StageContext(context, "measure").items(), measured["keys"][kept])
    serving = _lengths(StageContext(context, SERVING).items(), None)
    common = sorted(new.keys() & serving.keys())

    def figure(side: Mapping[tuple[str, str], PromptCounts]) -> Figure:
        steps = [side[one].num_steps for one in common]
        return ratio([side[one].num_accepted + side[one].num_steps for one in common], steps, "release")

    before, now = figure(serving), figure(new)
    found = difference(before, now)
    between = found.change_interval
    return {
        "prompts": len(common),
        "serving": before.value,
        "new": now.value,
        "change": found.change,
        "interval": None if between is None else {"low": between.low, "high": between.high},
    }


def _lengths(items: Mapping[str, Mapping[str, Any]], contender: str | None) -> dict[tuple[str, str], PromptCounts]:
    """(set, prompt) -> counts of one contender; None: of the only one that drafts."""
    parts = [part_from_dict(data) for key, data in items.items() if key != SETUP]
    chosen = [one for one in parts if (one.contender == contender if contender else one.contender != PLAIN)]
    return {(part.set, answer.prompt): answer for part in chosen for answer in part.answers}


def _checks(config: ReleaseJobConfig, found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """{what, value, limit, passed} of every limit that was set."""
    checks = []
    length = float(found["measured"]["lengths"][found["kept"]])
    if config.min_acceptance is not None:
        checks.append(_check("acceptance length", length, config.min_acceptance))
    if config.allowed_drop is not None:
        against = found["against_serving"]
        checks.append(_check("acceptance over what serves now", 1 + against["change"], 1 - config.allowed_drop))
    if config.min_score is not None:
        checks.append(_check("score of the model's evaluation", found["scores"]["new"], config.min_score))
    return checks


def _check(what: str, value: float, limit: float) -> dict[str, Any]:
    return {"what": what, "value": value, "limit": limit, "passed": value >= limit}


def _written(out: Path, drafter: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """The folder, whole or not at all: the drafter with its tuned tree, the report for people and for programs."""
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".partial", dir=out.parent))
        shutil.copytree(drafter, partial / DRAFTER)
        if found["tree"]:
            meta = json.loads((partial / DRAFTER / META).read_text(encoding="utf-8"))
            write_json_atomically(partial / DRAFTER / META, meta | {"tree": found["tree"]})
        write_json_atomically(partial / REPORT, found)
        write_text_atomically(partial / TEXT, report_text(found))
        partial.chmod(0o755)
        partial.rename(out)
    return {"out": str(out)}


def _register(context: JobContext, out: Path) -> None:
    version_id = recorded_version(context.store, read_meta(out / DRAFTER).version)
    if context.store is not None and version_id is not None:
        context.link(version_id=version_id, drafter_id=register_drafter(context.store, str(out / DRAFTER), version_id))
