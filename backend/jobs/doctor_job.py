"""The acceptance doctor as a job: why does this drafter accept as little as it does?

Files and versions are looked at first, then the target answers prompts and the drafter guesses along; what can be
undone is undone, one thing at a time. Answers and trials are items, so a killed diagnosis goes on. Knows no page.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from backend.analysis.doctor import COMMANDS, KINDS, Finding, needed_prompts, ranked, verdict
from backend.data.prompts import read_prompts
from backend.drafters.base import Drafter
from backend.drafters.checkpoint import FaultyTensorsError, read_meta
from backend.drafters.faults import Fault, folder_faults, tensors_of, version_faults
from backend.drafters.registry import folder_of, version_for
from backend.engine.conditions import measured_on
from backend.engine.protocol import DecodeRequest
from backend.engine.remember import register_version
from backend.engine.workbench import Workbench
from backend.errors import HeadwayError
from backend.jobs.audit_job import OWN_PROMPTS
from backend.jobs.context import JobContext
from backend.jobs.doctor_causes import Causes
from backend.jobs.doctor_config import DoctorJobConfig
from backend.jobs.doctor_trials import Trials
from backend.jobs.going_on import begin
from backend.jobs.opening import holding
from backend.jobs.places import write_result
from backend.jobs.tune_conditions import measured_with
from backend.targets.target import Target

FILE = "diagnosis.json"


def run(config: DoctorJobConfig, context: JobContext) -> dict[str, Any]:
    """Diagnose. Returns {file, verdict, sentence, acceptance_length, findings, untested} and what was counted.

    Raises HeadwayError for what a person can mend, and when target, drafter or prompts are not those that an earlier
    attempt used; Cancelled when it was asked to stop.
    """
    files = [Path(path).expanduser() for path in config.prompts] or [OWN_PROMPTS]
    more = [Path(config.answers).expanduser()] if config.answers is not None else []
    hashes = context.pin([*files, *more])
    listed = [prompt for file in files for prompt in read_prompts(file, config.limit).prompts]
    bench = Workbench(context.settings, context.device or config.device, config.dtype, config.trust_remote_code)
    target = bench.target(config.target, lambda part, sentence: context.progress(part, 1, "loading", sentence))
    if context.store is not None:
        context.link(version_id=register_version(context.store, target))
    folder = folder_of(config.drafter)
    meta = read_meta(folder) if folder is not None else None
    tensors = tensors_of(folder) if folder is not None else {}
    static = [] if folder is None or meta is None else folder_faults(folder, meta, tensors)
    if meta is not None:
        fitting = version_for(meta, target.identity).to_dict() if meta.also else meta.version
        static += version_faults(fitting, target.identity.to_dict())
    drafter = _loaded(config, bench, target, static)
    told = {Path(path).name: content for path, content in hashes.items()}
    if drafter is None:
        return _without(config, context, target, static, told)
    conditions = measured_with(target, config.drafter, drafter) | _asked(config, told)
    begin(context, {"conditions": conditions}, target, "diagnosis")
    with holding(context, target, f"diagnosing {drafter.name}"):
        trials = Trials(config, context, target, drafter, listed)
        causes = Causes(trials, meta, dict(tensors or {}))
        findings = ranked(causes.all(static))
    return _written(config, context, trials, causes, findings, conditions)


def _asked(config: DoctorJobConfig, hashes: dict[str, str]) -> dict[str, Any]:
    left = {"prompts", "answers", "cost", "out", "name", "target", "drafter", "device"}
    return {"prompts": hashes, "settings": config.model_dump(mode="json", exclude=left)}


def _loaded(config: DoctorJobConfig, bench: Workbench, target: Target, static: list[Fault]) -> Drafter | None:
    """The drafter, of another version too; None for one that can't be loaded, which is then a fault."""
    request = DecodeRequest(target=config.target, drafter=config.drafter, tree=config.tree, force=True)
    try:
        return bench.drafter(request, target)[0]
    except FaultyTensorsError as error:
        kind = f"tensor-{error.fault}"
        if not any(fault.kind == kind for fault in static):
            static.append(Fault(kind, str(error)))
    except HeadwayError:
        if not static:
            raise
    return None


def _without(
    config: DoctorJobConfig, context: JobContext, target: Target, static: list[Fault], hashes: dict[str, str]
) -> dict[str, Any]:
    """What can be said of a drafter that can't be loaded."""
    findings = ranked([Finding(fault.kind, fault.what, "certain") for fault in static])
    seen = {one.kind for one in findings}
    untested = [{"kind": kind, "reason": "the drafter can't be loaded"} for kind in KINDS if kind not in seen]
    said, sentence = verdict(None, findings, untested)
    found = {"verdict": said, "sentence": sentence, "acceptance_length": None, "findings": _plain(config, findings),
             "untested": untested}  # fmt: skip
    conditions = {"target": target.name, **measured_on(target), "drafter": {"spec": config.drafter}}
    return _kept(config, context, found, conditions | _asked(config, hashes))


def _written(
    config: DoctorJobConfig, context: JobContext, trials: Trials, causes: Causes, findings: list[Finding],
    conditions: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    now, span = trials.now, trials.now.span()
    said, sentence = verdict(now, findings, causes.untested)
    found = {
        "verdict": said,
        "sentence": sentence,
        "acceptance_length": round(now.value, 4),
        "interval": None if span is None else [round(span.low, 4), round(span.high, 4)],
        "num_steps": now.num_steps,
        "num_prompts": len(trials.texts),
        "needed_prompts": needed_prompts(now),
        "stored_acceptance_length": causes.stored,
        "rates": [{"hits": hits, "tried": tried} for hits, tried in causes.rates],
        "findings": _plain(config, findings),
        "untested": causes.untested,
    }
    return _kept(config, context, found, conditions)


def _plain(config: DoctorJobConfig, findings: list[Finding]) -> list[dict[str, Any]]:
    return [one.to_dict() | {"command": _command(config, one.kind)} for one in findings]


def _command(config: DoctorJobConfig, kind: str) -> str:
    """Shell text that mends or tests it; words in capitals are for the person to fill in."""
    prompts = " ".join(shlex.quote(path) for path in config.prompts) or "PROMPTS.jsonl"
    return COMMANDS.get(kind, COMMANDS["train"]).format(
        target=shlex.quote(config.target), drafter=shlex.quote(config.drafter), prompts=prompts
    )


def _kept(
    config: DoctorJobConfig, context: JobContext, found: dict[str, Any], conditions: dict[str, Any]
) -> dict[str, Any]:
    text = json.dumps({"format": 1, "diagnosis": found, "conditions": conditions}, indent=1, ensure_ascii=False) + "\n"
    file = write_result(context.folder, FILE, text, config.out)
    context.log(found["sentence"])
    return {"file": str(file), **found}
