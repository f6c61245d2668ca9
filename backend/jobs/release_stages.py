"""What each stage of a release asks of which job, and what it gives back. The order of the stages is release_job.py's.

Knows the other jobs' settings; no limit and no report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.acceptance import Rule, SamplingSettings
from backend.analysis.evaluation import MEAN
from backend.data.splitting import write_split
from backend.decoding.loop import DecodeSettings
from backend.drafters.checkpoint import META, read_meta
from backend.drafters.registry import folder_of, load_drafter
from backend.errors import Cancelled, HeadwayError
from backend.jobs import calibrate_job, cost_job, distill_job, evaluate_job, train_job, tune_job
from backend.jobs.as_text import validated
from backend.jobs.configs import TargetConfig
from backend.jobs.context import JobContext
from backend.jobs.evaluate_config import contender_key
from backend.jobs.opening import open_for
from backend.jobs.release_config import ReleaseJobConfig
from backend.jobs.stage import StageContext, stage
from backend.jobs.sweep_task import TaskScore, printed_number

DRAFTER = "drafter"
SERVING = "serving"  #: the stage that measures what serves now, and the label of that version
MEASURED_TOKENS = 128  #: of an answer that is measured, at most
EVAL_S = 24 * 3600.0


@dataclass(frozen=True)
class _Task:
    """See sweep_task.TaskSettings."""

    task_file: str | None
    task_check: str
    task_command: str | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Serving:
    """What serves now; None where it is not known."""

    target: str | None
    drafter: str | None


def split_prompts(config: ReleaseJobConfig, context: StageContext) -> dict[str, list[str]]:
    """Files of prompts to train on, to tune the tree with, and to measure on; by the hash of each prompt."""
    sides: dict[str, list[str]] = {"train": [], "tune": [], "measure": []}
    for number, path in enumerate(config.prompts):
        places = {side: context.folder / side / f"{number}-{Path(path).stem}.jsonl" for side in sides}
        for place in places.values():
            place.parent.mkdir(exist_ok=True)
        held = context.folder / f"held-{number}.jsonl"
        write_split(Path(path).expanduser(), places["train"], held, config.held_out)
        write_split(held, places["tune"], places["measure"], 0.5, seed=1)
        for side, place in places.items():
            sides[side].append(str(place))
    return sides


def answered(config: ReleaseJobConfig, context: StageContext, prompts: Sequence[str]) -> dict[str, Any]:
    asked = {
        "prompts": prompts, "temperatures": config.answer_temperatures, "max_new_tokens": config.max_new_tokens,
        "batch": config.batch, "seed": config.seed, "out": str(context.folder / "answers.jsonl"),
    }  # fmt: skip
    return done("distill", distill_job, config, context, asked)


def trained(config: ReleaseJobConfig, context: JobContext, answers: str, serving: Serving) -> dict[str, Any]:
    """{train: ..., scratch: ...}: the drafter, and beside it one from scratch where both were asked for."""

    def work(inner: StageContext, start: str | None) -> dict[str, Any]:
        inner.store = None  # it is recorded where it is released
        place = inner.folder / DRAFTER
        given = {"epochs": config.epochs, "batch_tokens": config.batch_tokens, "seed": config.seed}
        drafter = {"family": config.family, "draft_vocab": config.draft_vocab}
        asked = {
            "answers": answers, "preset": config.preset, "drafter": known(drafter), "training": known(given),
            "out": str(place), "name": config.name or Path(config.out).name, "tree": "chain", "start_from": start,
        }  # fmt: skip
        if not (place / META).is_file():
            done("train", train_job, config, inner, asked)
        return {"out": str(place), "started_from": start}

    def again(metrics: bool) -> dict[str, Any]:
        return stage(context, "train-new", lambda inner: work(inner, None), metrics)

    start = _start(config, context, serving)
    try:
        first = stage(context, "train", lambda inner: work(inner, start), metrics=True)
    except Cancelled:
        raise
    except HeadwayError as error:
        if start is None:
            raise
        context.log(f"{error} So it is trained from scratch.")
        return {"train": again(True)}
    beside = {"scratch": again(False)} if config.compare_warm_start and start is not None else {}
    return {"train": first, **beside}


def _start(config: ReleaseJobConfig, context: JobContext, serving: Serving) -> str | None:
    """The drafter whose weights are started from, if it is of the same family."""
    folder = folder_of(serving.drafter) if serving.drafter and config.warm_start else None
    if folder is None:
        return None
    family = read_meta(folder).family
    if family != config.family:
        context.log(f"{folder.name} is a {family} drafter, so the {config.family} one is trained from scratch.")
        return None
    return str(folder)


def tuned(config: ReleaseJobConfig, context: StageContext, drafter: str, prompts: Sequence[str]) -> dict[str, Any]:
    """The fastest tree on this machine, by prompts that were not trained on."""

    def part(name: str, job: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
        return stage(context, name, lambda inner: done(name, job, config, inner, asked))

    about = {"drafter": drafter, "seed": config.seed}
    hits = {"prompts": prompts, "temperatures": [config.temperature], "limit": config.measured, "batch": 8}
    calibrated = part("calibrate", calibrate_job, about | hits)
    timed = part("cost", cost_job, about | {"batches": [1], "contexts": [128], "seconds": config.cost_seconds})
    asked = {"calibration": calibrated["file"], "cost": timed["file"], "nodes": config.nodes}
    return stage(context, "tune-tree", lambda inner: tune_job.run(validated("tune-tree", asked), inner))  # type: ignore[arg-type]


def measured(
    config: ReleaseJobConfig,
    context: StageContext,
    ways: Mapping[str, str],
    tuned: Mapping[str, Any],
    prompts: Sequence[str],
    serving: Serving,
) -> dict[str, Any]:
    """{lengths, speedups, intervals by way; rows; setup}: the new drafter, and the old heads on the new version."""
    tree = json.dumps(tuned["paths"]) if tuned["paths"] else None
    old = serving.drafter if serving.drafter is not None and folder_of(serving.drafter) is not None else None
    drafters = [*ways.values(), *([old] if old is not None else [])]
    asked = _asked(config, prompts) | {"drafters": drafters, "trees": [tree] if tree else [], "force": old is not None}
    try:
        rows, setup = _table(done("evaluate", evaluate_job, config, context, asked))
    except Cancelled:
        raise
    except HeadwayError as error:
        if old is None:
            raise
        context.log(f"The drafter that serves now can't draft for the new version ({error}), so it is left out.")
        asked |= {"drafters": list(ways.values()), "force": False}
        rows, setup = _table(done("evaluate", evaluate_job, config, context, asked))
        old = None
    by_key = {row["contender"]: row for row in rows}
    named = {name: by_key[contender_key(spec, tree)] for name, spec in ways.items()}
    return {
        "lengths": {name: row["acceptance_length"] for name, row in named.items()},
        "speedups": {name: row["speedup"] for name, row in named.items()},
        "keys": {name: contender_key(spec, tree) for name, spec in ways.items()},
        "old": by_key[contender_key(old, tree)] if old is not None else None,
        "rows": rows,
        "setup": setup,
    }


def measured_before(
    config: ReleaseJobConfig, context: JobContext, serving: Serving, prompts: Sequence[str]
) -> dict[str, Any] | None:
    """What serves now, measured in the same way on its own version; None where it is not known or can't be."""
    if serving.target is None or serving.drafter is None:
        return None
    drafter, target = serving.drafter, serving.target

    def work(inner: StageContext) -> dict[str, Any]:
        asked = _asked(config, prompts) | {"drafters": [drafter]}
        rows, setup = _table(done("evaluate", evaluate_job, config, inner, asked | {"target": target}))
        row = next(one for one in rows if one["contender"] == contender_key(drafter, None))
        return {"length": row["acceptance_length"], "speedup": row["speedup"], "row": row, "setup": setup}

    try:
        return stage(context, SERVING, work)
    except Cancelled:
        raise
    except HeadwayError as error:
        if config.max_drop is not None or config.serving_target is not None:
            raise
        context.log(f"What serves now can't be measured ({error}), so nothing is compared with it.")
        return None


