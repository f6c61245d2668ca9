"""Targets and drafters into the store's words: which version, which heads a run belongs to.

Knows both sides' records and nothing of decoding.
"""

from __future__ import annotations

from typing import Any

from backend.drafters.checkpoint import read_meta
from backend.drafters.registry import folder_of
from backend.targets.identity import VersionIdentity as TargetIdentity
from backend.targets.target import Target
from storage import Store, VersionIdentity


def register_version(store: Store, target: Target, parent_id: str | None = None) -> str:
    """The id of this target's version, recorded if it is new; `parent_id`: of the version it was made from."""
    return store.register_version(
        VersionIdentity.from_parts(target.identity.to_dict()),
        label=target.name,
        source=target.name,
        model_type=target.config.model_type,
        num_parameters=target.num_parameters,
        parent_id=parent_id,
    ).id


def recorded_version(store: Store | None, identity: Any) -> str | None:
    """The id of the version with this identity, as conditions and drafters name it; None when it is not recorded."""
    if store is None:
        return None
    try:
        wanted = VersionIdentity.from_parts(TargetIdentity.from_dict(identity).to_dict())
    except (ValueError, TypeError, AttributeError):
        return None
    found = (one.id for one in store.list_versions() if one.identity == wanted)
    return next(found, None)


def recorded_drafter(store: Store | None, weights_hash: str | None, version_id: str) -> str | None:
    """The id of the heads with these weights for this version; None when they are not recorded."""
    known = store.list_drafters(version_id) if store is not None and weights_hash else []
    return next((one.id for one in known if one.weights_hash == weights_hash), None)


def register_drafter(store: Store, spec: str, version_id: str) -> str | None:
    """The id of the trained heads that `spec` names, recorded if they are new; None for drafters without weights of
    their own.
    """
    folder = folder_of(spec)
    if folder is None:
        return None
    meta = read_meta(folder)
    return store.register_drafter(
        family=meta.family,
        name=meta.name,
        path=str(folder),
        weights_hash=meta.weights_sha256,
        version_id=version_id,
        config=meta.config,
        lineage=meta.lineage,
    ).id
