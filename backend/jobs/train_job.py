"""Training as a job: from the target's answers to a drafter folder with its tree and the numbers it reached.

The same for every family (drafters/recipe.py). Everything on the way can be killed and started again: features go on at
the next shard, training at the last checkpoint, and the folder appears whole. Knows contexts, not who is behind them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend.data.answers import Answer, read_any
from backend.drafters.checkpoint import DrafterMeta, read_meta
from backend.drafters.learning import Learner
from backend.drafters.recipe import Recipe, recipe_of
from backend.drafters.registry import with_tree
from backend.engine.conditions import device_name
from backend.engine.remember import register_drafter, register_version
from backend.errors import Cancelled, HeadwayError
from backend.jobs.carry_out import sweep
from backend.jobs.configs import TrainJobConfig
from backend.jobs.context import ConsoleContext, JobContext
from backend.jobs.fork import RUN
from backend.jobs.locks import only_one
from backend.jobs.opening import holding, open_for
from backend.jobs.places import chosen_place, release
from backend.jobs.provenance import provenance
from backend.jobs.start_weights import starting_weights
from backend.jobs.train_features import HELD_OUT, TRAINING, features_for
from backend.jobs.train_several import Further, joined_features, read_further, refuse_several_processes
from backend.jobs.train_target import spread_over, taking_turns
from backend.jobs.train_tree import asked_tree, numbers, stored_tree
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.targets.sources import short_name
from backend.targets.target import FINAL, Target
from backend.training.judge import Judge, judged_prompts
from backend.training.loop import TrainResult, train
from backend.training.online import OnlineTexts
from backend.training.processes import Processes, failing_together, here
from backend.training.split import split_held_out
from backend.training.text_features import TextFeatureStore
from backend.training.token_map import choose_tokens
from backend.trees import DynamicShape, TreeShape, chain
from backend.tuning.forcing import state_facts

NUM_MEASURED = 16  #: texts that sizes of states are measured on where a family needs them


class _Reporter:
    """The loop's numbers to the context."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._notes: dict[str, str] = {}

    def report(self, step: int, total: int, metrics: dict[str, float]) -> None:
        self._context.metrics(step, metrics)
        for name, word in (("loss", "loss"), ("held_out_top1_0", "held-out top-1"), ("acceptance_length", "accepts")):
            if name in metrics:
                self._notes[name] = f"{word} {metrics[name]:.3f}"
        self._context.progress(step, total, "steps", ", ".join(self._notes.values()))

    def resumed(self, step: int) -> None:
        self._context.resumed_at(step)
        if step:
            self._context.log(f"Goes on at step {step}.")


def run(config: TrainJobConfig, context: JobContext) -> dict[str, Any]:
    """Train and write a drafter. Returns {out, numbers, tree, drafter_id}. Where several processes train together (see
    training/processes.py), the first one does this, and the others what `beside` does.

    Raises HeadwayError for anything the person can mend, Cancelled when asked to stop.
    """
    with failing_together(here()):
        return _run(config, context, here())


def beside(config: TrainJobConfig, settings: Settings) -> None:
    """Learn from this process's parts of the batches, and nothing else.

    Raises HeadwayError when any of the processes fails, Cancelled when the first one was asked to stop.
    """
    processes = here()
    with failing_together(processes):
        spread = spread_over(processes, config, settings)
        processes = taking_turns(processes, spread)
        with processes.turn(0):
            pass  # the first one captures, and measures what a learner starts from
        folder = Path(processes.from_first(None))  # from here on it is only read
        answers, context = read_any(Path(config.answers)), ConsoleContext(settings, folder, quiet=True)
        target = spread.target if spread is not None else _opened(config, settings)
        work = Path(config.work) if config.work else folder
        for rank in range(1, processes.count):
            with processes.turn(rank) as mine:
                if mine:
                    trained = _Training(config, context, target, answers, work, processes)
        trained.go()
        with processes.turn(0):
            pass  # the first one chooses a tree


def _opened(config: TrainJobConfig, settings: Settings) -> Target:
    return open_target(config.target, settings, config.device, config.dtype, config.trust_remote_code)


