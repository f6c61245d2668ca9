"""What Headway remembers: versions, drafters, decode runs and their traces, files by content hash.

Knows nothing of models, tensors or pages. Callers get frozen records (`records`), never rows of the database.
"""

from storage.artifacts import ArtifactFolder
from storage.errors import NotFoundError, StoreError, UnavailableError
from storage.owner import owner_is_alive, owner_token
from storage.records import (
    ArtifactRecord,
    DrafterRecord,
    RunFilter,
    RunRecord,
    RunResult,
    RunSummary,
    StoreUsage,
    VersionIdentity,
    VersionRecord,
)
from storage.store import Store

__all__ = [
    "ArtifactFolder",
    "ArtifactRecord",
    "DrafterRecord",
    "NotFoundError",
    "RunFilter",
    "RunRecord",
    "RunResult",
    "RunSummary",
    "Store",
    "StoreError",
    "StoreUsage",
    "UnavailableError",
    "VersionIdentity",
    "VersionRecord",
    "owner_is_alive",
    "owner_token",
]
