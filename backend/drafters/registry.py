"""Which drafters there are and how the word a person typed becomes one. A new family is a folder and one entry here.

Knows how to read each family's folder and which version it was trained for; does not decode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from backend.drafters.adaptive import AdaptiveDrafter
from backend.drafters.base import Drafter
from backend.drafters.checkpoint import META, DrafterMeta, read_meta
from backend.drafters.draft_model.drafter import OpenTarget, load_draft_model
from backend.drafters.eagle.checkpoint import load_head as load_eagle_head
from backend.drafters.eagle3.checkpoint import load_head as load_eagle3_head
from backend.drafters.hydra.checkpoint import load_heads as load_hydra_heads
from backend.drafters.hydra.drafter import HydraDrafter
from backend.drafters.layer.drafting import PairDrafter
from backend.drafters.layer.pair_model import PairModel
from backend.drafters.medusa.checkpoint import load_heads
from backend.drafters.medusa.drafter import MedusaDrafter
from backend.drafters.medusa.model import HeadsForDrafting
from backend.drafters.mtp.checkpoint import load_modules
from backend.drafters.mtp.drafter import drafter_of as mtp_drafter
from backend.drafters.ngram.config import NgramConfig
from backend.drafters.ngram.drafter import NgramDrafter
from backend.drafters.peagle.checkpoint import load_head as load_peagle_head
from backend.drafters.peagle.drafter import PeagleDrafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.errors import HeadwayError, MismatchError
from backend.targets.identity import VersionIdentity, check_match, nearest
from backend.targets.target import Target
from backend.trees import AdaptiveShape, DynamicShape, Tree, TreeShape, chain
from backend.trees.dynamic import dynamic_from

BUILTIN: Final = Path(__file__).parent / "builtin"  #: heads that come with Headway, a folder for each family
BUILTIN_PREFIX: Final = "builtin-"
BUILTIN_TARGET: Final = "smollm2-135m"  #: whose heads these are
DRAFT_PREFIX: Final = "draft:"
USUAL_DEPTH: Final = 4  #: of the chain that is drafted where a folder names no tree


def _load_medusa(folder: Path, target: Target) -> Drafter:
    meta, heads = load_heads(folder)
    _check_sizes(meta, heads.config.hidden_size, heads.config.vocab_size, target)
    ready = HeadsForDrafting(heads.to(target.device, target.dtype), target.packed_from)
    return with_tree(MedusaDrafter(meta.name, ready, chain(heads.config.num_heads)), stored_tree(meta))


def _load_hydra(folder: Path, target: Target) -> Drafter:
    meta, heads = load_hydra_heads(folder)
    _check_sizes(meta, heads.config.hidden_size, heads.config.vocab_size, target)
    heads.hold_embedding(target.embedding_weight())
    ready = heads.to(target.device, target.dtype).for_drafting(target.packed_from)
    return with_tree(HydraDrafter(meta.name, ready, chain(heads.config.num_heads)), stored_tree(meta))


def _load_eagle(folder: Path, target: Target) -> Drafter:
    meta, head = load_eagle_head(folder)
    _check_sizes(meta, head.config.layer.hidden_size, head.config.vocab_size, target)
    head.hold_target(target)
    return _pair_drafter(meta, head, target)


def _load_eagle3(folder: Path, target: Target) -> Drafter:
    meta, head = load_eagle3_head(folder)
    _check_sizes(meta, head.config.target_hidden_size, head.config.vocab_size, target)
    _check_reads(meta, head.config.reads, target)
    head.hold_embedding(target.embedding_weight())
    return _pair_drafter(meta, head, target)


def _load_mtp(folder: Path, target: Target) -> Drafter:
    meta, model = load_modules(folder)
    config = model.config
    _check_sizes(meta, config.layer.hidden_size, config.vocab_size, target)
    model.hold_target(target)
    ready = model.to(target.device, target.dtype).for_drafting(target.packed_from)
    depth = USUAL_DEPTH if config.form == "shared" else config.num_modules
    return with_tree(mtp_drafter(meta.name, ready, chain(depth)), stored_tree(meta))


def _load_peagle(folder: Path, target: Target) -> Drafter:
    meta, head = load_peagle_head(folder)
    _check_sizes(meta, head.config.target_hidden_size, head.config.vocab_size, target)
    _check_reads(meta, head.config.reads, target)
    head.hold_embedding(target.embedding_weight())
    ready = head.to(target.device, target.dtype).for_drafting(target.packed_from)
    return with_tree(PeagleDrafter(meta.name, ready, chain(head.config.num_positions)), stored_tree(meta))


def _pair_drafter(meta: DrafterMeta, model: PairModel, target: Target) -> Drafter:
    ready = model.to(target.device, target.dtype).for_drafting(target.packed_from)
    return with_tree(PairDrafter(meta.family, meta.name, ready, chain(USUAL_DEPTH)), stored_tree(meta))


def stored_tree(meta: DrafterMeta) -> Tree | None:
    """The tree a drafter's folder names as its own; None when it names none. Raises HeadwayError when it is damaged."""
    if meta.dynamic is not None:
        return dynamic_from({"dynamic": meta.dynamic})
    return TreeShape(tuple(tuple(path) for path in meta.tree)) if meta.tree else None


