"""What a joint training of drafter and target is told. Torch-free; knows nothing of how the work is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from backend.drafters.families import AnySettings, filled
from backend.drafters.medusa.config import MedusaSettings
from backend.jobs.configs import Name, TargetConfig, Text
from backend.training.joint_config import JointConfig


class JointJobConfig(TargetConfig):
    """A drafter learns together with the target, which becomes a new version of its own: Medusa-2, or joint MTP."""

    answers: Text = Field(description="what a distillation of this target wrote: its JSONL or its packed .npz")
    drafter: AnySettings = Field(MedusaSettings(), description="what is trained beside the target")
    joint: JointConfig = Field(JointConfig(), description="how both are trained")
    name: Name | None = Field(None, description="name of the drafter; default: the folder's")
    out: Text | None = Field(None, description="folder of the drafter; default: NAME in the home folder's drafters")
    version_out: Text | None = Field(
        None, description="folder of the new target; default: that of the drafter with -target behind its name"
    )
    held_out: float = Field(0.05, gt=0, lt=1, description="part of the prompts that is measured on, never trained on")
    tree_nodes: int = Field(16, ge=1, le=255, description="drafted nodes of the stored tree")
    half: bool = Field(False, description="store the drafter in half precision")

    @model_validator(mode="before")
    @classmethod
    def _name_the_family(cls, data: Any) -> Any:
        return filled(data) if isinstance(data, Mapping) else data
