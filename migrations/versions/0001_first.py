"""The first schema: runs, requests, events, steps, what load generators saw, changes of settings, lives of the engine.

Revision ID: 0001
Revises: nothing
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _boots()
    _client_requests()
    _request_events()
    _requests()
    _request_indexes()
    _runs()
    _settings_changes()
    _steps()


def downgrade() -> None:
    op.drop_index(op.f("ix_steps_ended_wall"), table_name="steps")
    op.drop_table("steps")
    op.drop_index(op.f("ix_settings_changes_wall"), table_name="settings_changes")
    op.drop_table("settings_changes")
    op.drop_table("runs")
    op.drop_index(op.f("ix_requests_state"), table_name="requests")
    op.drop_index(op.f("ix_requests_run_ttft_ms_id"), table_name="requests")
    op.drop_index(op.f("ix_requests_run_received_wall_id"), table_name="requests")
    op.drop_index(op.f("ix_requests_run_e2e_ms_id"), table_name="requests")
    op.drop_index(op.f("ix_requests_run_client_request_id"), table_name="requests")
    op.drop_index(op.f("ix_requests_received_wall_id"), table_name="requests")
    op.drop_index(op.f("ix_requests_boot_number"), table_name="requests")
    op.drop_table("requests")
    op.drop_index(
        "uq_request_events_terminal",
        table_name="request_events",
        sqlite_where=sa.text("terminal"),
        postgresql_where=sa.text("terminal"),
    )
    op.drop_index(op.f("ix_request_events_request_id"), table_name="request_events")
    op.drop_table("request_events")
    op.drop_table("client_requests")
    op.drop_table("boots")


def _boots() -> None:
    op.create_table(
        "boots",
        sa.Column("boot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("wall", sa.BigInteger(), nullable=False),
        sa.Column("mono", sa.BigInteger(), nullable=False),
        sa.Column("settings", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("blocks_total", sa.Integer(), nullable=True),
        sa.Column("block_size", sa.Integer(), nullable=True),
        sa.Column("runner", sa.String(length=16), nullable=False),
        sa.Column("hardware", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("web_pid", sa.Integer(), nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("boot", name=op.f("pk_boots")),
    )


def _client_requests() -> None:
    op.create_table(
        "client_requests",
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("client_request_id", sa.String(length=200), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=True),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=True),
        sa.Column("due_ms", sa.Float(), nullable=True),
        sa.Column("sent_ms", sa.Float(), nullable=True),
        sa.Column("first_ms", sa.Float(), nullable=True),
        sa.Column("last_ms", sa.Float(), nullable=True),
        sa.Column("end_ms", sa.Float(), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("http", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("estimated", sa.Boolean(), nullable=True),
        sa.Column("gaps", sa.LargeBinary(), nullable=True),
        sa.Column("server_id", sa.String(length=64), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("run", "client_request_id", name=op.f("pk_client_requests")),
    )


def _request_events() -> None:
    op.create_table(
        "request_events",
        sa.Column("boot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("sequence_id", sa.String(length=80), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("terminal", sa.Boolean(), nullable=False),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("boot", "seq", name=op.f("pk_request_events")),
    )
    op.create_index(op.f("ix_request_events_request_id"), "request_events", ["request_id"], unique=False)
    op.create_index(
        "uq_request_events_terminal",
        "request_events",
        ["sequence_id"],
        unique=True,
        sqlite_where=sa.text("terminal"),
        postgresql_where=sa.text("terminal"),
    )


def _requests() -> None:
    op.create_table(
        "requests",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("run", sa.String(length=64), nullable=True),
        sa.Column("client_request_id", sa.Text(), nullable=True),
        sa.Column("endpoint", sa.String(length=64), nullable=False),
        sa.Column("stream", sa.Boolean(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("policy", sa.String(length=64), nullable=True),
        sa.Column("boot", sa.Integer(), nullable=True),
        sa.Column("number", sa.BigInteger(), nullable=True),
        sa.Column("sequences", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("finish", sa.String(length=16), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("received_wall", sa.BigInteger(), nullable=False),
        sa.Column("scheduled_at", sa.BigInteger(), nullable=True),
        sa.Column("first_token_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("cached_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("max_tokens", sa.Integer(), nullable=True),
        sa.Column("wait_step_ns", sa.BigInteger(), nullable=True),
        sa.Column("wait_slots_ns", sa.BigInteger(), nullable=True),
        sa.Column("wait_token_budget_ns", sa.BigInteger(), nullable=True),
        sa.Column("wait_kv_blocks_ns", sa.BigInteger(), nullable=True),
        sa.Column("wait_prefill_cap_ns", sa.BigInteger(), nullable=True),
        sa.Column("wait_quota_ns", sa.BigInteger(), nullable=True),
        sa.Column("wait_static_batch_ns", sa.BigInteger(), nullable=True),
        sa.Column("wait_engine_down_ns", sa.BigInteger(), nullable=True),
        sa.Column("wait_paused_ns", sa.BigInteger(), nullable=True),
        sa.Column("prefill_ns", sa.BigInteger(), nullable=True),
        sa.Column("decode_ns", sa.BigInteger(), nullable=True),
        sa.Column("stalled_ns", sa.BigInteger(), nullable=True),
        sa.Column("preempted_ns", sa.BigInteger(), nullable=True),
        sa.Column("queue_ms", sa.Float(), nullable=True),
        sa.Column("ttft_ms", sa.Float(), nullable=True),
        sa.Column("tpot_ms", sa.Float(), nullable=True),
        sa.Column("e2e_ms", sa.Float(), nullable=True),
        sa.Column("top_wait", sa.String(length=16), nullable=True),
        sa.Column("preemptions", sa.Integer(), nullable=True),
        sa.Column("prompt_hash", sa.String(length=64), nullable=True),
        sa.Column("deadline_ms", sa.Float(), nullable=True),
        sa.Column("timeout_ms", sa.Float(), nullable=True),
        sa.Column("ignored_fields", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("prompt_text", sa.Text(), nullable=True),
        sa.Column("output_text", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_requests")),
    )


def _request_indexes() -> None:
    op.create_index(op.f("ix_requests_boot_number"), "requests", ["boot", "number"], unique=False)
    op.create_index(op.f("ix_requests_received_wall_id"), "requests", ["received_wall", "id"], unique=False)
    op.create_index(op.f("ix_requests_run_client_request_id"), "requests", ["run", "client_request_id"], unique=False)
    op.create_index(op.f("ix_requests_run_e2e_ms_id"), "requests", ["run", "e2e_ms", "id"], unique=False)
    op.create_index(op.f("ix_requests_run_received_wall_id"), "requests", ["run", "received_wall", "id"], unique=False)
    op.create_index(op.f("ix_requests_run_ttft_ms_id"), "requests", ["run", "ttft_ms", "id"], unique=False)
    op.create_index(op.f("ix_requests_state"), "requests", ["state"], unique=False)


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("scenario", sa.Text(), nullable=True),
        sa.Column("parameters", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("seed", sa.BigInteger(), nullable=True),
        sa.Column("scheduler", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("settings", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("external", sa.Boolean(), nullable=False),
        sa.Column("foreign_target", sa.Boolean(), nullable=False),
        sa.Column("versions", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("verdict", sa.String(length=24), nullable=True),
        sa.Column("verdict_reason", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_wall", sa.BigInteger(), nullable=False),
        sa.Column("started_wall", sa.BigInteger(), nullable=True),
        sa.Column("ended_wall", sa.BigInteger(), nullable=True),
        sa.Column("duration_s", sa.Float(), nullable=True),
        sa.Column("processes", sa.Integer(), nullable=True),
        sa.Column("generator_cpu_high", sa.Boolean(), nullable=True),
        sa.Column("progress", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("report", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )


def _settings_changes() -> None:
    op.create_table(
        "settings_changes",
        sa.Column("boot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("wall", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("changes", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("boot", "seq", name=op.f("pk_settings_changes")),
    )
    op.create_index(op.f("ix_settings_changes_wall"), "settings_changes", ["wall"], unique=False)


def _steps() -> None:
    op.create_table(
        "steps",
        sa.Column("boot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_wall", sa.BigInteger(), nullable=False),
        sa.Column("token_budget", sa.Integer(), nullable=False),
        sa.Column("prefill_tokens", sa.Integer(), nullable=False),
        sa.Column("decode_tokens", sa.Integer(), nullable=False),
        sa.Column("binding", sa.String(length=16), nullable=False),
        sa.Column("waiting", sa.Integer(), nullable=False),
        sa.Column("waiting_by_reason", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("running", sa.Integer(), nullable=False),
        sa.Column("preempted", sa.Integer(), nullable=False),
        sa.Column("blocks_free", sa.Integer(), nullable=False),
        sa.Column("host_late_ns", sa.BigInteger(), nullable=False),
        sa.Column("slices", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("boot", "seq", name=op.f("pk_steps")),
    )
    op.create_index(op.f("ix_steps_ended_wall"), "steps", ["ended_wall"], unique=False)