def scored(config: ReleaseJobConfig, context: StageContext, drafter: str, serving: Serving) -> dict[str, float]:
    """{new, serving}: the model's own evaluation of both versions; nothing where none was asked for."""
    if config.eval is None:
        return {}
    targets = {"new": (config.target, drafter)}
    if serving.target is not None:
        targets["serving"] = (serving.target, serving.drafter or "none")
    return {
        name: stage(context, name, lambda inner, one=one: {"score": _score(config, inner, *one)})["score"]  # type: ignore[misc]
        for name, one in targets.items()
    }


def _score(config: ReleaseJobConfig, context: StageContext, target: str, drafter: str) -> float:
    assert config.eval is not None
    file = Path(config.eval).expanduser()
    if not file.is_file():
        environ = {"HEADWAY_TARGET": target, "HEADWAY_DRAFTER": drafter}
        return printed_number(config.eval, limit_s=EVAL_S, environ=environ)
    loaded = open_for(config.model_copy(update={"target": target}), context)
    ready, _ = load_drafter(drafter, loaded)  # greedy: the texts are the target's own, only sooner
    settings = DecodeSettings(config.max_new_tokens, Rule("greedy"), SamplingSettings(0.0), seed=config.seed)
    return TaskScore(_Task(str(file), config.eval_check), loaded).score(ready, settings, 8, context.should_stop)


def done(kind: str, job: Any, config: TargetConfig, context: JobContext, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What a job of another kind found for the same target, unless `asked` names another one."""
    common = config.model_dump(include={"target", "device", "dtype", "trust_remote_code"})
    found: dict[str, Any] = job.run(validated(kind, common | dict(asked)), context)
    return found


def _asked(config: ReleaseJobConfig, prompts: Sequence[str]) -> dict[str, Any]:
    """What every measurement of this release is told."""
    return {
        "prompts": list(prompts), "limit": config.measured, "temperatures": [config.temperature], "seed": config.seed,
        "max_new_tokens": min(MEASURED_TOKENS, config.max_new_tokens),
    }  # fmt: skip


def _table(done: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(rows over all prompt sets, conditions) of an evaluation."""
    table = json.loads(Path(done["table"]).read_text(encoding="utf-8"))
    whole = [row for row in table["rows"] if row["category"] is None]
    return [row for row in whole if row["set"] == MEAN] or whole, table["setup"]


def known(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were given: what is None is left to the preset."""
    return {name: value for name, value in settings.items() if value is not None}
