"""Queries about versions and drafters, each a function of an open session.

Knows the tables; knows nothing of how the hashes it is given were made.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from storage.errors import NotFoundError
from storage.identifiers import identity_hash
from storage.records import DrafterRecord, VersionIdentity, VersionRecord
from storage.tables import Drafter, Version


def version_id(identity: VersionIdentity) -> str:
    """The id of a version: the same on every machine."""
    return identity_hash(
        identity.weights_id, identity.adapter_id, identity.quantisation, identity.tokenizer_id, identity.template_id
    )


def drafter_id(weights_hash: str, version: str) -> str:
    """The id of a drafter: the same on every machine."""
    return identity_hash(weights_hash, version)


def get_version(session: Session, id: str) -> VersionRecord:
    """One version; NotFoundError if there is none."""
    row = session.get(Version, id)
    if row is None:
        raise NotFoundError(f"There is no version {id} in this store; load the target once to register it.")
    return _version(row)


def annotate_version(session: Session, id: str, **changes: str | None) -> None:
    """Replace what is given; None leaves it as it is. ValueError for a version that would be its own ancestor."""
    get_version(session, id)
    above = changes.get("parent_id")
    while above is not None:
        if above == id:
            raise ValueError(f"the version {id} can't be made from itself")
        above = get_version(session, above).parent_id
    row = session.get_one(Version, id)  # through the row, so that who has read it before sees the change
    for name, value in changes.items():
        if value is not None:
            setattr(row, name, value)


def label_version(session: Session, id: str, tag: str, on: bool) -> None:
    """Put a label on a version, which takes it from any other; or take it away."""
    get_version(session, id)
    for row in session.scalars(select(Version)):
        kept = [one for one in row.tags if one != tag]
        wanted = [*kept, tag] if on and row.id == id else kept
        if wanted != row.tags and (on or row.id == id):
            row.tags = wanted


def get_drafter(session: Session, id: str) -> DrafterRecord:
    """One drafter; NotFoundError if there is none."""
    row = session.get(Drafter, id)
    if row is None:
        raise NotFoundError(f"There is no drafter {id} in this store; load the drafter once to register it.")
    return _drafter(row)


def list_versions(session: Session) -> list[VersionRecord]:
    """All versions, the newest first."""
    return [_version(row) for row in session.scalars(select(Version).order_by(Version.created_at.desc(), Version.id))]


def list_drafters(session: Session, version: str | None) -> list[DrafterRecord]:
    """All drafters, or those of one version, the newest first."""
    query = select(Drafter).order_by(Drafter.created_at.desc(), Drafter.id)
    if version is not None:
        query = query.where(Drafter.version_id == version)
    return [_drafter(row) for row in session.scalars(query)]


def _version(row: Version) -> VersionRecord:
    identity = VersionIdentity(**_columns(row, VersionIdentity))
    return VersionRecord(identity=identity, **_columns(row, VersionRecord) | {"tags": tuple(row.tags)})


def _drafter(row: Drafter) -> DrafterRecord:
    return DrafterRecord(**_columns(row, DrafterRecord))


def _columns(row: Version | Drafter, record: type[Any]) -> dict[str, Any]:
    names = {column.key for column in row.__table__.columns}
    return {name: getattr(row, name) for name in record.__dataclass_fields__ if name in names}
