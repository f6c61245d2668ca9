"""What a comparison of adapters is told. Torch-free; knows nothing of how the work is done."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from backend.analysis.adapter_traffic import traffic_shares
from backend.drafters.families import PresetName
from backend.errors import HeadwayError
from backend.jobs.configs import Name, TargetConfig, Text
from backend.jobs.release_config import FamilyName, Temperature
from backend.targets.sources import with_lora

FEWEST: Final = 2  #: adapters; one alone is what a release is for
_NAME: Final = re.compile(r"[\w-][\w.-]{0,39}")
Tokens = Annotated[int, Field(ge=2, le=8192)]


class AdaptersJobConfig(TargetConfig):
    """One target with several LoRA adapters: which of them earns draft heads of its own?"""

    adapter: tuple[Text, ...] = Field(description="NAME=ADAPTER: a LoRA adapter of the target, a folder or a hub id")
    prompts: tuple[Text, ...] = Field(
        description="NAME=FILE: prompts as that adapter is asked, JSONL with turns, ShareGPT or Alpaca"
    )
    traffic: tuple[Text, ...] = Field(
        (), description="NAME=SHARE: how much of all tokens is written for an adapter; default: as much for each"
    )
    shared: Text | None = Field(
        None, description="drafter that all can share; default: one trained on the target's own answers without adapter"
    )
    min_gain: float = Field(
        0.05, ge=0, le=10, description="own heads are worth it from this gain in speed on: 0.05 is 5 % over the shared"
    )
    family: FamilyName = Field("eagle3", description="kind of drafter to train")
    preset: PresetName = Field("small", description="its settings: paper or small")
    epochs: float | None = Field(None, gt=0, le=1000, description="passes over the answers; default: the preset's")
    draft_vocab: int | None = Field(
        None, ge=0, le=1 << 20, description="tokens that can be drafted, 0: all; default: the preset's"
    )
    batch_tokens: int | None = Field(None, ge=1, description="tokens of a training step; default: the preset's")
    answer_temperatures: tuple[Temperature, ...] = Field(
        (0.0, 1.0), min_length=1, description="every prompt to learn from is answered once at each of these"
    )
    max_new_tokens: Tokens = Field(160, description="longest answer, in tokens")
    batch: int = Field(32, ge=1, le=512, description="answers decoded at the same time")
    temperature: Temperature = Field(0.0, description="temperature at which it is served: everything is measured there")
    held_out: float = Field(0.2, gt=0, lt=1, description="part of the prompts that is measured on, never trained on")
    measured: int = Field(40, ge=1, description="most held-out prompts of an adapter that are measured on")
    seed: int = Field(0, ge=0, lt=1 << 31, description="same seed, same drafters")
    out: Text = Field(description="folder that is made: drafters and report")
    name: Name | None = Field(None, description="name of the comparison; default: the folder's")

    @model_validator(mode="after")
    def _check(self) -> Self:
        adapters = self.adapters
        if len(adapters) < FEWEST:
            raise HeadwayError(
                f"Two or more adapters are compared, and {len(adapters) or 'none'} was given: each is written "
                "--adapter NAME=ADAPTER; one alone gets its drafter by `release`."
            )
        places = list(adapters.values())
        twice = next((place for place in places if places.count(place) > 1), None)
        if twice is not None:
            raise HeadwayError(f"The adapter {twice} stands there under two names; name it once.")
        files = self.files
        unknown = next((name for name in files if name not in adapters), None)
        if unknown is not None:
            raise HeadwayError(f"The prompts name {unknown}, which is none of the adapters ({', '.join(adapters)}).")
        without = next((name for name in adapters if name not in files), None)
        if without is not None:
            raise HeadwayError(f"The adapter {without} has no prompts; give some as --prompts {without}=FILE.")
        _ = self.shares
        for place in places:
            with_lora(self.target, place)
        return self

    @property
    def adapters(self) -> dict[str, str]:
        """Adapter by name. Raises HeadwayError for what is not NAME=ADAPTER, and for a name that stands there twice."""
        found: dict[str, str] = {}
        for name, place in _pairs(self.adapter, "An adapter", "NAME=ADAPTER"):
            if _NAME.fullmatch(name) is None:
                raise HeadwayError(
                    f"The name {name!r} can't be an adapter's: use up to 40 letters, digits, dots and dashes."
                )
            if name in found:
                raise HeadwayError(f"Two adapters are called {name}; give each a name of its own.")
            found[name] = place
        return found

    @property
    def files(self) -> dict[str, list[str]]:
        """Prompt files by adapter, one or several each. Raises HeadwayError for what is not NAME=FILE."""
        found: dict[str, list[str]] = {}
        for name, place in _pairs(self.prompts, "Prompts", "NAME=FILE"):
            found.setdefault(name, []).append(place)
        return found

    @property
    def shares(self) -> Mapping[str, float]:
        """See traffic_shares. Raises HeadwayError for what is not NAME=SHARE, and as that does."""
        asked: dict[str, float] = {}
        for name, share in _pairs(self.traffic, "Traffic", "NAME=SHARE"):
            if name in asked:
                raise HeadwayError(f"The traffic of {name} stands there twice; give it once.")
            try:
                asked[name] = float(share)
            except ValueError:
                raise HeadwayError(f"The traffic of {name} has to be a number, not {share!r}.") from None
        return traffic_shares(asked, list(self.adapters))

    def version_of(self, name: str) -> str:
        """The target with the adapter of this name."""
        return with_lora(self.target, self.adapters[name])


def _pairs(given: Sequence[str], what: str, form: str) -> list[tuple[str, str]]:
    found = []
    for pair in given:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals and value):
            raise HeadwayError(f"{what} is given as {form}, not {pair!r}.".replace("Prompts is", "Prompts are"))
        found.append((name, value))
    return found
