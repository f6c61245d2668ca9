"""The evaluation: drafters and plain decoding answer prompt sets in turns; each part is kept as soon as it is measured.

A part is a block of prompts answered by one contender. Parts that are there already are not measured again, so an
evaluation that was killed goes on, and what it finds is what an undisturbed one finds in everything but times. The
table is made of the parts by backend/analysis/evaluation.py. Knows no page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backend.acceptance import Rule, SamplingSettings
from backend.analysis.counts import PromptCounts, prompt_counts
from backend.analysis.evaluation import MEAN, PLAIN, Part, part_from_dict, table
from backend.analysis.token_classes import classifier
from backend.data.prompts import Prompt, read_prompts
from backend.decoding.loop import DecodeSettings, decode
from backend.drafters.base import Drafter
from backend.drafters.checkpoint import write_json_atomically
from backend.engine.conditions import drafted_with, measured_on, tree_conditions
from backend.engine.lease import holder_of, try_lease
from backend.engine.protocol import DecodeRequest
from backend.engine.remember import register_version
from backend.engine.workbench import Workbench
from backend.errors import Cancelled, HeadwayError
from backend.jobs.asking import questions_that_fit
from backend.jobs.bystanders import Bystanders
from backend.jobs.context import JobContext
from backend.jobs.evaluate_config import SETUP, Block, EvaluateJobConfig, blocks, contender_key
from backend.targets.target import Target
from storage.owner import owner_token

WARM_UP_TOKENS = 8
TABLE = "table.json"
#: What must be the same when an evaluation goes on, in words.
FIXED = {"version": "the target", "device": "the device", "dtype": "the dtype", "threads": "the number of threads",
         "packages": "a package", "contenders": "a drafter", "sets": "a prompt set"}  # fmt: skip


@dataclass(frozen=True)
class PromptSet:
    """The prompts of a file that can be measured, as token ids, and how many could not."""

    prompts: list[Prompt]
    ids: list[list[int]]
    num_broken: int
    num_left_out: int


@dataclass(frozen=True)
class Contender:
    """Who answers: a drafter with its tree, and how it was asked for."""

    spec: str
    tree: str | None
    drafter: Drafter
    warnings: list[str]


def run(config: EvaluateJobConfig, context: JobContext) -> dict[str, Any]:
    """Measure what is not measured yet. Returns {table, answers, skipped, rows}: the table's file, and its main rows.

    Raises HeadwayError for what a person can mend, and when target, drafters, prompts or machine are not those that an
    earlier attempt measured; Cancelled when it was asked to stop.
    """
    files = _set_files(config.prompts)
    context.pin([path.expanduser() for path in files.values()])
    read = {name: read_prompts(path.expanduser(), config.limit) for name, path in files.items()}
    device = context.device or config.device
    bench = Workbench(context.settings, device, config.dtype, config.trust_remote_code)
    target = bench.target(config.target, lambda part, sentence: context.progress(part, 1, "loading", sentence))
    if context.store is not None:
        context.link(version_id=register_version(context.store, target))
    contenders, skipped = _contenders(config, bench, target)
    room = config.max_new_tokens + max(one.drafter.shape.max_depth for one in contenders.values())
    sets = {name: _encoded(target, file.prompts, len(file.broken), room) for name, file in read.items()}
    skipped += _skipped_batches(config, sets)
    done = context.items()
    setup = _setup(config, target, contenders, sets, skipped)
    if SETUP in done:
        _check_same(done[SETUP], setup)
        target.min_width = int(done[SETUP]["min_width"])  # measured at load; the parts so far were measured with this
    else:
        context.item(SETUP, setup)
    for sentence in skipped:
        context.log(sentence)
    _Measuring(config, context, target, contenders, sets).measure_missing(set(done))
    return _finished(context, skipped)


class _Measuring:
    """Measures parts; holds the device lease from the first time it can be had."""

    def __init__(
        self,
        config: EvaluateJobConfig,
        context: JobContext,
        target: Target,
        contenders: dict[str, Contender],
        sets: dict[str, PromptSet],
    ) -> None:
        self.config, self.context, self.target = config, context, target
        self.contenders, self.sets = contenders, sets
        self.classify = classifier(target.tokenizer)
        self.warm: set[tuple[str, int]] = set()

    def measure_missing(self, done: set[str]) -> None:
        """All parts whose keys are not in `done`. Raises Cancelled when the context says stop."""
        planned = list(blocks(self.config, {name: len(one.prompts) for name, one in self.sets.items()}))
        total = len(self.contenders) * sum(block.end - block.start for block in planned)
        answered = 0
        who = f"evaluating {', '.join(name for name in self.contenders if name != PLAIN) or PLAIN}"
        with _lease_when_free(self.context, self.target, who) as held:
            for block in planned:
                for name in block.order(list(self.contenders)):
                    if block.key(name) not in done:
                        self.context.progress(answered, total, "answers", _words(name, block))
                        part = self._part(block, name, contended=not held())
                        self.context.item(block.key(name), part.to_dict())
                    answered += block.end - block.start
            self.context.progress(answered, total, "answers", "")

    def _part(self, block: Block, name: str, contended: bool) -> Part:
        """A part is measured whole or not at all: raises Cancelled when the job has to stop."""
        self._warm_up(block, name)
        others = Bystanders()
        answers = self._answers(block, name, self.config.max_new_tokens)
        if len(answers) < block.end - block.start:
            raise Cancelled("The evaluation was stopped; what it has measured is kept.")
        answers.sort(key=lambda answer: answer.prompt)
        return Part(name, block.set, block.temperature, block.batch, tuple(answers), contended, others.share())

    def _answers(self, block: Block, name: str, new_tokens: int) -> list[PromptCounts]:
        config, numbers = self.config, range(block.start, block.end)
        chosen = self.sets[block.set]
        rule = Rule(config.rule, config.epsilon, config.delta)
        sampling = SamplingSettings(temperature=block.temperature)
        settings = DecodeSettings(new_tokens, rule, sampling, seed=config.seed)
        drafter, ids = self.contenders[name].drafter, chosen.ids[block.start : block.end]
        records = decode(self.target, drafter, ids, settings, block.batch, self.context.should_stop, numbers)
        named = {number: (chosen.prompts[number].question_id, chosen.prompts[number].category) for number in numbers}
        wanted = {n: text for n in numbers if (text := chosen.prompts[n].wanted) is not None}
        return prompt_counts(records, named, wanted, self.classify)

    def _warm_up(self, block: Block, name: str) -> None:
        """The first passes of a process are slow, for every shape anew: they are nobody's fault and not measured."""
        if (name, block.batch) not in self.warm:
            self.warm.add((name, block.batch))
            first = replace(block, end=min(block.end, block.start + block.batch))
            self._answers(first, name, WARM_UP_TOKENS)


