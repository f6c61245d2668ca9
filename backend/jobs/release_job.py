"""A release as a job: a new checkpoint gets a drafter of its own, which is measured and held against what serves now.

It is made of the other jobs, each a stage (stage.py): the target answers the prompts, a drafter learns, a tree is tuned
on prompts it did not learn from, and acceptance and speed are measured on yet others. Killed anywhere it goes on there.
Knows what follows what; nothing of how any of it is done.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from backend.acceptance import Rule, SamplingSettings
from backend.analysis.counts import PromptCounts
from backend.analysis.evaluation import MEAN, PLAIN, part_from_dict
from backend.analysis.paired import Figure, difference, ratio
from backend.data.splitting import write_split
from backend.decoding.loop import DecodeSettings
from backend.drafters.checkpoint import META, read_meta, write_json_atomically, write_text_atomically
from backend.drafters.registry import folder_of, load_drafter
from backend.engine.remember import recorded_version, register_drafter
from backend.errors import Cancelled, HeadwayError
from backend.jobs import calibrate_job, cost_job, distill_job, evaluate_job, train_job, tune_job
from backend.jobs.as_text import validated
from backend.jobs.context import JobContext
from backend.jobs.evaluate_config import SETUP, contender_key
from backend.jobs.opening import open_for
from backend.jobs.release_config import ReleaseJobConfig
from backend.jobs.release_report import report_text
from backend.jobs.stage import StageContext, stage
from backend.jobs.sweep_task import TaskScore, printed_number

DRAFTER, REPORT, TEXT = "drafter", "report.json", "report.md"
ASKED = "asked.json"
MEASURED_TOKENS = 128  #: of an answer that is measured, at most
EVAL_S = 24 * 3600.0
SERVING = "serving"  #: label of the version that serves now


@dataclass(frozen=True)
class Serving:
    """What serves now; None where it is not known."""

    target: str | None
    drafter: str | None


@dataclass(frozen=True)
class _Task:
    """See sweep_task.TaskSettings."""

    task_file: str | None
    task_check: str
    task_command: str | None = None
    limit: int | None = None


def run(config: ReleaseJobConfig, context: JobContext) -> dict[str, Any]:
    """Release. Returns {passed, out, report, acceptance_length, speedup, checks, weights}.

    Raises HeadwayError for anything the person can mend, Cancelled when asked to stop.
    """
    out = Path(config.out).expanduser()
    if out.exists() and not (context.folder / "out").is_dir():
        raise HeadwayError(f"{out} is there already; choose another folder for this release.")
    _check_same(config, context)
    context.pin([Path(path).expanduser() for path in config.prompts])
    serving = _serving(config, context)
    sides = stage(context, "prompts", lambda inner: _split(config, inner))
    answers = stage(context, "answers", lambda inner: _answers(config, inner, sides["train"]))
    trained = _trained(config, context, answers["out"], serving)
    ways = {name: found["out"] for name, found in trained.items()}
    tuned = stage(context, "tree", lambda inner: _tuned(config, inner, ways["train"], sides["tune"]))
    measured = stage(context, "measure", lambda inner: _measured(config, inner, ways, tuned, sides["measure"], serving))
    before = _before(config, context, serving, sides["measure"])
    scores = stage(context, "evaluation", lambda inner: _scores(config, inner, ways["train"], serving))
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


def _check_same(config: ReleaseJobConfig, context: JobContext) -> None:
    """What an earlier attempt left in the folder belongs to the same release. Raises HeadwayError where it does not."""
    note, told = context.folder / ASKED, config.model_dump(mode="json")
    if note.is_file() and json.loads(note.read_text(encoding="utf-8")) != told:
        raise HeadwayError(
            f"{context.folder} holds what an unfinished release with other settings left; end that one with its own "
            "command, or delete the folder."
        )
    write_json_atomically(note, told)


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


# -- the stages --------------------------------------------------------------------------------------------------------


def _split(config: ReleaseJobConfig, context: StageContext) -> dict[str, list[str]]:
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


def _answers(config: ReleaseJobConfig, context: StageContext, prompts: Sequence[str]) -> dict[str, Any]:
    asked = {
        "prompts": prompts, "temperatures": config.answer_temperatures, "max_new_tokens": config.max_new_tokens,
        "batch": config.batch, "seed": config.seed, "out": str(context.folder / "answers.jsonl"),
    }  # fmt: skip
    return _done("distill", distill_job, config, context, asked)


def _trained(config: ReleaseJobConfig, context: JobContext, answers: str, serving: Serving) -> dict[str, Any]:
    """{train: ..., scratch: ...}: the drafter, and beside it one from scratch where both were asked for."""

    def work(inner: StageContext, start: str | None) -> dict[str, Any]:
        inner.store = None  # it is recorded where it is released
        place = inner.folder / DRAFTER
        given = {"epochs": config.epochs, "batch_tokens": config.batch_tokens, "seed": config.seed}
        drafter = {"family": config.family, "draft_vocab": config.draft_vocab}
        asked = {
            "answers": answers, "preset": config.preset, "drafter": _known(drafter), "training": _known(given),
            "out": str(place), "name": config.name or Path(config.out).name, "tree": "chain", "start_from": start,
        }  # fmt: skip
        if not (place / META).is_file():
            _done("train", train_job, config, inner, asked)
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


def _tuned(config: ReleaseJobConfig, context: StageContext, drafter: str, prompts: Sequence[str]) -> dict[str, Any]:
    """The fastest tree on this machine, by prompts that were not trained on."""

    def part(name: str, job: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
        return stage(context, name, lambda inner: _done(name, job, config, inner, asked))

    about = {"drafter": drafter, "seed": config.seed}
    hits = {"prompts": prompts, "temperatures": [config.temperature], "limit": config.measured, "batch": 8}
    calibrated = part("calibrate", calibrate_job, about | hits)
    timed = part("cost", cost_job, about | {"batches": [1], "contexts": [128], "seconds": config.cost_seconds})
    asked = {"calibration": calibrated["file"], "cost": timed["file"], "nodes": config.nodes}
    return stage(context, "tune-tree", lambda inner: tune_job.run(validated("tune-tree", asked), inner))  # type: ignore[arg-type]


def _measured(
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
        rows, setup = _table(_done("evaluate", evaluate_job, config, context, asked))
    except Cancelled:
        raise
    except HeadwayError as error:
        if old is None:
            raise
        context.log(f"The drafter that serves now can't draft for the new version ({error}), so it is left out.")
        asked |= {"drafters": list(ways.values()), "force": False}
        rows, setup = _table(_done("evaluate", evaluate_job, config, context, asked))
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


def _before(
    config: ReleaseJobConfig, context: JobContext, serving: Serving, prompts: Sequence[str]
) -> dict[str, Any] | None:
    """What serves now, measured in the same way on its own version; None where it is not known or can't be."""
    if serving.target is None or serving.drafter is None:
        return None
    drafter, target = serving.drafter, serving.target

    def work(inner: StageContext) -> dict[str, Any]:
        asked = _asked(config, prompts) | {"drafters": [drafter]}
        rows, setup = _table(_done("evaluate", evaluate_job, config, inner, asked | {"target": target}))
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


def _scores(config: ReleaseJobConfig, context: StageContext, drafter: str, serving: Serving) -> dict[str, float]:
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


# -- what comes of it --------------------------------------------------------------------------------------------------


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


# -- small things ------------------------------------------------------------------------------------------------------


def _done(
    kind: str, job: Any, config: ReleaseJobConfig, context: StageContext, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """A job of another kind for the same target, unless `asked` names another one."""
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


def _known(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}
