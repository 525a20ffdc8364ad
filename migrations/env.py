"""Alembic's environment: runs the revisions on the connection that app.store.migrate hands over.

Knows no URL and reads no ini file. SQLite's DDL is transactional once the transaction is begun by hand, which the
writing engine does: a kill in mid-migration leaves the old schema. Foreign keys are off there (a table rebuild would
cascade into its children).
"""

from __future__ import annotations

from alembic import context

from app.store.models import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    transactional_ddl=True,
    transaction_per_migration=False,
)
context.run_migrations()
