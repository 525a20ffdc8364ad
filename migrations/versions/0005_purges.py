"""What retention has taken away, by day: so that a request that is gone can be told from one that never was.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "purges",
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("cause", sa.String(length=16), nullable=False),
        sa.Column("until_wall", sa.BigInteger(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "cause", name=op.f("pk_purges")),
    )


def downgrade() -> None:
    op.drop_table("purges")
