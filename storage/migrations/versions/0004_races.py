"""Races: which runs answered a prompt in turns, and in which lane each.

Spells its column types out instead of importing them: a released revision never changes.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "race_lanes",
        sa.Column("race_id", sa.String(length=32), nullable=False),
        sa.Column("lane", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["decode_runs.id"], name="fk_race_lanes_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("race_id", "lane", name="pk_race_lanes"),
    )
    op.create_index("ix_race_lanes_run_id", "race_lanes", ["run_id"], unique=True)


def downgrade() -> None:
    op.drop_index("ix_race_lanes_run_id", table_name="race_lanes")
    op.drop_table("race_lanes")