@contextmanager
def _lease_when_free(context: JobContext, target: Target, who: str) -> Iterator[Callable[[], bool]]:
    """held(): whether the device is ours; asks for it again as long as it is not, and then keeps it."""
    home, device = context.settings.home, str(target.device)
    with ExitStack() as stack:
        ours = False

        def held() -> bool:
            nonlocal ours
            holder = holder_of(home, device)
            if (
                not ours
                and holder is not None
                and (holder.owner == owner_token() or holder.job == (context.job_id or 0))
            ):
                return True  # it was taken for us, by this process or by whoever started it
            if not ours:
                kind = "command" if context.job_id is None else "job"
                ours = stack.enter_context(try_lease(home, device, who, kind, context.job_id)) == "held"
            return ours

        yield held


def _set_files(paths: Sequence[str]) -> dict[str, Path]:
    """Name of a set -> its file: the file's name without ending, with its folder's where two have the same."""
    found: dict[str, Path] = {}
    for text in paths:
        path = Path(text)
        name = path.stem if path.stem not in found else f"{path.parent.name}/{path.stem}"
        while name in found:
            name += "'"
        found[name] = path
    return found


def _contenders(config: EvaluateJobConfig, bench: Workbench, target: Target) -> tuple[dict[str, Contender], list[str]]:
    """Plain decoding and every drafter with every tree, and which of these can't be; a drafter that can't be is an
    error.
    """
    found: dict[str, Contender] = {}
    skipped: list[str] = []
    for spec in ("none", *config.drafters):
        request = DecodeRequest(target=config.target, drafter=spec, force=config.force, sampled=config.sampled)
        drafter, warnings = bench.drafter(request, target)
        if spec == "none" or not config.trees:
            found[contender_key(spec, None)] = Contender(spec, None, drafter, warnings)
            continue
        for tree in config.trees:
            try:
                drafter, _ = bench.drafter(request.model_copy(update={"tree": tree}), target)
            except HeadwayError as error:
                skipped.append(f"{spec} with the tree {tree} is left out: {error}")
                continue
            found[contender_key(spec, tree)] = Contender(spec, tree, drafter, warnings)
    if len(found) == 1 and skipped:
        raise HeadwayError(skipped[0])
    return found, skipped


