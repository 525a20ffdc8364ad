"""What is kept of a run at its end for pages by a key without an index; an older run gets it when its figures are made anew.

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_columns",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("form", sa.String(length=8), nullable=False),
        sa.Column("first_id", sa.String(length=64), nullable=False),
        sa.Column("last_id", sa.String(length=64), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", "run", "part", name=op.f("pk_run_columns")),
    )


def downgrade() -> None:
    op.drop_table("run_columns")
