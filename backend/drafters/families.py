"""Which families can be trained: their settings as one choice, told apart by `family`, and their presets. Torch-free.

A new family is a folder and a line in each of the two tables here. Knows no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, Field

from backend.drafters.eagle import config as eagle
from backend.drafters.eagle3 import config as eagle3
from backend.drafters.family import Preset
from backend.drafters.hydra import config as hydra
from backend.drafters.medusa import config as medusa
from backend.drafters.mtp import config as mtp
from backend.drafters.peagle import config as peagle

AnySettings = Annotated[
    medusa.MedusaSettings
    | hydra.HydraSettings
    | eagle.EagleSettings
    | eagle3.Eagle3Settings
    | mtp.MtpSettings
    | peagle.PeagleSettings,
    Field(discriminator="family"),
]
PRESETS: Final[Mapping[str, Mapping[str, Preset]]] = {
    "medusa": medusa.PRESETS,
    "hydra": hydra.PRESETS,
    "eagle": eagle.PRESETS,
    "eagle3": eagle3.PRESETS,
    "mtp": mtp.PRESETS,
    "peagle": peagle.PRESETS,
}
FAMILIES: Final = tuple(PRESETS)
DEFAULT_FAMILY: Final = "medusa"
PresetName = Literal["paper", "small", "blockwise"]


def filled(data: Mapping[str, Any]) -> dict[str, Any]:
    """A training job's config as a person gave it, with its family named and its preset taken up.

    What was given wins over the preset; the preset's name is gone afterwards, so that the config means the same in
    later versions. Anything that is not as it should be is left for the model to refuse. Raises ValueError for a preset
    that the family does not have.
    """
    data = dict(data)
    drafter = data.get("drafter", {})
    if isinstance(drafter, BaseModel):
        drafter = drafter.model_dump(include=drafter.model_fields_set | {"family"})
    if isinstance(drafter, Mapping):
        data["drafter"] = drafter = {"family": DEFAULT_FAMILY, **drafter}
    name, family = data.get("preset"), drafter.get("family") if isinstance(drafter, Mapping) else None
    if name not in get_args(PresetName) or family not in FAMILIES:
        return data
    presets = PRESETS[str(family)]
    if str(name) not in presets:
        raise ValueError(f"{family} has no preset {name!r}; it has {', '.join(presets)}")
    return _over(presets[str(name)], data) | {"preset": None}


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`, mapping by mapping."""
    result = dict(below)
    for key, value in above.items():
        given = value.model_dump(include=value.model_fields_set) if isinstance(value, BaseModel) else value
        old = result.get(key)
        result[key] = _over(old, given) if isinstance(old, Mapping) and isinstance(given, Mapping) else given
    return result
