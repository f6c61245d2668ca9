"""What a fine-tune of the target is told. Torch-free; knows nothing of how the work is done."""

from __future__ import annotations

from pydantic import Field

from backend.jobs.configs import Name, TargetConfig, Text
from backend.training.finetune_config import FinetuneConfig


class FinetuneJobConfig(TargetConfig):
    """A small fine-tune on given answers: what comes out is a new version of the target, with a folder of its own."""

    answers: Text = Field(description="JSONL whose rows give answers: messages, ShareGPT or Alpaca")
    limit: int | None = Field(None, ge=1, description="only the first N rows")
    special_tokens: tuple[Text, ...] = Field(
        (), description="new tokens besides those that the rows announce, with commas"
    )
    finetune: FinetuneConfig = Field(FinetuneConfig(), description="how it is trained")
    name: Name | None = Field(None, description="name of the new version; default: of target and file")
    out: Text | None = Field(None, description="folder of the new version; default: NAME in the home folder's versions")
    held_out: float = Field(0.05, gt=0, lt=1, description="part of the prompts that is measured on, never trained on")