def with_tree(drafter: Drafter, tree: Tree | None) -> Drafter:
    """The same drafter with another tree; None leaves it its own.

    Raises HeadwayError for a tree that this drafter can't fill or grow.
    """
    if tree is None:
        return drafter
    if isinstance(drafter, AdaptiveDrafter):
        drafter = drafter.inner
    if isinstance(tree, AdaptiveShape):
        return AdaptiveDrafter(drafter, tree)
    if isinstance(tree, TreeShape):
        return drafter.with_shape(tree)
    grow = getattr(drafter, "with_dynamic", None)
    if grow is None:
        raise HeadwayError(
            f"{drafter.name} can't grow a dynamic tree; choose a static one such as chain-4, or another drafter."
        )
    grown: Drafter = grow(tree)
    return grown


def tree_of(drafter: Drafter) -> Tree:
    """The tree that this drafter fills or grows."""
    if isinstance(drafter, AdaptiveDrafter):
        return drafter.adaptive
    dynamic: DynamicShape | None = getattr(drafter, "dynamic", None)
    return drafter.shape if dynamic is None else dynamic


def _check_reads(meta: DrafterMeta, reads: Sequence[int], target: Target) -> None:
    if max(reads) > target.num_layers:
        raise MismatchError(
            f"{meta.name} reads layer {max(reads)}, and {target.name} has layers 0 to {target.num_layers}; choose a "
            "drafter trained for this target."
        )


def _check_sizes(meta: DrafterMeta, hidden_size: int, vocab_size: int, target: Target) -> None:
    if (hidden_size, vocab_size) != (target.hidden_size, target.vocab_size):
        raise MismatchError(
            f"{meta.name} is made for hidden size {hidden_size} and {vocab_size} tokens, "
            f"{target.name} has {target.hidden_size} and {target.vocab_size}; choose heads trained for this target."
        )


#: family -> how its folder is read
FAMILIES: Final[Mapping[str, Callable[[Path, Target], Drafter]]] = {
    "medusa": _load_medusa,
    "hydra": _load_hydra,
    "eagle": _load_eagle,
    "eagle3": _load_eagle3,
    "mtp": _load_mtp,
    "peagle": _load_peagle,
}


