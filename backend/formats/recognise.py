"""What kind of drafter a folder holds, told by config keys and tensor names in a fixed order.

What can't be decoded here is recognised too, so that it is refused with the reason. Knows names, no numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor

from backend.errors import HeadwayError
from backend.formats.folder import Published

_JOINT: Final = "medusa_head."  #: in a whole checkpoint of Medusa-2
_MEDUSA_PREFIXES: Final = ("medusa_heads.", _JOINT)
_WRAPPERS: Final = ("module.", "draft_model.", "eagle_module.", "model.")
_MEDUSA: Final = re.compile(r"\d+\.\d+\.linear\.weight|blocks\.0\.layers\.0\.weight")
_MTP: Final = re.compile(r"mtp\.|model\.mtp_layers\.|mtp_layers\.|.*eh_proj")
REFUSED: Final[Mapping[str, str]] = {
    "peagle": "P-EAGLE: its layers draft a block at once; import of that layout is not built, so train one here",
    "dflash": "DFlash: it drafts a block by diffusion inside its own layers, which Headway does not run",
    "dflash2": "DFlash 2: it drafts a block by diffusion and picks paths with a selector, which Headway does not run",
    "dspark": "DSpark: its Markov and confidence heads need a decoder of their own, which Headway does not have",
    "xpress": "XPress, whose layout Headway does not know",
    "mtp": "the training form of MTP modules: stitch them into their target and import that checkpoint",
    "mlp": "an MLP or LSTM speculator: its heads hand a state of their own along, which Headway does not run",
}


@dataclass(frozen=True)
class Recognised:
    """family: medusa, hydra, eagle, eagle3 or mtp; layout: in words; tensors: without wrappers' prefixes."""

    family: str
    layout: str
    tensors: dict[str, Tensor]


def recognise(found: Published) -> Recognised:
    """Raises HeadwayError, with the reason, for what is no drafter or none that Headway can decode."""
    family, layout = _family(found.config, list(found.tensors))
    if family in ("medusa", "mtp"):
        return Recognised(family, layout, unwrapped_medusa(found.tensors) if family == "medusa" else found.tensors)
    return Recognised(family, layout, unwrapped(found.tensors))


def _family(config: Mapping[str, Any], names: list[str]) -> tuple[str, str]:
    bare = [_unwrap(name) for name in names]

    def any_of(*parts: str) -> bool:
        return any(name.startswith(parts) for name in bare)

    if "speculators_model_type" in config:
        kind = str(config["speculators_model_type"])
        _refuse(kind)
        if kind != "eagle3":
            raise HeadwayError(f"This is a drafter of the kind {kind[:40]!r}, which Headway does not know.")
        return "eagle3", "EAGLE-3 of the speculators library"
    if "hydra_num_heads" in config or any_of("hydra_mlp.", "hydra_lm_head."):
        return "hydra", "Hydra of the reference implementation"
    medusa = [_bare_medusa(name) for name in names]
    by_config = "medusa_num_heads" in config or config.get("model_type") == "medusa"
    if by_config or any(_MEDUSA.fullmatch(name) for name in medusa):
        return "medusa", _medusa_layout(config, medusa)
    if "dflash_config" in config or "DFlashDraftModel" in str(config.get("architectures")):
        _refuse("dflash")  # before EAGLE-3, because it has a hidden_norm too
    if any_of("markov_head."):
        _refuse("dspark")
    if any_of("mask_hidden"):
        _refuse("peagle")
    if any_of("d2t", "t2d", "midlayer.") or any(name.endswith("hidden_norm.weight") for name in bare):
        return "eagle3", _eagle3_producer(config, bare)
    if any(_MTP.match(name) for name in names):
        if any_of("mtp_layers.") and not any(name.startswith("model.mtp_layers.") for name in names):
            _refuse("mtp")
        return "mtp", "MTP modules inside a checkpoint"
    if "fc.weight" in bare and "norm.weight" not in bare:
        return "eagle", "EAGLE-1 or EAGLE-2"
    if any_of("speculator.", "emb.0", "head.0", "forget_emb"):
        _refuse("mlp")
    raise HeadwayError(
        "Nothing here has the names of a drafter that Headway knows (Medusa, Hydra, EAGLE, EAGLE-3, MTP)."
    )


def _refuse(kind: str) -> None:
    if kind in REFUSED:
        raise HeadwayError(f"This is {REFUSED[kind]}.")


def _medusa_layout(config: Mapping[str, Any], names: list[str]) -> str:
    if any(name.startswith("blocks.") for name in names):
        return "Medusa as vLLM reads it"
    outputs = any(re.fullmatch(r"\d+\.\d+\.weight", name) for name in names)
    return "Medusa of the reference implementation" + ("" if outputs else ", version 2")


def _eagle3_producer(config: Mapping[str, Any], names: list[str]) -> str:
    inner = config.get("eagle_config")
    if isinstance(inner, Mapping) and {"use_last_layernorm", "use_mtp_layernorm", "next_layer_regular"} & set(inner):
        return "EAGLE-3 of Model-Optimizer"
    if any(name.startswith("layers.0.") for name in names):
        return "EAGLE-3 with the names of Model-Optimizer or speculators"
    return "EAGLE-3 of SafeAILab or SpecForge"


def unwrapped(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Without prefixes that come from the module a head was trained in."""
    return {_unwrap(name): one for name, one in tensors.items()}


def unwrapped_medusa(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The heads' tensors alone: a checkpoint of joint training has the target's beside them."""
    joint = {name: one for name, one in tensors.items() if name.startswith(_JOINT)}
    return {_bare_medusa(name): one for name, one in (joint or tensors).items()}


def _bare_medusa(name: str) -> str:
    for prefix in _MEDUSA_PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _unwrap(name: str) -> str:
    for prefix in _WRAPPERS:
        name = name.removeprefix(prefix)
    return name