def _encoded(target: Target, prompts: Sequence[Prompt], num_broken: int, room: int) -> PromptSet:
    """What is asked first; prompts that don't fit are left out for every contender alike."""
    kept = questions_that_fit(target, prompts, room)
    return PromptSet([one.prompt for one in kept], [one.ids for one in kept], num_broken, len(prompts) - len(kept))


def _skipped_batches(config: EvaluateJobConfig, sets: dict[str, PromptSet]) -> list[str]:
    sentences = [
        f"{name} in batches of {batch} is left out: it has only {len(one.prompts)} prompts."
        for name, one in sets.items()
        for batch in config.batches
        if batch > len(one.prompts)
    ]
    if len(sentences) == len(sets) * len(config.batches):
        raise HeadwayError(f"Nothing can be measured: {sentences[0]}")
    return sentences


def _setup(
    config: EvaluateJobConfig,
    target: Target,
    contenders: dict[str, Contender],
    sets: dict[str, PromptSet],
    skipped: list[str],
) -> dict[str, Any]:
    """The conditions of all parts, as plain JSON."""
    described = {
        "target": target.name,
        **measured_on(target),
        "contenders": {name: _described(one) for name, one in contenders.items()},
        "sets": {
            name: {"prompts": len(one.prompts), "broken": one.num_broken, "left_out": one.num_left_out,
                   "ids": [prompt.question_id for prompt in one.prompts]}
            for name, one in sets.items()
        },
        "asked": {name: [prompt.asked for prompt in one.prompts] for name, one in sets.items()},
        "skipped": skipped,
        "config": config.model_dump(mode="json"),
    }  # fmt: skip
    plain: dict[str, Any] = json.loads(json.dumps(described))
    return plain


def _described(contender: Contender) -> dict[str, Any]:
    return {
        **drafted_with(contender.spec, contender.drafter),
        "tree": contender.tree,
        **tree_conditions(contender.drafter),
        "warnings": contender.warnings,
    }


def _check_same(before: dict[str, Any], now: dict[str, Any]) -> None:
    changed = [words for key, words in FIXED.items() if before.get(key) != now[key]]
    if changed:
        raise HeadwayError(
            f"This evaluation can't go on: {' and '.join(changed)} changed since it began, and its numbers would not "
            "compare; start a new one."
        )


def _words(name: str, block: Block) -> str:
    rows = "one at a time" if block.batch == 1 else f"{block.batch} at once"
    return f"{name} on {block.set}, T = {block.temperature:g}, {rows}"


def _finished(context: JobContext, skipped: list[str]) -> dict[str, Any]:
    """Write the table into the job's folder; a few numbers for lists."""
    items = context.items()
    parts = [part_from_dict(data) for key, data in items.items() if key != SETUP]
    rows = table(parts)
    place = context.folder / TABLE
    write_json_atomically(place, {"setup": items[SETUP], "rows": [row.to_dict() for row in rows]})
    whole = [row for row in rows if row.category is None]
    over_all = [row for row in whole if row.set == MEAN] or whole
    brief = ("contender", "set", "temperature", "batch", "acceptance_length", "speedup", "num_prompts", "num_paired",
             "num_same")  # fmt: skip
    return {
        "table": str(place),
        "answers": sum(len(part.answers) for part in parts),
        "skipped": skipped,
        "rows": [{key: getattr(row, key) for key in brief} for row in over_all if row.contender != PLAIN],
    }
