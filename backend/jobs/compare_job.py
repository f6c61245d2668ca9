"""Offline against serving, as a job: the same prompts, greedy, in Headway's chain decoding, in vLLM without a drafter
and in vLLM with it.

One item an answer and side, so that a comparison that was stopped goes on. Both sides get the same token ids, rendered
here. Headway decodes first and lets go of its target before a server is started. Knows no page.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from backend.acceptance import Rule
from backend.data.prompts import Prompt, read_prompts
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.engine.protocol import DecodeRequest
from backend.engine.remember import register_version
from backend.engine.workbench import Workbench
from backend.errors import Cancelled, HeadwayError
from backend.jobs.asking import Question, questions_that_fit
from backend.jobs.compare_config import CompareServingConfig
from backend.jobs.context import JobContext
from backend.jobs.going_on import begin
from backend.jobs.opening import holding
from backend.jobs.places import write_result
from backend.jobs.served import Served, device_held, prepare, running
from backend.jobs.tune_conditions import measured_with
from backend.serving.client import Completion, base_url, complete, http_client
from backend.serving.distilling import request_of
from backend.serving.environment import VllmEnvironment, find_vllm
from backend.serving.run_to_end import run_to_end
from backend.serving.server import LOG
from backend.serving.side_by_side import Drafted, Pair, compare, from_histogram
from backend.serving.waiting import server_counters, server_info

FILE: Final = "comparison.json"
OWN, PLAIN, DRAFTS = "own", "plain", "with drafts"


def run(config: CompareServingConfig, context: JobContext) -> dict[str, Any]:
    """Compare. Returns {file, positions, largest_difference, equal, causes}.

    Raises HeadwayError for what a person can mend, Cancelled when it was asked to stop.
    """
    vllm = None if config.url is not None else find_vllm(context.settings)
    files = [Path(path).expanduser() for path in config.prompts]
    hashes = context.pin(files)
    listed = [prompt for file in files for prompt in read_prompts(file, config.limit).prompts]
    served = prepare(config, context) if config.url is None else None
    depth = _depth(config, served)
    named = {Path(path).name: content for path, content in hashes.items()}
    questions, conditions = _own(config, context, listed, named, depth)
    _ask_servers(config, context, vllm, served, questions)
    return _finished(config, context, served, questions, conditions)


def _depth(config: CompareServingConfig, served: Served | None) -> int:
    """Tokens drafted at a time, on both sides. Raises HeadwayError for a server that does not tell."""
    if served is not None and served.speculation is not None:
        return served.speculation.tokens
    counters = server_counters(base_url(config.url or ""))
    if counters is None or not counters.counts_drafts:
        raise HeadwayError(f"The server at {config.url} counts no drafts, so there is nothing to compare with it.")
    if config.num_tokens is None and not counters.by_position:
        raise HeadwayError("Say with --num-tokens how many tokens the server drafts at a time; it has not drafted yet.")
    return config.num_tokens or len(counters.by_position)


def _own(
    config: CompareServingConfig, context: JobContext, listed: Sequence[Prompt], files: Mapping[str, str], depth: int
) -> tuple[list[Question], dict[str, Any]]:
    """Headway's side: the questions, and under which conditions it answered."""
    bench = Workbench(
        context.settings, context.device, "float32" if context.device in (None, "cpu") else config.dtype, False
    )
    target = bench.target(config.target, lambda part, words: context.progress(part, 1, "loading", words))
    if context.store is not None:
        context.link(version_id=register_version(context.store, target))
    request = DecodeRequest(target=config.target, drafter=config.drafter, tree=f"chain-{depth}")
    drafter, warnings = bench.drafter(request, target)
    room = config.max_new_tokens + depth
    questions = questions_that_fit(target, listed, room, config.max_model_len)
    conditions = measured_with(target, config.drafter, drafter)
    conditions |= {"warnings": warnings, "depth": depth, "prompts": dict(files)}
    begin(context, {"conditions": conditions}, target, "comparison")
    missing = [one for one in questions if one.key(OWN) not in context.items()]
    with holding(context, target, f"comparing {drafter.name} with vLLM"):
        settings = DecodeSettings(config.max_new_tokens, Rule("greedy"))
        records = decode(
            target, drafter, [one.ids for one in missing], settings, config.batch, context.should_stop,
            [one.number for one in missing],
        )  # fmt: skip
        for record in records:
            if isinstance(record, DecodeResult) and record.finish_reason != "cancelled":
                steps = {"steps": record.num_steps, "accepted": record.accepted_per_depth, "tokens": record.tokens}
                context.item(f"{OWN}|{record.row}", steps)
                done = sum(one.key(OWN) in context.items() for one in questions)
                context.progress(done, 3 * len(questions), "answers", "Headway")
        _stop_here(context)
    del target, drafter
    bench.clear()  # the server needs the memory
    return questions, conditions


