"""Jobs with what they report, datasets, and a waste basket for runs.

Spells its column types out instead of importing them: a released revision never changes.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_OPEN_JOB = sa.text("status IN ('queued', 'running', 'paused', 'interrupted')")
_LINKS = {"version_id": "versions", "drafter_id": "drafters", "dataset_id": "datasets"}


def upgrade() -> None:
    _add_trashed_at()
    op.create_index("ix_decode_runs_trashed_at_id", "decode_runs", ["trashed_at", "id"], unique=False)
    _create_datasets()
    _create_jobs()
    _create_job_rows("job_metrics", sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False), "figures")
    _create_job_rows("job_items", sa.Column("key", sa.Text(), nullable=False), "data")


def downgrade() -> None:
    for table in ("job_items", "job_metrics"):
        op.drop_index(f"ix_{table}_job_id_seq", table_name=table)
        op.drop_table(table)
    for columns in ("dataset_id", "drafter_id", "version_id", "parent_id", "exclusive_open", "status_position_id"):
        op.drop_index(f"ix_jobs_{columns}", table_name="jobs")
    op.drop_table("jobs")
    op.drop_index("ix_datasets_version_id", table_name="datasets")
    op.drop_index("ix_datasets_kind", table_name="datasets")
    op.drop_table("datasets")
    op.drop_index("ix_decode_runs_trashed_at_id", table_name="decode_runs")
    with op.batch_alter_table("decode_runs") as batch:
        batch.drop_column("trashed_at")


def _add_trashed_at() -> None:
    column = sa.Column("trashed_at", sa.DateTime(), nullable=True)
    if op.get_bind().dialect.name != "sqlite":
        op.add_column("decode_runs", column)
        return
    # SQLite reads a row from its start and every list looks at this column, so it must stand before the wide ones.
    with op.batch_alter_table("decode_runs", recreate="always") as batch:
        batch.add_column(column, insert_after="traces_pruned")


def _create_datasets() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.String(length=128), nullable=False),
        sa.Column("num_rows", sa.BigInteger(), nullable=False),
        sa.Column("num_broken", sa.BigInteger(), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("licence", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("lineage", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["version_id"], ["versions.id"], name="fk_datasets_version_id", ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name="pk_datasets"),
    )
    op.create_index("ix_datasets_kind", "datasets", ["kind"], unique=False)
    op.create_index("ix_datasets_version_id", "datasets", ["version_id"], unique=False)


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("device", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=True),
        sa.Column("finished_at", sa.DateTime(), nullable=True),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("requested", sa.String(length=16), nullable=True),
        sa.Column("exclusive", sa.Text(), nullable=True),
        *(sa.Column(name, sa.String(length=32), nullable=True) for name in ("parent_id", *_LINKS)),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("progress", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        *(
            sa.ForeignKeyConstraint([column], [f"{table}.id"], name=f"fk_jobs_{column}", ondelete="SET NULL")
            for column, table in (("parent_id", "jobs"), *_LINKS.items())
        ),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_status_position_id", "jobs", ["status", "position", "id"], unique=False)
    op.create_index(
        "ix_jobs_exclusive_open", "jobs", ["exclusive"], unique=True, sqlite_where=_OPEN_JOB, postgresql_where=_OPEN_JOB
    )
    for column in ("parent_id", *_LINKS):
        op.create_index(f"ix_jobs_{column}", "jobs", [column], unique=False)


def _create_job_rows(table: str, key: sa.Column[object], content: str) -> None:
    op.create_table(
        table,
        sa.Column("job_id", sa.String(length=32), nullable=False),
        key,
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column(content, sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=f"fk_{table}_job_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", key.name, name=f"pk_{table}"),
    )
    op.create_index(f"ix_{table}_job_id_seq", table, ["job_id", "seq"], unique=True)
