"""Many adapters of one target as a job: which of them earns draft heads of its own, and what a mix of traffic gains.

It is made of the other jobs, each a stage (stage.py): every adapter answers its own prompts and gets heads of its own;
one drafter is shared by all, one learns from all their answers; each is measured on each adapter's held-out prompts in
turns with plain decoding. Killed anywhere it goes on there. Knows what follows what; nothing of how any of it is done,
and nothing of how a verdict is reached (analysis/many_adapters.py).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from backend.analysis.adapter_traffic import mix_sentence, strategies, times_of, times_to_dict
from backend.analysis.many_adapters import MIXTURE, OWN, SHARED, Cost, judged
from backend.drafters.checkpoint import read_meta, write_json_atomically, write_text_atomically
from backend.drafters.registry import folder_of
from backend.engine.remember import recorded_version, register_drafter
from backend.errors import HeadwayError
from backend.jobs import adapters_stages as stages
from backend.jobs.adapters_config import AdaptersJobConfig
from backend.jobs.adapters_report import report_text
from backend.jobs.context import JobContext
from backend.jobs.stage import StageContext, begun_as, stage

REPORT, TEXT = "report.json", "report.md"
FORMAT: Final = 1


def run(config: AdaptersJobConfig, context: JobContext) -> dict[str, Any]:
    """Make, measure and judge. Returns {out, report, adapters: [{name, verdict, best, sentence}], sentence}.

    Raises HeadwayError for anything the person can mend, Cancelled when asked to stop.
    """
    out = Path(config.out).expanduser()
    if out.exists() and not (context.folder / "out").is_dir():
        raise HeadwayError(f"{out} is there already; choose another folder for this comparison.")
    begun_as(context, config.model_dump(mode="json"), "comparison of adapters")
    context.pin([Path(file).expanduser() for files in config.files.values() for file in files])
    stages.tree_for(config)  # a shared drafter that is none is better said now than after hours
    seen = _for_each(config, context, "look", lambda inner, name: stages.looked_at(config, inner, name))
    no_mixture = stages.check_together(config, seen)
    sides = stage(context, "prompts", lambda inner: stages.split_prompts(config, inner))
    answers = _for_each(
        config,
        context,
        "answers",
        lambda inner, name: stages.answered(config, inner, config.version_of(name), sides[name]["train"]),
    )
    drafters = _trained(config, context, sides, answers, no_mixture)
    found = _measured(config, context, sides, drafters, seen)
    title = config.name or out.name
    found |= {
        "format": FORMAT,
        "name": title,
        "target": config.target,
        "answers": {
            name: {key: one[key] for key in ("answers", "tokens", "truncated")} for name, one in answers.items()
        },
        "no_mixture": no_mixture,
        "config": config.model_dump(mode="json"),
    }
    stage(context, "out", lambda inner: _written(out, drafters, found))
    _register(context, out, drafters)
    brief = ("name", "verdict", "best", "missing", "sentence")
    return {
        "out": str(out),
        "report": str(out / REPORT),
        "adapters": [{key: one[key] for key in brief} for one in found["adapters"]],
        "sentence": found["sentence"],
    }


def _for_each(
    config: AdaptersJobConfig,
    context: JobContext,
    what: str,
    work: Callable[[StageContext, str], dict[str, Any]],
) -> dict[str, dict[str, Any]]:
    """A stage for each adapter, named after it: what `work(context, adapter)` found, by adapter."""

    def one(name: str) -> dict[str, Any]:
        return stage(context, f"{what}-{name}", lambda inner: work(inner, name))

    return {name: one(name) for name in config.adapters}


def _trained(
    config: AdaptersJobConfig,
    context: JobContext,
    sides: Mapping[str, Mapping[str, str]],
    answers: Mapping[str, Mapping[str, Any]],
    no_mixture: str | None,
) -> dict[str, str]:
    """Drafters by what they are: SHARED, MIXTURE where there is one, and `own-NAME` of each adapter."""
    found = {}
    if config.shared is not None:
        found[SHARED] = config.shared
    else:
        base = stage(
            context,
            "answers",
            lambda inner: stages.answered(config, inner, config.target, sides[stages.BASE]["train"]),
        )
        made = stage(context, SHARED, lambda inner: stages.trained(config, inner, config.target, base["out"], SHARED))
        found[SHARED] = made["out"]
    own = _for_each(
        config,
        context,
        OWN,
        lambda inner, name: stages.trained(config, inner, config.version_of(name), answers[name]["out"], name),
    )
    found |= {f"{OWN}-{name}": one["out"] for name, one in own.items()}
    if no_mixture is not None:
        context.log(no_mixture)
        return found
    first, *others = config.adapters
    also = {config.version_of(name): answers[name]["out"] for name in others}
    mixture = stage(
        context,
        MIXTURE,
        lambda inner: stages.trained(config, inner, config.version_of(first), answers[first]["out"], MIXTURE, also),
    )
    return found | {MIXTURE: mixture["out"]}


def _measured(
    config: AdaptersJobConfig,
    context: JobContext,
    sides: Mapping[str, Mapping[str, str]],
    drafters: Mapping[str, str],
    seen: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """{adapters, times, costs, traffic, earned, strategies, sentence, setup}: what is found of each adapter and of the
    mix.
    """
    asked = {
        name: stages.specs(drafters[SHARED], drafters[f"{OWN}-{name}"], drafters.get(MIXTURE))
        for name in config.adapters
    }
    done = _for_each(
        config,
        context,
        "measure",
        lambda inner, name: stages.measured(config, inner, name, asked[name], sides[name]["measure"]),
    )
    found, times, costs = [], {}, {}
    for name, path in config.adapters.items():
        answers = stages.answers_of(context, f"measure-{name}", done[name]["keys"])
        costs[name] = stages.cost_of(asked[name][OWN], seen[name]["bytes"])
        one = judged(name, answers, config.min_gain, costs[name], config.temperature)
        found.append(one.to_dict() | {"adapter": path, "version": seen[name]["version"]})
        times[name] = times_of(answers)
        context.log(one.sentence)
    joint = {
        kind: stages.cost_of(drafters[kind], next(iter(seen.values()))["bytes"])
        for kind in (SHARED, MIXTURE)
        if kind in drafters
    }
    earned = [one["name"] for one in found if one["verdict"] == "earns"]
    ways = strategies(times, config.shares, earned, costs, joint)
    return {
        "adapters": found,
        "times": {name: times_to_dict(one) for name, one in times.items()},
        "costs": {"own": _plain(costs), "joint": _plain(joint)},
        "traffic": dict(config.shares),
        "strategies": [one.to_dict() for one in ways],
        "sentence": mix_sentence(ways),
        "setup": {
            name: next(iter(done.values()))["setup"][name] for name in ("device", "dtype", "threads", "packages")
        },
    }


def _plain(costs: Mapping[str, Cost]) -> dict[str, dict[str, float | None]]:
    return {name: asdict(cost) for name, cost in costs.items()}


def _written(out: Path, drafters: Mapping[str, str], found: Mapping[str, Any]) -> dict[str, Any]:
    """The folder, whole or not at all: the drafters that were made here, the report for people and for programs."""
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".partial", dir=out.parent))
        for name, drafter in drafters.items():
            if found["config"]["shared"] != drafter:  # one that was given stays where it is
                shutil.copytree(drafter, partial / name)
        write_json_atomically(partial / REPORT, found)
        write_text_atomically(partial / TEXT, report_text(found))
        partial.chmod(0o755)
        partial.rename(out)
    return {"out": str(out)}


def _register(context: JobContext, out: Path, drafters: Mapping[str, str]) -> None:
    """Every drafter made here, for each version that it learned from."""
    if context.store is None:
        return
    for name in drafters:
        folder = folder_of(str(out / name))
        if folder is None or not folder.is_dir():
            continue
        meta = read_meta(folder)
        for version in (meta.version, *meta.also):
            version_id = recorded_version(context.store, version)
            if version_id is not None:
                register_drafter(context.store, str(folder), version_id)
