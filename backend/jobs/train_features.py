"""Where a training's features come from: a capture that is there already, whoever made it, or one of its own; or the
target itself while it trains.

Captures lie in the work folder that was named, or where all jobs over the same answers share them. Knows captures and
contexts; no family.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from backend.drafters.learning import Learner
from backend.errors import HeadwayError
from backend.jobs.carry_out import sweep
from backend.jobs.configs import TrainJobConfig
from backend.jobs.context import JobContext
from backend.jobs.locks import only_one
from backend.targets.target import FINAL, Target
from backend.training import shards
from backend.training.captures import (
    TEXTS,
    TokenizedAnswer,
    Wanted,
    answers_digest,
    read_manifest,
    serving,
    text_digests,
)
from backend.training.features import FeatureStore, capture, feature_folder, usable_answers
from backend.training.known_targets import KnownTarget, remember_target
from backend.training.online import OnlinePositions, OnlineTexts
from backend.training.text_features import TextFeatureStore, capture_texts, text_feature_folder
from backend.training.text_positions import PositionsOfTexts

Cached = FeatureStore | TextFeatureStore | PositionsOfTexts
Given = Cached | OnlineTexts | OnlinePositions
TRAINING, HELD_OUT = "training", "held-out"


def features_for(
    context: JobContext,
    target: Target,
    answers: Sequence[TokenizedAnswer],
    config: TrainJobConfig,
    what: str,
    learner: Learner,
) -> Given:
    """Features of the learner's kind; `what`: TRAINING or HELD_OUT. Raises HeadwayError, Cancelled."""
    if config.features == "cached":
        return _cached(context, target, answers, config, what, learner)
    if learner.reads:
        return OnlineTexts(target, answers, learner.reads)
    return OnlinePositions(target, answers, learner.wants_ahead)


def _cached(
    context: JobContext,
    target: Target,
    answers: Sequence[TokenizedAnswer],
    config: TrainJobConfig,
    what: str,
    learner: Learner,
) -> Cached:
    known = KnownTarget(target.identity.weights_id, shards.makes(target))
    remember_target(context.settings.cache, config.target, config.device, config.dtype, known)
    own = _own_folder(context, target, answers, config, what, learner)
    for folder in sorted(serving(own.parent, wanted_by(learner, target, answers)), key=lambda one: one != own):
        try:
            found = _opened(folder, learner, usable_answers(target, answers))
        except HeadwayError:
            continue  # damaged since its manifest was written
        if folder != own:
            context.log(f"The {what} features were captured before: {folder.name} holds all that is read.")
        return found
    return _captured(context, target, answers, own, what, learner)


def wanted_by(learner: Learner, target: Target, answers: Sequence[TokenizedAnswer]) -> Wanted:
    """What a capture must hold to serve this learner."""
    usable = usable_answers(target, answers)
    return Wanted(
        weights_id=target.identity.weights_id,
        answers=answers_digest(usable),
        each=text_digests(usable),
        layers=frozenset(learner.reads) - {FINAL},
        texts=bool(learner.reads),
        made_by=shards.makes(target),
    )


def _own_folder(
    context: JobContext,
    target: Target,
    answers: Sequence[TokenizedAnswer],
    config: TrainJobConfig,
    what: str,
    learner: Learner,
) -> Path:
    if config.work:
        kind = "text-features" if learner.reads else "features"
        return Path(config.work) / (kind if what == TRAINING else what)
    if learner.reads:
        return text_feature_folder(context.settings.features, target, answers, learner.reads)
    return feature_folder(context.settings.features, target, answers)


def _opened(folder: Path, learner: Learner, answers: Sequence[TokenizedAnswer]) -> Cached:
    """What the learner reads of a capture that serves it, of these answers. Raises HeadwayError when it is damaged."""
    if learner.reads:
        return TextFeatureStore(folder, learner.reads, answers)
    manifest = read_manifest(folder) or {"header": {}}
    if manifest["header"].get("kind") == TEXTS:
        return PositionsOfTexts(TextFeatureStore(folder, (FINAL,), answers), learner.wants_ahead)
    return FeatureStore(folder, learner.wants_ahead)


def _captured(
    context: JobContext,
    target: Target,
    answers: Sequence[TokenizedAnswer],
    folder: Path,
    what: str,
    learner: Learner,
) -> Cached:
    unit = "tokens" if learner.reads else "positions"

    def progress(done: int, total: int) -> None:
        context.progress(done, total, unit, f"{what} features")

    lock = folder.parent / f".{folder.name}.lock"
    with only_one(lock, f"the features in {folder}", patience_s=24 * 3600, should_stop=context.should_stop):
        sweep(folder, ".*.partial")
        if learner.reads:
            return capture_texts(
                target, answers, learner.reads, folder, progress=progress, should_stop=context.should_stop
            )
        return capture(
            target,
            answers,
            folder,
            progress=progress,
            should_stop=context.should_stop,
            ahead=learner.wants_ahead,
        )
