"""Families side by side, questions and failures, from one file: guide.yaml beside this module. Torch-free.

It holds words only. What was measured of a family is filled in by whoever shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

import yaml
from pydantic import Field, model_validator

from backend.glossary import Command, Entry, Key, Link, Said

FILE: Final = Path(__file__).with_name("guide.yaml")


class Family(Entry):
    """What a family reads, drafts, costs, trains on and changes, which engines serve it, and what measures it here."""

    name: Said
    reads: Said
    drafts: Said
    costs: Said
    trains_on: Said
    changes: Said
    vllm: Said
    sglang: Said
    docs: Said
    command: Command


class Question(Entry):
    """Asked often. It ends in a page's figure or in a command, one of the two."""

    asks: Said
    says: Said
    page: Link | None = None
    command: Command | None = None

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if (self.page is None) == (self.command is None):
            raise ValueError(f"“{self.asks}” has to end in a page or in a command, one of the two")
        return self


class Failure(Entry):
    """What goes wrong: how it shows, why it is, what mends it, and the page that shows it."""

    name: Said
    sign: Said
    cause: Said
    mend: Said
    page: Link


class Guide(Entry):
    """The whole file."""

    families: Mapping[Key, Family]
    questions: tuple[Question, ...] = Field(min_length=20)
    failures: tuple[Failure, ...] = Field(min_length=5)


@lru_cache(maxsize=1)
def guide() -> Guide:
    """The file, read once. Raises pydantic's ValidationError for an entry that lacks a part or has one too many."""
    return Guide.model_validate(yaml.safe_load(FILE.read_text(encoding="utf-8")))
