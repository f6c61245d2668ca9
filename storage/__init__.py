"""What Headway remembers: versions, drafters, datasets, decode runs with their traces, jobs, files by content hash.

Knows nothing of models, tensors or pages. Callers get frozen records (`records`, `job_records`), never rows of the
database.
"""

from storage.artifacts import ArtifactFolder
from storage.backup import backup_database
from storage.engine import sqlite_path
from storage.errors import NotFoundError, StaleAttemptError, StoreError, UnavailableError
from storage.garbage import Orphan, delete_orphan
from storage.job_records import (
    OPEN_JOB_STATUSES,
    DatasetKind,
    DatasetRecord,
    ItemRecord,
    JobEnd,
    JobRecord,
    JobRequest,
    JobStatus,
    MetricRecord,
)
from storage.owner import owner_is_alive, owner_token
from storage.patience import retrying
from storage.records import (
    ArtifactRecord,
    DrafterRecord,
    RaceLane,
    RaceRecord,
    RunFilter,
    RunGroup,
    RunRecord,
    RunResult,
    RunSort,
    RunSummary,
    StoreUsage,
    VersionIdentity,
    VersionRecord,
)
from storage.store import Store
from storage.upgrade import Upgrade, upgrade_database

__all__ = [
    "OPEN_JOB_STATUSES",
    "ArtifactFolder",
    "ArtifactRecord",
    "DatasetKind",
    "DatasetRecord",
    "DrafterRecord",
    "ItemRecord",
    "JobEnd",
    "JobRecord",
    "JobRequest",
    "JobStatus",
    "MetricRecord",
    "NotFoundError",
    "Orphan",
    "RaceLane",
    "RaceRecord",
    "RunFilter",
    "RunGroup",
    "RunRecord",
    "RunResult",
    "RunSort",
    "RunSummary",
    "StaleAttemptError",
    "Store",
    "StoreError",
    "StoreUsage",
    "UnavailableError",
    "Upgrade",
    "VersionIdentity",
    "VersionRecord",
    "backup_database",
    "delete_orphan",
    "owner_is_alive",
    "owner_token",
    "retrying",
    "sqlite_path",
    "upgrade_database",
]
