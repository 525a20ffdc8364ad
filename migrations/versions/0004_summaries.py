"""What is kept of a run at its end; one more sort key of a run by an index, and none of open requests; requests of no run
found without a scan.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

BEFORE = ("ttft_ms", "e2e_ms")


def upgrade() -> None:
    op.create_table(
        "run_summaries",
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("made_wall", sa.BigInteger(), nullable=False),
        sa.Column("server_rows", sa.BigInteger(), nullable=False),
        sa.Column("client_rows", sa.BigInteger(), nullable=False),
        sa.Column("open_rows", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.LargeBinary(), nullable=False),
        sa.Column("draws", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run", name=op.f("pk_run_summaries")),
    )
    for name in BEFORE:
        op.drop_index(f"ix_requests_run_{name}", table_name="requests")
    for name in (*BEFORE, "queue_ms"):
        _of_some(f"ix_requests_run_{name}", ["run", name], f"run IS NOT NULL AND {name} IS NOT NULL")
    _of_some("ix_requests_no_run", ["received_wall"], "run IS NULL")


def downgrade() -> None:
    op.drop_index("ix_requests_no_run", table_name="requests")
    for name in (*BEFORE, "queue_ms"):
        op.drop_index(f"ix_requests_run_{name}", table_name="requests")
    for name in BEFORE:
        _of_some(f"ix_requests_run_{name}", ["run", name], "run IS NOT NULL")
    op.drop_table("run_summaries")


def _of_some(name: str, columns: list[str], where: str) -> None:
    op.create_index(name, "requests", columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