def _ask_servers(
    config: CompareServingConfig,
    context: JobContext,
    vllm: VllmEnvironment | None,
    served: Served | None,
    questions: Sequence[Question],
) -> None:
    log = context.folder / LOG
    for place, side in enumerate((PLAIN, DRAFTS), 1):
        missing = [one for one in questions if one.key(side) not in context.items()]
        if not missing:
            continue
        done = (place - 1) * len(questions)
        if vllm is None or served is None:
            url = config.plain_url if side == PLAIN else config.url
            if url is not None:
                _answers(config, context, base_url(url), side, missing, questions, done)
            continue
        one = served if side == DRAFTS else Served(_plain_model(config, context), served.name, None, ())
        with device_held(context, "cuda" if vllm.build == "cuda" else "cpu", f"comparing with {config.target}"):
            context.log(f"Starting vLLM {vllm.version}, {side}; its log is {log}.")
            with running(config, one, vllm, context, log) as server:
                _answers(config, context, server.options.url, side, missing, questions, done)


def _plain_model(config: CompareServingConfig, context: JobContext) -> Path:
    """The target's own folder: where the drafter is inside a copy, that copy is not the plain one."""
    return prepare(config.model_copy(update={"drafter": "none"}), context).model


def _answers(
    config: CompareServingConfig, context: JobContext, url: str, side: str, missing: Sequence[Question],
    questions: Sequence[Question], done: int,
) -> None:  # fmt: skip
    model = server_info(url).model

    async def ask_all() -> None:
        slots = asyncio.Semaphore(config.batch)

        async with http_client(url) as client:

            async def ask(one: Question) -> None:
                async with slots:
                    if context.should_stop():
                        return
                    body = request_of(model, one.ids, 0.0, config.max_new_tokens, 0)
                    context.item(one.key(side), _taken(await complete(client, body), side, url))
                    ready = sum(other.key(side) in context.items() for other in questions)
                    context.progress(len(questions) + done + ready, 3 * len(questions), "answers", f"vLLM, {side}")

            await asyncio.gather(*(ask(one) for one in missing))

    run_to_end(ask_all())
    _stop_here(context)


def _taken(answer: Completion, side: str, url: str) -> dict[str, Any]:
    """What is kept of an answer. Raises HeadwayError for a server that does not tell what is compared."""
    if answer.token_ids is None:
        raise HeadwayError(f"The server at {url} returns no token ids, so it can't be compared; use vLLM.")
    kept: dict[str, Any] = {"tokens": list(answer.token_ids)}
    if side == DRAFTS:
        figures = answer.speculation
        if figures is None or "acceptance_histogram" not in figures:
            raise HeadwayError(
                f"The server at {url} does not tell what each request accepted: it drafts nothing, or was started "
                "without --per-request-spec-decode-metrics summary."
            )
        kept["steps"] = int(figures.get("num_spec_steps", 0))
        kept["accepted"] = list(from_histogram(figures["acceptance_histogram"]))
    return kept


def _stop_here(context: JobContext) -> None:
    if context.should_stop():
        raise Cancelled("The comparison was stopped; what was answered is kept.")


def pairs_of(questions: Sequence[tuple[int, str, str, int]], items: dict[str, dict[str, Any]]) -> list[Pair]:
    """The prompts that both sides answered; `questions`: (number, id, category, prompt tokens)."""
    found = []
    for number, name, category, length in questions:
        own, served, plain = (items.get(f"{side}|{number}") for side in (OWN, DRAFTS, PLAIN))
        if own is not None and served is not None:
            found.append(
                Pair(name, category, length, _drafted(own), _drafted(served), tuple(plain["tokens"]) if plain else None)
            )
    return found


def _drafted(item: dict[str, Any]) -> Drafted:
    return Drafted(item["steps"], tuple(item["accepted"]), tuple(item["tokens"]))


def _finished(
    config: CompareServingConfig, context: JobContext, served: Served | None, questions: Sequence[Question],
    conditions: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    rows = [(one.number, one.prompt.question_id, one.prompt.category, len(one.ids)) for one in questions]
    found = compare(pairs_of(rows, context.items()), () if served is None else served.findings)
    whole = found | {
        "conditions": conditions
        | {"settings": config.model_dump(mode="json"), "served": None if served is None else served.to_dict()},
        "prompts": len(questions),
    }
    place = write_result(context.folder, FILE, json.dumps(whole, indent=1) + "\n", config.out)
    return found | {"file": str(place), "prompts": len(questions)}
