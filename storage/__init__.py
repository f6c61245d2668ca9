"""What Headway remembers: versions, drafters, datasets, decode runs with their traces, jobs, files by content hash.

Knows nothing of models, tensors or pages. Callers get frozen records (`records`, `job_records`), never rows of the
database.
"""

from storage.artifacts import ArtifactFolder
from storage.errors import NotFoundError, StaleAttemptError, StoreError, UnavailableError
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
    "RunFilter",
    "RunRecord",
    "RunResult",
    "RunSummary",
    "StaleAttemptError",
    "Store",
    "StoreError",
    "StoreUsage",
    "UnavailableError",
    "VersionIdentity",
    "VersionRecord",
    "owner_is_alive",
    "owner_token",
    "retrying",
]
