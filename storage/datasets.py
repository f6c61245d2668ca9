"""Queries about datasets, each a function of an open session.

Knows the table; reads no file of a dataset and does not know how its hash was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from storage.errors import NotFoundError
from storage.identifiers import identity_hash
from storage.job_records import DatasetRecord
from storage.tables import Dataset


def dataset_id(kind: str, content_hash: str) -> str:
    """The id of a dataset: the same on every machine."""
    return identity_hash(kind, content_hash)


def get(session: Session, id: str) -> DatasetRecord:
    """One dataset; NotFoundError if there is none."""
    row = session.execute(select(Dataset).where(Dataset.id == id)).scalar_one_or_none()
    if row is None:
        raise NotFoundError(f"There is no dataset {id} in this store; add its file on the Data page.")
    return _record(row)


def listed(session: Session, kind: str | None, version_id: str | None) -> list[DatasetRecord]:
    """The datasets, the newest first."""
    query = select(Dataset).order_by(Dataset.created_at.desc(), Dataset.id)
    if kind is not None:
        query = query.where(Dataset.kind == kind)
    if version_id is not None:
        query = query.where(Dataset.version_id == version_id)
    return [_record(row) for row in session.scalars(query)]


def annotate(session: Session, id: str, tags: Sequence[str] | None, **changes: str | None) -> None:
    """Replace what is given; None leaves it as it is."""
    values: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    if tags is not None:
        values["tags"] = list(tags)
    get(session, id)
    if values:
        session.execute(update(Dataset).where(Dataset.id == id).values(**values))


def delete(session: Session, id: str) -> None:
    """Forget a dataset; its file stays, and jobs that used it lose the link."""
    get(session, id)
    session.delete(session.get_one(Dataset, id))


def _record(row: Dataset) -> DatasetRecord:
    values = {name: getattr(row, name) for name in DatasetRecord.__dataclass_fields__}
    return DatasetRecord(**values | {"tags": tuple(row.tags)})
