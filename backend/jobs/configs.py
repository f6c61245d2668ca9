"""What a distillation and a training job are told, as it stands in a form, a file or a command line.

Torch-free: a page draws its form from these, and the command line its options. Every field has one line of help. Knows
nothing of how the work is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from backend.drafters.families import AnySettings, PresetName, filled
from backend.drafters.medusa.config import MedusaSettings
from backend.errors import HeadwayError
from backend.targets.sources import PARTS_HELP
from backend.training.config import DistillConfig, TrainConfig

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80, pattern=r"^[^/\\\x00]+$")]


class TargetConfig(BaseModel):
    """Which target, where and in which numbers; the same for every kind of job."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: Text = Field("smollm2-135m", description=f"built-in name, folder, GGUF file or hub id; {PARTS_HELP}")
    device: Text | None = Field(None, description="cuda, mps or cpu; default: the best there is")
    dtype: Text | None = Field(
        None, description="float32, bfloat16 or float16; default: bfloat16 on CUDA, else float32"
    )
    trust_remote_code: bool = Field(False, description="run Python code that comes with a model")


class DistillJobConfig(TargetConfig, DistillConfig):
    """The target answers prompts itself: what draft heads learn from."""

    prompts: tuple[Text, ...] = Field(min_length=1, description="prompt file: JSONL with turns, ShareGPT or Alpaca")
    limit: int | None = Field(None, ge=1, description="only the first N prompts of each file")
    out: Text | None = Field(None, description="JSONL that grows; default: NAME.jsonl among the home folder's answers")
    endpoint: Text | None = Field(
        None, description="URL of a running vLLM server that answers in the target's place; default: the own loop"
    )
    pack: Text | None = Field(None, description="also write all answers into one small packed .npz at the end")
    name: Name | None = Field(None, description="name of the answers; default: made of target and prompt file")

    def answering(self) -> DistillConfig:
        """The part that decides what is answered."""
        return DistillConfig(**self.model_dump(include=set(DistillConfig.model_fields)))


class TrainJobConfig(TargetConfig):
    """A drafter learns from the target's own answers.

    `preset` is taken up when the config is made and is None from then on: what it says stands in the other settings.
    """

    answers: Text = Field(description="what a distillation wrote: its JSONL or its packed .npz")
    preset: PresetName | None = Field(
        None, description="fill what is not given: paper for the family's published values, small for two cores"
    )
    drafter: AnySettings = Field(MedusaSettings(), description="what is trained")
    training: TrainConfig = Field(TrainConfig(), description="how it is trained")
    also: tuple[Text, ...] = Field(
        (),
        description="TARGET=ANSWERS: another version, such as one with another adapter, whose own answers are learned "
        "from too",
    )
    features: Literal["cached", "online"] = Field(
        "cached",
        description="the target's states: cached on disk, for later trainings too; online: read anew for every batch",
    )
    spread_target: bool = Field(
        False, description="hold the target's layers in parts, one a process of torchrun, where no device holds all"
    )
    name: Name | None = Field(None, description="name of the drafter; default: the folder's")
    out: Text | None = Field(None, description="folder of the drafter; default: NAME in the home folder's drafters")
    start_from: Text | None = Field(
        None,
        description="start with the weights of this job (its id) or folder, or with @STEP those of a step it keeps",
    )
    held_out: float = Field(0.05, gt=0, lt=1, description="part of the prompts that is measured on, never trained on")
    tree_nodes: int | None = Field(
        None, ge=1, le=255, description="drafted nodes of the stored tree; default: the fastest measured here"
    )
    tree: Text | None = Field(
        None, description="tree to store: chain, chain-4, 3x2x1, eagle2 or JSON; default: chosen by tree nodes"
    )
    half: bool = Field(False, description="store the drafter in half precision")
    work: Text | None = Field(None, description="folder for features and checkpoints; default: the job's own")

    @model_validator(mode="after")
    def _in_step(self) -> Self:
        if self.spread_target and self.features == "online":
            raise ValueError("a target that is spread over processes can't be read online; use cached features")
        if self.also and (self.spread_target or self.features == "online"):
            raise ValueError("several versions are opened one after another, so they take cached features, not spread")
        further_versions(self)
        return self

    @model_validator(mode="before")
    @classmethod
    def _take_up_preset(cls, data: Any) -> Any:
        return filled(data) if isinstance(data, Mapping) else data


def further_versions(config: TrainJobConfig) -> list[tuple[str, str]]:
    """(target, answers) of each further version. Raises HeadwayError for a pair that is none, and for a version that is
    named twice.
    """
    found = []
    for pair in config.also:
        target, equals, answers = pair.rpartition("=")
        if not (equals and target.strip() and answers.strip()):
            raise HeadwayError(f"A further version is written TARGET=ANSWERS, not {pair!r}.")
        found.append((target.strip(), answers.strip()))
    targets = [config.target, *(target for target, _ in found)]
    twice = next((one for one in targets if targets.count(one) > 1), None)
    if twice is not None:
        raise HeadwayError(f"The version {twice} is named twice; join its answers into one file instead.")
    return found
