"""The first schema: versions, drafters, decode runs and their traces.

Spells its column types out instead of importing them: a released revision never changes.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_versions()
    _create_drafters()
    _create_decode_runs()
    _create_trace_chunks()


def downgrade() -> None:
    op.drop_table("trace_chunks")
    op.drop_index("ix_decode_runs_version_id_id", table_name="decode_runs")
    op.drop_index("ix_decode_runs_status_id", table_name="decode_runs")
    op.drop_index("ix_decode_runs_drafter_name_id", table_name="decode_runs")
    op.drop_index("ix_decode_runs_drafter_id", table_name="decode_runs")
    op.drop_table("decode_runs")
    op.drop_index("ix_drafters_version_id", table_name="drafters")
    op.drop_table("drafters")
    op.drop_index("ix_versions_weights_id", table_name="versions")
    op.drop_table("versions")


def _create_versions() -> None:
    op.create_table(
        "versions",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("weights_id", sa.String(length=128), nullable=False),
        sa.Column("adapter_id", sa.String(length=128), nullable=True),
        sa.Column("quantisation", sa.String(length=128), nullable=True),
        sa.Column("tokenizer_id", sa.String(length=128), nullable=False),
        sa.Column("template_id", sa.String(length=128), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("model_type", sa.String(length=64), nullable=False),
        sa.Column("num_parameters", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_versions"),
    )
    op.create_index("ix_versions_weights_id", "versions", ["weights_id"], unique=False)


def _create_drafters() -> None:
    op.create_table(
        "drafters",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("family", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("weights_hash", sa.String(length=128), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("lineage", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["version_id"], ["versions.id"], name="fk_drafters_version_id"),
        sa.PrimaryKeyConstraint("id", name="pk_drafters"),
    )
    op.create_index("ix_drafters_version_id", "drafters", ["version_id"], unique=False)


def _create_decode_runs() -> None:
    op.create_table(
        "decode_runs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=True),
        sa.Column("finished_at", sa.DateTime(), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=True),
        sa.Column("drafter_id", sa.String(length=32), nullable=True),
        sa.Column("drafter_name", sa.Text(), nullable=False),
        sa.Column("finish_reason", sa.String(length=64), nullable=True),
        sa.Column("contended", sa.Boolean(), nullable=False),
        sa.Column("traces_pruned", sa.Boolean(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("num_tokens", sa.Integer(), nullable=True),
        sa.Column("num_steps", sa.Integer(), nullable=True),
        sa.Column("num_drafted", sa.Integer(), nullable=True),
        sa.Column("num_accepted", sa.Integer(), nullable=True),
        sa.Column("num_cut", sa.Integer(), nullable=True),
        sa.Column("prefill_ms", sa.Double(), nullable=True),
        sa.Column("draft_ms", sa.Double(), nullable=True),
        sa.Column("verify_ms", sa.Double(), nullable=True),
        sa.Column("commit_ms", sa.Double(), nullable=True),
        sa.Column("overhead_ms", sa.Double(), nullable=True),
        sa.Column("wall_ms", sa.Double(), nullable=True),
        sa.Column("accepted_per_depth", sa.Text(), nullable=True),
        sa.Column("drafted_per_depth", sa.Text(), nullable=True),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("tokens", sa.Text(), nullable=True),
        sa.Column("messages", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["drafter_id"], ["drafters.id"], name="fk_decode_runs_drafter_id", ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["version_id"], ["versions.id"], name="fk_decode_runs_version_id", ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name="pk_decode_runs"),
    )
    op.create_index("ix_decode_runs_drafter_id", "decode_runs", ["drafter_id"], unique=False)
    op.create_index("ix_decode_runs_drafter_name_id", "decode_runs", ["drafter_name", "id"], unique=False)
    op.create_index("ix_decode_runs_status_id", "decode_runs", ["status", "id"], unique=False)
    op.create_index("ix_decode_runs_version_id_id", "decode_runs", ["version_id", "id"], unique=False)


def _create_trace_chunks() -> None:
    op.create_table(
        "trace_chunks",
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.Column("first_step", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("num_steps", sa.Integer(), nullable=False),
        sa.Column("num_bytes", sa.Integer(), nullable=False),
        sa.Column("blob", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["decode_runs.id"], name="fk_trace_chunks_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "first_step", name="pk_trace_chunks"),
    )
