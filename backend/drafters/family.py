"""What the settings of every trainable family have in common. Torch-free, so that a form can be drawn from them.

Each family's config.py derives its own settings and names its presets; recipe.py beside it says how a learner is made
from them. families.py lists the families.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

Preset = Mapping[str, Any]
"""Part of a training job's config, nested as there: {"drafter": {...}, "training": {...}}."""


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

    @property
    def states_a_token(self) -> int:
        """Target states that are cached for every token of a text, prompt included; 0 for families that learn from
        the answers' positions alone, with one state at each.
        """
        return 0

    def layers_read(self, num_layers: int) -> frozenset[int]:
        """Which states these are beside the last hidden one: the inputs of these layers, of `num_layers` in all."""
        return frozenset()
