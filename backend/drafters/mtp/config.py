"""Shape of MTP modules, as it stands in a checkpoint, and the settings they are trained with. Torch-free; knows no
weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from backend.drafters.family import Preset
from backend.drafters.layer.config import LayerShape, PairSettings, PairTrainConfig

Form = Literal["shared", "modules", "parallel"]
FORM_HELP = (
    "shared (one module for all depths), modules (one a depth, each reads the one before), parallel (one a depth, all "
    "read the target's state alone)"
)


class MtpConfig(BaseModel):
    """What has to be known to build the modules before their weights are read.

    `order`: how a module joins its two inputs; `recycle_normed`: whether the next depth reads the state after the
    module's own norm; `attention_bias`, `qk_norm` and `rotary_dim`: of targets whose layers have them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    layer: LayerShape
    vocab_size: int = Field(ge=1, description="the target's vocabulary")
    draft_vocab_size: int | None = Field(
        8192, ge=1, description="rows of the target's head that are scored; none: the whole vocabulary"
    )
    form: Form = Field("shared", description=FORM_HELP)
    num_modules: int = Field(1, ge=1, le=16, description="modules with weights of their own")
    order: Literal["embedding_first", "hidden_first"] = Field(
        "embedding_first", description="which half of a module's joined input is the token"
    )
    recycle_normed: bool = Field(False, description="hand the state on after the module's norm instead of before it")
    attention_bias: bool = Field(False, description="queries, keys and values have a bias")
    qk_norm: bool = Field(False, description="queries and keys are normed in each head")
    rotary_dim: int | None = Field(None, ge=2, description="numbers of a head that are rotated; none: all")

    @model_validator(mode="after")
    def _one_is_shared(self) -> Self:
        if self.form == "shared" and self.num_modules != 1:
            raise ValueError("the shared form has one module")
        return self

    @property
    def output_size(self) -> int:
        """Vd: tokens that can be drafted."""
        return self.vocab_size if self.draft_vocab_size is None else self.draft_vocab_size


class MtpSettings(PairSettings):
    """What a person chooses when MTP modules are trained; the rest of MtpConfig follows from the target."""

    family: Literal["mtp"] = Field("mtp", description="kind of drafter")
    form: Form = Field("shared", description=FORM_HELP)
    test_time_steps: int = Field(
        4, ge=1, le=16, description="depths the shared module is trained on; with other forms each depth has its own"
    )
    recycle_normed: bool = Field(False, description="hand the state on after the module's norm instead of before it")

    @property
    def states_a_token(self) -> int:
        return 1  # the last hidden state is both what is read and what teaches

    def loss_settings(self) -> PairTrainConfig:
        """The part that decides the loss; every module of its own is trained."""
        steps = self.test_time_steps if self.form == "shared" else self.draft_depth
        return super().loss_settings().model_copy(update={"steps": steps})


#: `paper`: FastMTP's recipe for one shared module: three steps whose weights fall by 0.6, trained on hard labels.
#: `small` suits two cores and a small target.
PRESETS: Final[Mapping[str, Preset]] = {
    "paper": {
        "drafter": {
            "form": "shared", "test_time_steps": 3, "draft_depth": 3, "decay": 0.6, "loss": "hard",
            "draft_vocab": 32768,
        },
        "training": {"epochs": 3.0, "learning_rate": 5e-5, "warmup_fraction": 0.03},
    },
    "small": {
        "drafter": {
            "form": "shared", "test_time_steps": 4, "draft_depth": 4, "decay": 0.8, "loss": "soft",
            "draft_vocab": 8192,
        },
        "training": {"epochs": 4.0, "batch_tokens": 1024, "learning_rate": 5e-4, "warmup_fraction": 0.03},
    },
}  # fmt: skip
