"""From a drafter of Headway to the folder that an engine reads: which layout, which dtype, written whole.

What each family's folder holds is export_medusa.py's, export_layers.py's and export_hydra.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from backend.drafters.checkpoint import read_folder, write_folder
from backend.drafters.registry import version_for
from backend.errors import HeadwayError, MismatchError
from backend.formats.export_hydra import hydra_parts
from backend.formats.export_layers import eagle3_parts, eagle_parts
from backend.formats.export_medusa import medusa_parts
from backend.formats.export_mtp import mtp_parts
from backend.formats.facts import TargetFacts
from backend.formats.folder import Files, write_files
from backend.formats.own import Own, read_own
from backend.formats.parts import ExportOptions, Parts
from backend.formats.readme import draft_depth, readme_of, serving_command, tuning_of
from backend.targets.identity import VersionIdentity, check_match
from backend.targets.loading import LoadedModel
from backend.targets.sources import split_target

ENGINES: Final = ("vllm", "sglang", "hydra", "own")
DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_Exporter = Callable[[Own, ExportOptions, TargetFacts], Parts]
_PARTS: Final[Mapping[str, _Exporter]] = {
    "medusa": medusa_parts,
    "eagle": eagle_parts,
    "eagle3": eagle3_parts,
    "hydra": hydra_parts,
}


@dataclass(frozen=True)
class Exported:
    """What was written."""

    out: Path
    engine: str
    family: str
    tokens: int
    tensors: int
    num_bytes: int
    notes: tuple[str, ...]
    command: str | None = None  #: that serves it, run in the folder above; None where no engine runs it

    def to_dict(self) -> dict[str, Any]:
        """What `export --json` prints."""
        return {
            "out": str(self.out),
            "engine": self.engine,
            "family": self.family,
            "num_speculative_tokens": self.tokens,
            "tensors": self.tensors,
            "bytes": self.num_bytes,
            "notes": list(self.notes),
            "command": self.command,
        }


def export_drafter(
    folder: Path,
    out: Path,
    options: ExportOptions,
    facts: TargetFacts | None,
    dtype: str = "stored",
    tuned: Path | None = None,
    force: bool = False,
    loaded: LoadedModel | None = None,
) -> Exported:
    """Write the drafter in `folder` for an engine to `out`, whole or not at all.

    dtype: float32, bfloat16, float16, or stored (as the drafter is). facts: of the target; only the engine "own" needs
    none. tuned: what `tune-tree --json` printed. force: export for a target of another version. loaded: the
    whole target, which MTP modules need, since they go inside it. Raises HeadwayError where the engine can't run the
    drafter, MismatchError for another target.
    """
    if options.engine == "own":
        return _copy_own(folder, out, dtype)
    own = read_own(folder)
    if facts is None:
        raise HeadwayError("Name the target that the drafter is for with --target.")
    notes = [*check_fits(own, facts, force), *_configuration(facts)]
    tuning = tuning_of(own, tuned)
    depth = draft_depth(own, tuning, options)
    inside = own.family == "mtp"
    parts = _inside_target(own, options, depth, loaded) if inside else parts_of(own, options, facts)
    tensors = {name: _cast(one, DTYPES.get(dtype, own.stored)) for name, one in parts.tensors.items()}
    parts = replace(parts, tensors=tensors, notes=[*notes, *parts.notes])
    config = parts.config | _dtype_key(tensors, options)
    note = {
        "format": 1, "engine": options.engine, "family": own.family, "name": own.meta.name,
        "version": own.meta.version, "reads": list(parts.reads), "num_speculative_tokens": depth,
        "tree": tuning.shape.to_json(),
    }  # fmt: skip
    readme = readme_of(own, parts, options, facts, tuning, out)
    beside = loaded.tokenizer.save_pretrained if inside and loaded is not None else None
    write_files(out, Files(config, tensors, readme, note, parts.pickle, beside))
    size = sum(one.numel() * one.element_size() for one in tensors.values())
    command = serving_command(own, options, facts, tuning, out)
    return Exported(out, options.engine, own.family, depth, len(tensors), size, tuple(parts.notes), command)


def _configuration(facts: TargetFacts) -> list[str]:
    """What an engine has to be told besides the model: only drafts are exported, never the target's configuration."""
    base, behind = split_target(facts.name)
    if not behind:
        return []
    return [
        f"The drafter is made for {base} with {behind} behind it, and only the drafter is written. Serve just that "
        "configuration: without the adapter, or quantised otherwise, fewer drafted tokens are accepted."
    ]


def parts_of(own: Own, options: ExportOptions, facts: TargetFacts) -> Parts:
    """The folder's content in float32. Raises HeadwayError."""
    if options.speculators and (options.engine, own.family) != ("vllm", "eagle3"):
        raise HeadwayError("The speculators format is written for EAGLE-3 heads and vllm only; leave it out.")
    return _PARTS[own.family](own, options, facts)


def _inside_target(own: Own, options: ExportOptions, depth: int, loaded: LoadedModel | None) -> Parts:
    if loaded is None:
        raise HeadwayError("MTP modules are written inside their target, so the whole target is needed.")
    return mtp_parts(own, options, depth, loaded.model.config, loaded.model.state_dict())


def check_fits(own: Own, facts: TargetFacts, force: bool) -> list[str]:
    """Warnings. Raises MismatchError for a target of another size, and of another version unless forced."""
    layer = getattr(own.config, "layer", None)
    width = getattr(own.config, "target_hidden_size", None) or getattr(layer or own.config, "hidden_size", 0)
    if (width, own.config.vocab_size) != (facts.hidden_size, facts.vocab_size):
        raise MismatchError(
            f"{own.meta.name} is made for hidden size {width} and {own.config.vocab_size} tokens, {facts.name} has "
            f"{facts.hidden_size} and {facts.vocab_size}; name the target it was trained for."
        )
    try:
        asked = VersionIdentity.from_dict(facts.version)
        fitting = version_for(own.meta, asked)
    except ValueError:
        raise HeadwayError(f"{own.meta.name} does not say which target it was trained for; train it again.") from None
    warning = check_match(fitting, asked, force)
    return [] if warning is None else [warning]


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _dtype_key(tensors: Mapping[str, Tensor], options: ExportOptions) -> dict[str, str]:
    floats = (one.dtype for one in tensors.values() if one.is_floating_point())
    name = str(next(floats, torch.float32)).removeprefix("torch.")
    return {"dtype": name, "torch_dtype": name} if options.engine != "hydra" else {"torch_dtype": name}


def _copy_own(folder: Path, out: Path, dtype: str) -> Exported:
    meta, tensors = read_folder(folder)
    if dtype in DTYPES:
        tensors = {name: _cast(one, DTYPES[dtype]) for name, one in tensors.items()}
    overflowed = [n for n, one in tensors.items() if one.is_floating_point() and not bool(torch.isfinite(one).all())]
    if overflowed:
        raise HeadwayError(f"The tensor {overflowed[0]} holds numbers that {dtype} can't; export float32 instead.")
    if out.absolute() == folder.absolute():
        raise HeadwayError(f"{out} is the drafter itself; choose another place.")
    write_folder(out, meta, tensors)
    size = sum(one.numel() * one.element_size() for one in tensors.values())
    depth = max((len(path) for path in meta.tree), default=0)
    return Exported(out, "own", meta.family, depth, len(tensors), size, ())
