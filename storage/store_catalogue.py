"""The part of the store about what numbers belong to: versions, drafters, datasets. See `store` for the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storage import catalogue, datasets
from storage.job_records import DatasetKind, DatasetRecord
from storage.records import DrafterRecord, VersionIdentity, VersionRecord
from storage.store_base import StoreBase, insert_unless_there
from storage.tables import Dataset, Drafter, Version


class CatalogueStore(StoreBase):
    """Versions, drafters, datasets."""

    def register_version(
        self,
        identity: VersionIdentity,
        *,
        label: str,
        source: str,
        model_type: str,
        num_parameters: int,
        notes: str = "",
        details: dict[str, Any] | None = None,
        parent_id: str | None = None,
    ) -> VersionRecord:
        """The version with this identity, made if there is none yet.

        parent_id: what it was made from; also noted of a version that is there and does not know.
        """
        id = catalogue.version_id(identity)
        with self._writing() as session:
            if session.get(Version, id) is None:
                row = Version(
                    id=id,
                    label=label,
                    source=source,
                    model_type=model_type,
                    num_parameters=num_parameters,
                    created_at=self._clock(),
                    notes=notes,
                    details=details or {},
                    tags=[],
                    **vars(identity),
                )
                insert_unless_there(session, row)
            known = catalogue.get_version(session, id)
            if parent_id is not None and known.parent_id is None:
                catalogue.annotate_version(session, id, parent_id=parent_id)
            return catalogue.get_version(session, id)

    def register_drafter(
        self,
        *,
        family: str,
        name: str,
        path: str,
        weights_hash: str,
        version_id: str,
        config: dict[str, Any] | None = None,
        lineage: dict[str, Any] | None = None,
    ) -> DrafterRecord:
        """The drafter with this weights hash for this version, made if there is none yet.

        weights_hash: for drafters without weights (n-gram lookup), the hash of their configuration.
        """
        id = catalogue.drafter_id(weights_hash, version_id)
        with self._writing() as session:
            catalogue.get_version(session, version_id)
            if session.get(Drafter, id) is None:
                row = Drafter(
                    id=id,
                    family=family,
                    name=name,
                    path=path,
                    weights_hash=weights_hash,
                    version_id=version_id,
                    created_at=self._clock(),
                    config=config or {},
                    lineage=lineage or {},
                )
                insert_unless_there(session, row)
            return catalogue.get_drafter(session, id)

    def get_version(self, version_id: str) -> VersionRecord:
        """One version by id."""
        with self._reading() as session:
            return catalogue.get_version(session, version_id)

    def list_versions(self) -> list[VersionRecord]:
        """All versions, the newest first."""
        with self._reading() as session:
            return catalogue.list_versions(session)

    def annotate_version(
        self, version_id: str, *, label: str | None = None, notes: str | None = None, source: str | None = None
    ) -> None:
        """Replace what is given. label: its name. source: where the same content lies now."""
        with self._writing() as session:
            catalogue.annotate_version(session, version_id, label=label, notes=notes, source=source)

    def label_version(self, version_id: str, tag: str, on: bool = True) -> None:
        """Put a label such as serving on a version; it stands on one at a time. on=False takes it away."""
        with self._writing() as session:
            catalogue.label_version(session, version_id, tag, on)

    def get_drafter(self, drafter_id: str) -> DrafterRecord:
        """One drafter by id."""
        with self._reading() as session:
            return catalogue.get_drafter(session, drafter_id)

    def list_drafters(self, version_id: str | None = None) -> list[DrafterRecord]:
        """All drafters, or those of one version, the newest first."""
        with self._reading() as session:
            return catalogue.list_drafters(session, version_id)

    def register_dataset(
        self,
        *,
        kind: DatasetKind,
        name: str,
        path: str,
        content_hash: str,
        num_rows: int,
        num_broken: int,
        details: dict[str, Any],
        licence: str = "",
        version_id: str | None = None,
        lineage: dict[str, Any] | None = None,
    ) -> DatasetRecord:
        """The dataset of this kind with this content, made if there is none yet.

        num_rows, num_broken: rows that can be used, and rows that cannot. version_id: whose answers they are.
        """
        id = datasets.dataset_id(kind, content_hash)
        with self._writing() as session:
            if version_id is not None:
                catalogue.get_version(session, version_id)
            if session.get(Dataset, id) is None:
                row = Dataset(
                    id=id,
                    kind=kind,
                    name=name,
                    path=path,
                    content_hash=content_hash,
                    num_rows=num_rows,
                    num_broken=num_broken,
                    version_id=version_id,
                    created_at=self._clock(),
                    licence=licence,
                    tags=[],
                    notes="",
                    details=details,
                    lineage=lineage or {},
                )
                insert_unless_there(session, row)
            return datasets.get(session, id)

    def get_dataset(self, dataset_id: str) -> DatasetRecord:
        """One dataset by id."""
        with self._reading() as session:
            return datasets.get(session, dataset_id)

    def list_datasets(self, kind: DatasetKind | None = None, version_id: str | None = None) -> list[DatasetRecord]:
        """All datasets, or those of one kind or version, the newest first."""
        with self._reading() as session:
            return datasets.listed(session, kind, version_id)

    def annotate_dataset(
        self,
        dataset_id: str,
        *,
        name: str | None = None,
        path: str | None = None,
        licence: str | None = None,
        tags: Sequence[str] | None = None,
        notes: str | None = None,
    ) -> None:
        """Replace what is given. path: where the same content lies now."""
        with self._writing() as session:
            datasets.annotate(session, dataset_id, tags, name=name, path=path, licence=licence, notes=notes)

    def delete_dataset(self, dataset_id: str) -> None:
        """Forget a dataset; its file stays, and jobs that used it lose the link."""
        with self._writing() as session:
            datasets.delete(session, dataset_id)
