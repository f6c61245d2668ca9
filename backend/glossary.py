"""What the product's numbers and knobs mean, from one file: glossary.yaml beside this module. Torch-free.

Whatever shows a number or a setting names its entry here, so that the same words explain it everywhere. A file that
lacks a part is refused as a whole: a metric without its conditions is no explanation.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

FILE: Final = Path(__file__).with_name("glossary.yaml")
Key = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Said = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
#: a place in the pages
Link = Annotated[str, StringConstraints(pattern=r"^/[a-z]*(#[a-z]+)?$")]
Command = Annotated[str, StringConstraints(pattern=r"^\./run [a-z-]+")]


class Entry(BaseModel):
    """Immutable, with no part too many."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Metric(Entry):
    """One number. `also`: what others call it; the last four say how these systems count it, or that they do not."""

    name: Said
    also: tuple[Said, ...]
    definition: Said
    formula: Said
    conditions: Said
    vllm: Said
    eagle: Said
    medusa: Said
    sglang: Said


class Knob(Entry):
    """One setting. `fields`: the names it has in configs and forms; `default`: where its default stands, as
    `kind.field...` of a job or `families.family.field`; `measured`: the page that shows its effect.
    """

    name: Said
    fields: tuple[Key, ...] = Field(min_length=1)
    does: Said
    costs: Said
    default: tuple[Said, ...] = Field(min_length=1)
    default_note: Said | None = None
    measured: Link
    command: Command


class Glossary(Entry):
    """The whole file."""

    metrics: Mapping[Key, Metric]
    knobs: Mapping[Key, Knob]

    def knob_of(self, field: str) -> str | None:
        """The knob that explains a setting of this name, if one does."""
        return next((key for key, knob in self.knobs.items() if field in knob.fields), None)


@lru_cache(maxsize=1)
def glossary() -> Glossary:
    """The file, read once. Raises pydantic's ValidationError for an entry that lacks a part or has one too many."""
    return Glossary.model_validate(yaml.safe_load(FILE.read_text(encoding="utf-8")))
