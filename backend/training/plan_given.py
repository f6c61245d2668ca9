"""What a plan is told: the part of a job's config that matters, a target and answers as their files tell them, the
speed of the machine, and what a short probe measured.

Values only: plan_facts.py and probe.py gather them, planner.py says what follows. Torch-free; knows no family.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Protocol

from backend.drafters.family import FamilySettings
from backend.drafters.sizes import LayerWeights
from backend.training.config import TrainConfig

PADDED: Final = 0.1  # of a batch of whole texts, as their lengths differ by a fifth at most; see training/order.py


class Planned(Protocol):
    """The part of a training job's config that a plan depends on."""

    @property
    def drafter(self) -> FamilySettings: ...

    @property
    def training(self) -> TrainConfig: ...

    @property
    def tree(self) -> str | None: ...

    @property
    def tree_nodes(self) -> int | None: ...

    @property
    def half(self) -> bool: ...

    @property
    def features(self) -> str: ...


@dataclass(frozen=True)
class TargetFacts:
    """A target as its files tell it. `read_weights`: those that every token passes, so without embedding and head.
    `value_bytes`: of one number as it is loaded. `layer`: what is in one of its layers.
    """

    name: str
    hidden_size: int
    vocab_size: int
    num_layers: int
    num_weights: int
    read_weights: int
    value_bytes: int
    max_context: int
    layer: LayerWeights = field(default_factory=LayerWeights)


@dataclass(frozen=True)
class AnswerFacts:
    """Answers as training splits them. Positions are tokens that are learned from; `tokens` are what a capture reads,
    prompts and padding included; `text_tokens` are prompts and answers without padding. Digests are those of
    captures.answers_digest, `each` and `held_out_each` those of captures.text_digests; `captured`: a complete capture
    is there that serves (training/plan_facts.py).
    """

    answers: int
    positions: int
    tokens: int
    held_out_positions: int
    held_out_tokens: int
    text_tokens: int = 0
    held_out_text_tokens: int = 0
    digest: str = ""
    held_out_digest: str = ""
    each: tuple[str, ...] = ()
    held_out_each: tuple[str, ...] = ()
    captured: bool = False
    held_out_captured: bool = False

    @property
    def read(self) -> int:
        """Tokens that a capture still has to read."""
        return (0 if self.captured else self.tokens) + (0 if self.held_out_captured else self.held_out_tokens)

    def seen(self, settings: FamilySettings) -> tuple[int, int]:
        """What an epoch goes through and what an evaluation does, in the units that a batch is counted in: positions
        of answers, or tokens of whole texts.
        """
        if not settings.states_a_token:
            return self.positions, self.held_out_positions
        padded = 1 + PADDED
        return round(self.text_tokens * padded), round(self.held_out_text_tokens * padded)


@dataclass(frozen=True)
class Speed:
    """How fast a machine is, in floating-point operations a second, at reading with a target (`read`) and at training
    (`learn`), `load_s` for a hundred million weights, `write` in bytes a second.
    """

    read: float
    learn: float
    load_s: float = 2.0
    write: float = 150e6


@dataclass(frozen=True)
class Probe:
    """What a short run measured, and of what.

    Times of loading, of a step, of saving; tokens a second of a capture, positions a second of an evaluation;
    `judge_step_s` and `draft_step_s` are a drafting and checking step of as many rows as an evaluation decodes, and of
    one. Bytes of memory are over what the process had before it opened the target: at the peak of loading, afterwards,
    and on top of that at the peaks of capturing and of training. `settings` is the config it measured.
    """

    target: str
    device: str
    settings: dict[str, Any]
    hidden_size: int
    vocab_size: int
    load_s: float
    capture_tokens_per_s: float
    step_s: float
    evaluate_positions_per_s: float
    judge_step_s: float
    draft_step_s: float
    save_s: float
    checkpoint_bytes: int
    load_peak_bytes: int
    target_bytes: int
    capture_peak_bytes: int
    train_peak_bytes: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Probe:
        """Raises ValueError for anything that is not a probe of this version."""
        names = {one.name for one in fields(cls)}
        if set(data) != names:
            raise ValueError(f"not a probe: {sorted(set(data) ^ names)}")
        return cls(**data)