def _run(config: TrainJobConfig, context: JobContext, processes: Processes) -> dict[str, Any]:
    refuse_several_processes(config, processes.count)
    further = read_further(config)
    hashes = context.pin([Path(config.answers), *(one.answers for one in further)])
    dataset = {config.answers: hashes[str(Path(config.answers).absolute())]}
    answers = read_any(Path(config.answers))
    name = config.name or f"{config.drafter.family}-{short_name(config.target)}"
    out = chosen_place(context.folder, config.out, context.settings.drafters, name)
    if config.name is None:
        name = out.name
    spread = spread_over(processes, config, context.settings)
    processes = taking_turns(processes, spread)
    target = spread.target if spread is not None else open_for(config, context)
    check_tokens(config, answers, target)
    for one in further:
        check_tokens(config.model_copy(update={"answers": str(one.answers)}), one.all, target)
    version_id = None
    if context.store is not None:
        version_id = register_version(context.store, target)
        context.link(version_id=version_id)
    work = Path(config.work) if config.work else context.folder
    with (
        only_one(out.parent / f".{out.name}.lock", str(out), patience_s=2),
        only_one(work / RUN / ".lock", str(work), patience_s=2),
        holding(context, target, f"training {name}") as alone,
    ):
        sweep(out.parent, f".{out.name}.*.partial")
        with processes.turn(0):
            trained = _Training(config, context, target, answers, work, processes, further)
        processes.from_first(str(context.folder))
        for rank in range(1, processes.count):
            with processes.turn(rank):
                pass  # each makes a learner of its own
        result = trained.go()
        with processes.turn(0):
            tree, measured = stored_tree(
                target, trained.drafter, result, trained.held, config.tree_nodes, trained.asked_tree
            )
            learned = learned_from(target, trained.learner, answers)  # it asks the target too
        reached = numbers(result, tree, trained.features, trained.held_out) | {"trees": measured}
        reached |= learned
        if measured and not alone:
            reached["contended"] = True  # somebody else used the device while trees were timed
        meta = DrafterMeta(
            family=config.drafter.family,
            name=name,
            config={},
            version=target.identity.to_dict(),
            also=trained.versions,
            tree=tree.to_json() if isinstance(tree, TreeShape) else [],
            dynamic=asdict(tree) if isinstance(tree, DynamicShape) else None,
            numbers=reached,
            lineage=_lineage(config, answers, target, dataset, trained, context),
        )
        dtype = torch.float16 if config.half else torch.float32
        trained.recipe.save(out, trained.learner, meta, dtype)
        release(out)
    drafter_id = None
    if context.store is not None and version_id is not None:
        drafter_id = register_drafter(context.store, str(out), version_id)
        context.link(drafter_id=drafter_id)
    weights = read_meta(out).weights_sha256
    return {"out": str(out), "numbers": reached, "tree": tree.to_json(), "drafter_id": drafter_id, "weights": weights}


class _Training:
    """What is needed to train, in the order it is made."""

    def __init__(
        self,
        config: TrainJobConfig,
        context: JobContext,
        target: Target,
        answers: Sequence[Answer],
        work: Path,
        processes: Processes,
        further: Sequence[Further] = (),
    ) -> None:
        self.further = further
        self.config, self.context, self.target, self.work, self.processes = config, context, target, work, processes
        self.recipe: Recipe = recipe_of(config.drafter.family)
        training, self.held = split_held_out(answers, config.held_out)
        self.start = starting_weights(config.start_from, work / RUN, context)
        if self.start is not None and self.start.family != config.drafter.family:
            raise HeadwayError(
                f"{config.start_from} is a {self.start.family} drafter and {config.drafter.family} is to be trained; "
                "start from one of the same family."
            )
        self.asked_tree = asked_tree(config.tree, config.drafter.depth)
        self.learner = self._learner([*training, *(answer for one in further for answer in one.training)])
        if self.asked_tree is not None:
            with_tree(self.drafter(), self.asked_tree)  # one that it can't fill is better said now than in the end
        self.features = features_for(context, target, training, config, TRAINING, self.learner)
        self.held_out = features_for(context, target, self.held, config, HELD_OUT, self.learner)
        self.versions: list[dict[str, str]] = []
        if further:
            own = (self.features, self.held_out)
            self.features, self.held_out, self.versions = joined_features(
                config, context, target, further, own, self.learner
            )
        self._tell_sizes()

    def _learner(self, training: Sequence[Answer]) -> Learner:
        settings, target = self.config.drafter, self.target
        weights = self.start.weights if self.start is not None else None
        tokens: Tensor | None = None
        if settings.draft_vocab:
            size = min(settings.draft_vocab, target.vocab_size)
            tokens, covered = choose_tokens(training, target.vocab_size, size, target.eos_token_ids)
            if weights is None:
                self.context.log(f"The {size:,} tokens that can be drafted cover {100 * covered:.2f} % of the answers.")
        return self.recipe.new_learner(settings, target, tokens, weights, first_texts(training))

    def _tell_sizes(self) -> None:
        """How large the states are that the drafter reads: an attention sink is many times larger than the rest."""
        if isinstance(self.features, TextFeatureStore | OnlineTexts):
            sizes = [
                f"{'the last' if layer == FINAL else f'layer {layer}'} {usual:,.2g} (largest number {largest:,.0f})"
                for layer, (usual, largest) in self.features.state_sizes().items()
            ]
            self.context.log(f"Usual size of the states that are read: {'; '.join(sizes)}.")

    def drafter(self) -> Any:
        """A drafter of the weights as they are now, with a chain of the full depth."""
        return self.recipe.drafter(self.learner, self.target, "new", chain(self.config.drafter.depth))

    def go(self) -> TrainResult:
        """Train to the end. Raises Cancelled when asked to stop, HeadwayError when the loss left all bounds."""
        result = train(
            self.config.training,
            self.learner,
            self.features,
            self.held_out,
            _Reporter(self.context),
            self.context.should_stop,
            self.work / RUN,
            self._judge(),
            self.start.digest if self.start is not None else "",
            self.processes,
        )
        if result.finish_reason == "stopped":
            raise Cancelled(f"Training {result.reason}.")
        if result.finish_reason != "done":
            raise HeadwayError(result.reason)
        return result

    def _judge(self) -> Judge | None:
        """None where several versions are learned from: one of them alone can't say which weights are best for all, so
        the last ones are kept.
        """
        if self.further:
            return None
        training, depth = self.config.training, self.config.drafter.depth
        longest = self.target.max_context - training.decode_tokens - depth - 1
        prompts = judged_prompts(self.held, training.decode_prompts, longest)
        return Judge(self.target, self.drafter, prompts, training.decode_tokens) if prompts else None


