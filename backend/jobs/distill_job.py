"""Distillation as a job: the target answers prompt files, and the answers become a dataset in the store.

The answers' file itself is the checkpoint: a killed job goes on behind its last whole line. Knows contexts, not who is
behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backend.data.answers import pack_answers, read_answers
from backend.data.prompts import Prompt, read_prompts
from backend.data.registering import answers_lineage, dataset_entry
from backend.data.scanning import scan_answers
from backend.engine.remember import register_version
from backend.errors import Cancelled, HeadwayError
from backend.jobs.carry_out import sweep
from backend.jobs.configs import DistillJobConfig
from backend.jobs.context import JobContext
from backend.jobs.locks import only_one
from backend.jobs.opening import holding, open_for
from backend.jobs.places import chosen_place, release
from backend.jobs.provenance import provenance
from backend.jobs.served import refuse_sampling_at
from backend.serving.client import base_url
from backend.serving.distilling import endpoint_answerer
from backend.serving.waiting import server_info
from backend.targets.sources import short_name
from backend.targets.target import Target
from backend.training.distill import Answerer, DistillProgress, distill, in_order, num_answers


def run(config: DistillJobConfig, context: JobContext) -> dict[str, Any]:
    """Answer all prompts. Returns {out, answers, tokens, truncated, dataset_id, ...}.

    Raises HeadwayError for anything the person can mend, Cancelled when asked to stop.
    """
    hashes = context.pin([Path(path) for path in config.prompts])
    prompts, num_broken = read_all(config, context)
    name = config.name or f"{Path(config.prompts[0]).stem}-{short_name(config.target)}"
    out = chosen_place(context.folder, config.out, context.settings.answers, name, ".jsonl")
    with only_one(out.with_name(f".{out.name}.lock"), str(out), patience_s=2):
        sweep(out.parent, f".{out.name}*.partial")
        target = open_for(_on_the_side(config), context)
        version_id = None
        if context.store is not None:
            version_id = register_version(context.store, target)
            context.link(version_id=version_id)
        with holding(context, target, f"distilling {out.stem}"):
            done = _distill(target, prompts, config, out, context)
        release(out)
        answers = read_answers(out).answers
        if config.pack:
            pack_answers(answers, config.pack)
    truncated = sum(answer.truncated for answer in answers)
    result: dict[str, Any] = {
        "out": str(out),
        "answers": done.answers,
        "tokens": done.tokens,
        "truncated": truncated,
        "left_out": max(0, num_answers(prompts, config.answering()) - done.answers),
        "broken_prompts": num_broken,
    }
    return result | _registered(config, context, out, version_id, hashes)


def read_all(config: DistillJobConfig, context: JobContext) -> tuple[list[Prompt], int]:
    """The prompts of all files, and how many rows were broken. Raises HeadwayError where ids occur twice."""
    prompts: list[Prompt] = []
    seen: set[str] = set()
    num_broken = 0
    for path in config.prompts:
        file = read_prompts(path, limit=config.limit)
        num_broken += len(file.broken)
        for line, reason in file.broken:
            context.log(f"{path}, line {line}: {reason}; the row is left out.")
        for prompt in file.prompts:
            if prompt.question_id in seen:
                raise HeadwayError(
                    f"The question id {prompt.question_id!r} occurs twice; ids tell answers apart, so make them unique."
                )
            seen.add(prompt.question_id)
            prompts.append(prompt)
    return prompts, num_broken


def _distill(
    target: Target, prompts: Sequence[Prompt], config: DistillJobConfig, out: Path, context: JobContext
) -> DistillProgress:
    answering = config.answering()
    total = num_answers(prompts, answering)

    def progressed(progress: DistillProgress) -> None:
        context.progress(progress.answers, total, "answers", f"{progress.tokens:,} tokens")

    answerer = None if config.endpoint is None else endpoint_of(config, context, target)
    done = distill(target, prompts, answering, out, progressed, context.should_stop, context.log, answerer)
    if context.should_stop() and done.answers < total:
        raise Cancelled(f"Stopped after {done.answers} of {total} answers; it can go on.")
    in_order(out, prompts, answering)
    return done


def _on_the_side(config: DistillJobConfig) -> DistillJobConfig:
    """Where a server answers, the target is only wanted for its tokenizer and its identity: beside, on the CPU."""
    return config if config.endpoint is None else config.model_copy(update={"device": "cpu", "dtype": "float32"})


def endpoint_of(config: DistillJobConfig, context: JobContext, target: Target) -> Answerer:
    """The server as who answers. Raises HeadwayError for one that can't sample while it drafts, or is none."""
    info = server_info(base_url(config.endpoint or ""))
    refuse_sampling_at(info.url, max(config.temperatures), context)
    context.log(f"{info.model} at {info.url} answers" + (f" ({info.version})." if info.version else "."))
    return endpoint_answerer(info.url, info.model, target.eos_token_ids)


def _registered(
    config: DistillJobConfig,
    context: JobContext,
    out: Path,
    version_id: str | None,
    prompt_hashes: dict[str, str],
) -> dict[str, Any]:
    """The answers as a dataset of the store, counted as the Data page counts files; nothing where nothing is
    remembered. Prompt sets that the store knows give their names and licence notes.
    """
    if context.store is None:
        return {}
    known = {one.content_hash: one for one in context.store.list_datasets(kind="prompts")}
    sources = {known[d].name if d in known else Path(path).name: d for path, d in prompt_hashes.items()}
    licences = dict.fromkeys(known[d].licence for d in sources.values() if d in known and known[d].licence)
    how = provenance("distill", config)
    settings = config.answering().model_dump(mode="json")
    entry = dataset_entry(
        scan_answers(out),
        config.name or out.stem,
        "; ".join(licences),
        version_id,
        answers_lineage(sources, settings, context.job_id, **how),
    )
    dataset = context.store.register_dataset(**entry.arguments())
    context.link(dataset_id=dataset.id)
    return {"dataset_id": dataset.id, "content_hash": entry.content_hash}
