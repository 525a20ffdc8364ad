"""Who held what while others waited, and how often a request was overtaken.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("requests", sa.Column("overtaken", sa.Integer(), nullable=True))
    op.add_column("steps", sa.Column("blockers", sa.JSON(none_as_null=True), nullable=True))
    told = sa.text("blockers IS NOT NULL")
    op.create_index("ix_steps_blockers", "steps", ["boot", "seq"], sqlite_where=told, postgresql_where=told)


def downgrade() -> None:
    op.drop_index("ix_steps_blockers", table_name="steps")
    op.drop_column("steps", "blockers")
    op.drop_column("requests", "overtaken")