def load_drafter(
    spec: str,
    target: Target,
    tree: Tree | None = None,
    force: bool = False,
    sampled: bool = False,
    open_target: OpenTarget | None = None,
) -> tuple[Drafter, list[str]]:
    """The drafter that `spec` names, ready for `target`.

    Args:
        spec: none, ngram, builtin-FAMILY, draft:FOLDER_OR_NAME, or a folder of trained heads.
        tree: the tree to fill or grow; None takes the drafter's own.
        force: use heads of another version all the same (a warning names what differs).
        sampled: draw siblings at random at a temperature above 0.
        open_target: how a draft model is loaded; needed for draft:... only.

    Returns (drafter, warnings). Raises HeadwayError, MismatchError for heads of another version.
    """
    spec = spec.strip()
    drafter, warnings = _find(spec, target, force, open_target)
    return with_tree(drafter, tree).with_sampled(sampled), warnings


def _find(spec: str, target: Target, force: bool, open_target: OpenTarget | None) -> tuple[Drafter, list[str]]:
    if spec == "none":
        return PlainDrafter(), []
    if spec == "ngram":
        return NgramDrafter(NgramConfig()), []
    if spec.startswith(DRAFT_PREFIX):
        if open_target is None:
            raise ValueError("open_target is needed to load a draft model")
        return load_draft_model(spec.removeprefix(DRAFT_PREFIX), target, open_target, force)
    if spec in (offered := builtin_specs()):
        return _from_folder(_builtin_folder(spec), target, force)
    if spec.removeprefix(BUILTIN_PREFIX) in FAMILIES and spec.startswith(BUILTIN_PREFIX):
        there = f"built in are {', '.join(offered)}" if offered else "no built-in heads are there"
        raise HeadwayError(f"This installation has no {spec}: {there}; fetch the repository again or train heads.")
    if not spec or not Path(spec).is_dir():
        raise HeadwayError(
            f"Unknown drafter {spec!r}: use {', '.join(['none', 'ngram', *offered])}, draft:MODEL, or the folder of "
            "trained heads."
        )
    return _from_folder(Path(spec), target, force)


def _from_folder(folder: Path, target: Target, force: bool) -> tuple[Drafter, list[str]]:
    meta = read_meta(folder)
    if meta.family not in FAMILIES:
        raise HeadwayError(
            f"{folder} holds a drafter of the family {meta.family!r}; known are {', '.join(sorted(FAMILIES))}."
        )
    warnings = check_version(meta, target, force)
    return FAMILIES[meta.family](folder, target), warnings


def check_version(meta: DrafterMeta, target: Target, force: bool) -> list[str]:
    """Refuse heads of another version of the target; with `force` the refusal becomes a warning."""
    try:
        fitting = version_for(meta, target.identity)
    except ValueError:
        raise HeadwayError(
            f"{meta.name} does not say which target it was trained for; train or copy it again."
        ) from None
    warning = check_match(fitting, target.identity, force)
    return [] if warning is None else [warning]


def version_for(meta: DrafterMeta, wanted: VersionIdentity) -> VersionIdentity:
    """The version this drafter was trained for; of several, the nearest to `wanted`. Raises ValueError when it does not
    say.
    """
    return nearest([VersionIdentity.from_dict(one) for one in (meta.version, *meta.also)], wanted)


def folder_of(spec: str) -> Path | None:
    """The folder of trained heads that `spec` names; None for drafters without one of their own."""
    spec = spec.strip()
    if spec in ("none", "ngram") or spec.startswith(DRAFT_PREFIX):
        return None
    return _builtin_folder(spec) if spec in builtin_specs() else Path(spec)


def builtin_specs() -> list[str]:
    """The built-in drafters that are there, Medusa's first: builtin-FAMILY."""
    families = sorted(FAMILIES, key=lambda one: (one != "medusa", one))
    return [spec for spec in (BUILTIN_PREFIX + one for one in families) if (_builtin_folder(spec) / META).is_file()]


def _builtin_folder(spec: str) -> Path:
    return BUILTIN / f"{spec.removeprefix(BUILTIN_PREFIX)}-{BUILTIN_TARGET}"
