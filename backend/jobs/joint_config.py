"""What a joint training of heads and target is told. Torch-free; knows nothing of how the work is done."""

from __future__ import annotations

from pydantic import Field

from backend.drafters.medusa.config import MedusaSettings
from backend.jobs.configs import Name, TargetConfig, Text
from backend.training.joint_config import JointConfig


class JointJobConfig(TargetConfig):
    """Medusa-2: heads learn together with the target, which becomes a new version of its own."""

    answers: Text = Field(description="what a distillation of this target wrote: its JSONL or its packed .npz")
    drafter: MedusaSettings = Field(MedusaSettings(), description="what is trained beside the target")
    joint: JointConfig = Field(JointConfig(), description="how both are trained")
    name: Name | None = Field(None, description="name of the heads; default: the folder's")
    out: Text | None = Field(None, description="folder of the heads; default: NAME in the home folder's drafters")
    version_out: Text | None = Field(
        None, description="folder of the new target; default: that of the heads with -target behind its name"
    )
    held_out: float = Field(0.05, gt=0, lt=1, description="part of the prompts that is measured on, never trained on")
    tree_nodes: int = Field(16, ge=1, le=255, description="drafted nodes of the stored tree")
    half: bool = Field(False, description="store the heads in half precision")
