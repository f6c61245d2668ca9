"""What a version was made from, and labels that point at one.

Spells its column types out instead of importing them: a released revision never changes.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("versions") as batch:
        batch.add_column(sa.Column("parent_id", sa.String(length=32), nullable=True))
        batch.add_column(sa.Column("tags", sa.Text(), nullable=False, server_default="[]"))
        batch.create_foreign_key("fk_versions_parent_id", "versions", ["parent_id"], ["id"], ondelete="SET NULL")
    op.create_index("ix_versions_parent_id", "versions", ["parent_id"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_versions_parent_id", table_name="versions")
    with op.batch_alter_table("versions") as batch:
        batch.drop_constraint("fk_versions_parent_id", type_="foreignkey")
        batch.drop_column("tags")
        batch.drop_column("parent_id")
