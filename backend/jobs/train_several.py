"""Further versions of a target that a drafter learns from beside its own, such as the other adapters it is to serve.

Each version answered its own prompts, and its states are captured by itself, with its own adapter and rounding: states
of one version read from another's answers would teach what neither of them does. They are opened one after another and
only to capture, so that never more than one stands beside the training's own target. What the drafter and the targets
share, the embedding and the output head, must be the same in all. Knows captures and contexts; no family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from backend.data.answers import Answer, read_any
from backend.drafters.learning import Learner
from backend.errors import HeadwayError, MismatchError
from backend.jobs.configs import TrainJobConfig, further_versions
from backend.jobs.context import JobContext
from backend.jobs.opening import open_for
from backend.jobs.start_weights import digest
from backend.jobs.train_features import HELD_OUT, TRAINING, features_for
from backend.targets.target import Target
from backend.training.joined import JoinedPositions, JoinedTexts
from backend.training.split import split_held_out


@dataclass(frozen=True)
class Further:
    """One further version: how it is named, where its answers are, and the two sides they are split into."""

    target: str
    answers: Path
    training: list[Answer]
    held: list[Answer]

    @property
    def all(self) -> list[Answer]:
        return [*self.training, *self.held]


def read_further(config: TrainJobConfig) -> list[Further]:
    """The further versions of a training, their answers split as its own are. Raises HeadwayError for a file without
    answers.
    """
    found = []
    for target, file in further_versions(config):
        place = Path(file)
        training, held = split_held_out(read_any(place), config.held_out)
        found.append(Further(target, place, training, held))
    return found


def refuse_several_processes(config: TrainJobConfig, processes: int) -> None:
    """Raises HeadwayError where several processes would train on several versions: each of them would have to open
    every one.
    """
    if config.also and processes > 1:
        raise HeadwayError(
            "Answers of several versions are learned from by one process; start the training without torchrun, or "
            "leave --also out."
        )


def joined_features(
    config: TrainJobConfig,
    context: JobContext,
    target: Target,
    further: Sequence[Further],
    own: tuple[Any, Any],
    learner: Learner,
) -> tuple[Any, Any, list[dict[str, str]]]:
    """(training, held out, identities of the further versions): `own`, the target's two features, and those of all
    further versions as one each.

    Raises MismatchError for a version of another size, embedding or output head than the target's, HeadwayError,
    Cancelled.
    """
    shared = vocabulary_digest(target)
    training, held, versions = [own[0]], [own[1]], []
    for number, one in enumerate(further):
        theirs = config.model_copy(update={"target": one.target, "work": _work(config, number)})
        opened = open_for(theirs, context)
        _check_shared(target, opened, shared)
        training.append(features_for(context, opened, one.training, theirs, TRAINING, learner))
        held.append(features_for(context, opened, one.held, theirs, HELD_OUT, learner))
        versions.append(opened.identity.to_dict())
        del opened  # before the next one is loaded
    join = JoinedTexts if learner.reads else JoinedPositions
    return join(cast(Any, training)), join(cast(Any, held)), versions


def vocabulary_digest(target: Target) -> str:
    """A hash of what drafters hold of a target: the input embedding and the output head, in the dtype it is loaded in.

    The same for all adapters of a model that leave both alone.
    """
    return digest({"embedding": target.embedding_weight(), "head": target.lm_head_weight()})


def _check_shared(target: Target, other: Target, shared: str) -> None:
    sizes = [(one.hidden_size, one.vocab_size, one.num_layers) for one in (target, other)]
    if sizes[0] != sizes[1] or vocabulary_digest(other) != shared:
        raise MismatchError(
            f"{other.name} has another embedding or output head than {target.name}, which a drafter holds of its "
            "target, so one drafter can't learn from both; train one for each."
        )


def _work(config: TrainJobConfig, number: int) -> str | None:
    """Captures in a named folder would take each other's place."""
    return None if config.work is None else str(Path(config.work) / f"also-{number}")
