"""What the settings of every trainable family have in common. Torch-free, so that a form can be drawn from them.

Each family's config.py derives its own settings; recipe.py beside it says how a learner is made from them.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class FamilySettings(BaseModel):
    """Base of the families' settings. `family` names the folder beside this file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    family: str = Field(description="kind of drafter")
    draft_vocab: int = Field(
        8192, ge=0, le=1 << 20, description="tokens that can be drafted, the most frequent ones; 0: all"
    )

    @property
    def depth(self) -> int:
        """How many tokens ahead the drafter can go: depth of the chain it is judged with."""
        raise NotImplementedError
