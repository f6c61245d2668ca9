"""Alembic's entry: runs the revisions on the connection that `storage.upgrade` hands over, inside its transaction.

Knows nothing of where the database is.
"""

from alembic import context

from storage.tables import Base
from storage.upgrade import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
