"""The exactness audit as a job: greedy answers, then sampled ones until there are enough, one item an answer.

An audit that was killed goes on; every answer draws what it would have drawn. The certificate is written at the end, as
JSON and as a page that needs nothing else. Knows no dashboard.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.acceptance import Rule, SamplingSettings
from backend.analysis.audit import NUM_TESTS, WORLD_SAMPLES, Level, greedy_answers, judge, sampled_answers, world
from backend.analysis.ranks import Tally
from backend.data.prompts import read_prompts
from backend.decoding.loop import DecodeSettings
from backend.drafters.base import Drafter
from backend.drafters.registry import tree_of
from backend.engine.protocol import DecodeRequest
from backend.engine.remember import register_version
from backend.engine.workbench import Workbench
from backend.errors import Cancelled
from backend.jobs.asking import questions_that_fit
from backend.jobs.audit_config import AuditJobConfig
from backend.jobs.audit_page import as_page
from backend.jobs.context import JobContext
from backend.jobs.going_on import begin
from backend.jobs.opening import holding
from backend.jobs.places import write_result
from backend.jobs.tune_conditions import measured_with
from backend.targets.target import Target
from backend.trees import TreeShape
from backend.tuning.calibrating import is_parallel

FILE, PAGE = "certificate.json", "certificate.html"
OWN_PROMPTS = Path(__file__).parents[2] / "prompts" / "heldout.jsonl"
ROUNDS = 10_000  #: times the prompts are answered anew before an audit gives up; time ends it long before


def run(config: AuditJobConfig, context: JobContext) -> dict[str, Any]:
    """Audit. Returns {verdict, sentence, file, page, findings}.

    Raises HeadwayError for what a person can mend, and when target, drafter or prompts are not those that an earlier
    attempt used; Cancelled when it was asked to stop.
    """
    files = [Path(path).expanduser() for path in config.prompts] or [OWN_PROMPTS]
    hashes = context.pin(files)
    listed = [prompt for file in files for prompt in read_prompts(file, config.limit).prompts]
    bench = Workbench(context.settings, context.device or config.device, config.dtype, config.trust_remote_code)
    target = bench.target(config.target, lambda part, sentence: context.progress(part, 1, "loading", sentence))
    if context.store is not None:
        context.link(version_id=register_version(context.store, target))
    request = DecodeRequest(
        target=config.target, drafter=config.drafter, tree=config.tree, sampled=config.sampled, force=config.force
    )
    drafter, warnings = bench.drafter(request, target)
    questions = questions_that_fit(target, listed, config.max_new_tokens + drafter.shape.max_depth)
    prompts = {one.number: one.ids for one in questions}
    conditions = measured_with(target, config.drafter, drafter) | {
        "prompts": {Path(path).name: content for path, content in hashes.items()},
        "num_prompts": len(prompts),
        "warnings": warnings,
        "settings": config.model_dump(mode="json", exclude={"prompts", "out", "name", "target", "drafter", "device"}),
    }
    begin(context, {"conditions": conditions}, target, "audit")
    level = Level(config.alpha, config.power, config.total_variation)
    rule, sampling = _rule(config), _sampling(config)
    with holding(context, target, f"auditing {drafter.name}"):
        _greedy(config, context, target, drafter, prompts)
        _sample(config, context, target, drafter, prompts, level.needed(NUM_TESTS))
    tree = tree_of(drafter)
    context.progress(1, 1, "", "the world of tables")
    tables = None
    if rule.exact and isinstance(tree, TreeShape):
        tables = world(tree, config.sampled, is_parallel(drafter), sampling, config.seed, WORLD_SAMPLES)
    items = context.items()
    findings = judge(rule, _found(items, "greedy"), _found(items, "sampled"), tables, level)
    return _written(config, context, findings, conditions)


def _rule(config: AuditJobConfig) -> Rule:
    return Rule(config.rule, epsilon=config.epsilon, delta=config.delta)


def _sampling(config: AuditJobConfig) -> SamplingSettings:
    return SamplingSettings(config.temperature, config.top_k, config.top_p, config.min_p, config.repetition_penalty)


def _greedy(
    config: AuditJobConfig, context: JobContext, target: Target, drafter: Drafter, prompts: Mapping[int, list[int]]
) -> None:
    done = set(context.items())
    wanted = dict(list(prompts.items())[: config.greedy_answers])
    missing = {number: ids for number, ids in wanted.items() if f"greedy|{number}" not in done}
    count = len(wanted) - len(missing)
    if not missing:
        return
    for number, found in greedy_answers(
        target, drafter, missing, config.max_new_tokens, min(config.batch, len(missing)), context.should_stop
    ):
        context.item(f"greedy|{number}", found)
        count += 1
        context.progress(count, len(wanted), "answers", "at temperature 0")
    _stop_if_asked(context)


def _sample(
    config: AuditJobConfig,
    context: JobContext,
    target: Target,
    drafter: Drafter,
    prompts: Mapping[int, list[int]],
    needed: int,
) -> None:
    """Answer prompts again and again, each time by other chance, until there are enough tokens or the time is up."""
    started, numbers = time.monotonic(), list(prompts)
    done = {key: found for key, found in context.items().items() if key.startswith("sampled|")}
    positions = sum(_positions(found) for found in done.values())
    settings = DecodeSettings(config.max_new_tokens, _rule(config), _sampling(config), seed=config.seed)
    for turn in range(ROUNDS):
        numbered = {turn * len(prompts) + place: prompts[number] for place, number in enumerate(numbers)}
        missing = {number: ids for number, ids in numbered.items() if f"sampled|{number}" not in done}
        for start in range(0, len(missing), 2 * config.batch):
            late = time.monotonic() - started > 60 * config.minutes
            if positions >= needed or late:
                return
            chunk = dict(list(missing.items())[start : start + 2 * config.batch])
            batch = min(config.batch, len(chunk))
            for number, found in sampled_answers(target, drafter, chunk, settings, batch, context.should_stop):
                context.item(f"sampled|{number}", found)
                positions += _positions(found)
                context.progress(min(positions, needed), needed, "tokens", "sampled")
            _stop_if_asked(context)


def _positions(found: Mapping[str, Any]) -> int:
    return sum(Tally.from_dict(one).positions for one in found["depths"])


def _stop_if_asked(context: JobContext) -> None:
    if context.should_stop():
        raise Cancelled("The audit was stopped; what it has answered is kept.")


def _found(items: Mapping[str, dict[str, Any]], part: str) -> list[dict[str, Any]]:
    return [found for key, found in sorted(items.items()) if key.startswith(f"{part}|")]


def _written(
    config: AuditJobConfig, context: JobContext, findings: dict[str, Any], conditions: dict[str, Any]
) -> dict[str, Any]:
    certificate = {"format": 1, "findings": findings, "conditions": conditions}
    text = json.dumps(certificate, indent=1, ensure_ascii=False) + "\n"
    page = str(Path(config.out).expanduser().with_suffix(".html")) if config.out is not None else None
    file = write_result(context.folder, FILE, text, config.out)
    shown = write_result(context.folder, PAGE, as_page(certificate), page)
    context.log(findings["sentence"])
    return {
        "verdict": findings["verdict"], "sentence": findings["sentence"], "file": str(file), "page": str(shown),
        "findings": findings,
    }  # fmt: skip