def first_texts(answers: Sequence[Answer]) -> list[tuple[int, ...]]:
    """Some whole texts, for families that measure the target's states before they learn."""
    return [tuple(answer.prompt_ids) + tuple(answer.answer_ids) for answer in answers[:NUM_MEASURED]]


def learned_from(target: Target, learner: Learner, answers: Sequence[Answer]) -> dict[str, Any]:
    """What a diagnosis compares with what it finds later: the states that were read, and how long the texts were."""
    longest = max(len(answer.prompt_ids) + len(answer.answer_ids) for answer in answers)
    states = state_facts(target, first_texts(answers), learner.reads or (FINAL,))
    return {"states": states, "longest_text": min(longest, target.max_context)}


def check_tokens(config: TrainJobConfig, answers: Sequence[Answer], target: Target) -> None:
    """Raises HeadwayError for answers with tokens that the target does not have."""
    highest = max(max(answer.prompt_ids + answer.answer_ids, default=0) for answer in answers)
    if highest >= target.vocab_size:
        raise HeadwayError(
            f"{config.answers} holds token {highest}, but {target.name} has {target.vocab_size} tokens: "
            "these are answers of another target, so distil with this one."
        )


def _lineage(
    config: TrainJobConfig,
    answers: Sequence[Answer],
    target: Target,
    dataset: Mapping[str, str],
    trained: _Training,
    context: JobContext,
) -> dict[str, Any]:
    """Where the drafter came from; no path of this machine but the answer files' names."""
    digest, start = hashlib.sha256(), trained.start
    answers = [*answers, *(answer for one in trained.further for answer in one.all)]
    for answer in answers:
        digest.update(json.dumps([answer.prompt_ids, answer.answer_ids]).encode())
    return provenance("train", config) | {
        "target": config.target,
        "answers": Path(config.answers).name,
        "answers_sha256": digest.hexdigest(),
        "dataset_sha256": next(iter(dataset.values()), ""),
        "answer_tokens": sum(len(answer.answer_ids) for answer in answers),
        "temperatures": sorted({answer.temperature for answer in answers}),
        "training": config.training.model_dump(),
        "drafter": config.drafter.model_dump(),
        "seed": config.training.seed,
        **_also(trained),
        "parent": start.lineage if start is not None else None,
        "job": context.job_id,
        "device": device_name(target.device),
        "dtype": str(target.dtype).removeprefix("torch."),
    }


def _also(trained: _Training) -> dict[str, Any]:
    """What the lineage says of further versions; nothing where there are none."""
    named = zip(trained.further, trained.versions, strict=True)
    found = [{"target": one.target, "answers": one.answers.name, "version": version} for one, version in named]
    return {"also": found} if found else {}
