"""From a published drafter to a drafter folder of Headway: fetched, recognised, read by its family's importer, written.

What the layouts are is recognise.py's and the importers'.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from backend.drafters.checkpoint import META, DrafterMeta, check_tensors, write_model
from backend.drafters.mtp.published import read_published as read_mtp
from backend.errors import HeadwayError
from backend.formats.facts import facts_of
from backend.formats.folder import Published, read_published
from backend.formats.hub import fetch, is_hub_id
from backend.formats.import_eagle import import_eagle
from backend.formats.import_eagle3 import import_eagle3
from backend.formats.import_hydra import import_hydra
from backend.formats.import_medusa import import_medusa
from backend.formats.imported import Imported, usual_dtype
from backend.formats.layer_ids import Convention
from backend.formats.own import MODELS
from backend.formats.recognise import Recognised, recognise
from backend.targets.target import Target


@dataclass(frozen=True)
class Import:
    """What was written."""

    out: Path
    family: str
    layout: str
    config: dict[str, Any]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """What `import --json` prints."""
        return {
            "out": str(self.out),
            "family": self.family,
            "layout": self.layout,
            "config": self.config,
            "notes": list(self.notes),
        }


def import_drafter(
    source: str, target: Target, out: Path, convention: Convention = "auto", name: str | None = None
) -> Import:
    """Read a folder, a weight file or a hub id and write a drafter folder for `target`, whole or not at all.

    convention: how an EAGLE-3 head's layer numbers are meant (layer_ids.py). Raises HeadwayError for what can't be
    read, is not a drafter that Headway can run, or belongs to another target.
    """
    path = fetch(source) if is_hub_id(source) else Path(source).expanduser()
    if (path / META).is_file():
        raise HeadwayError(f"{path} is already a drafter of Headway; use it as it is.")
    found = read_published(path)
    kind = recognise(found)
    try:
        made, dtype = _imported(kind, found, target, convention)
    except (TypeError, ValueError, AttributeError, IndexError, KeyError) as error:  # pydantic's are ValueErrors
        raise HeadwayError(
            f"The config.json or a tensor in {found.path} is not what {kind.layout} has, so it can't be built; "
            "fetch it again."
        ) from error
    model = _model(out, made)
    meta = DrafterMeta(
        family=made.family,
        name=name or f"{Path(source).name} ({kind.family})",
        config={},
        version=target.identity.to_dict(),
        lineage={"imported_from": source, "layout": kind.layout, "target": target.name, "notes": made.notes},
    )
    write_model(out, made.family, made.config, model, meta, dtype)
    return Import(out, made.family, kind.layout, made.config.model_dump(mode="json"), tuple(made.notes))


def _imported(
    kind: Recognised, found: Published, target: Target, convention: Convention
) -> tuple[Imported, torch.dtype]:
    if kind.family == "mtp":
        with _as_safetensors(found) as folder:
            layout, modules = read_mtp(folder, target)
        state = {name: one.cpu() for name, one in modules.state_dict().items()}
        notes = [f"The modules are those of {layout}'s layout; embedding and output head are the target's."]
        return Imported("mtp", modules.config, state, notes), usual_dtype(kind.tensors)
    facts = facts_of(target)
    if kind.family == "eagle3":
        made = import_eagle3(kind.tensors, found.config, facts, found.note, convention)
    elif kind.family == "eagle":
        made = import_eagle(kind.tensors, found.config, facts)
    elif kind.family == "hydra":
        made = import_hydra(kind.tensors, found.config, facts)
    else:
        made = import_medusa(kind.tensors, found.config, facts)
    return made, usual_dtype(kind.tensors)


def _model(out: Path, made: Imported) -> nn.Module:
    _, build = MODELS[made.family]
    model = build(made.config)
    check_tensors(out, made.state, {name: one.shape for name, one in model.state_dict().items()})
    model.load_state_dict(made.state)
    return model


@contextmanager
def _as_safetensors(found: Published) -> Iterator[Path]:
    """The folder itself, or for pickles a temporary one, since MTP modules are read by their headers."""
    from safetensors.torch import save_file

    if any(found.path.glob("*.safetensors")):
        yield found.path
        return
    folder = Path(tempfile.mkdtemp(prefix="headway-mtp-"))
    try:
        save_file({name: one.contiguous().clone() for name, one in found.tensors.items()}, folder / "model.safetensors")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
