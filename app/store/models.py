"""The tables, as SQLAlchemy metadata. Knows no connection, no query and no event.

Instants: `_at` is integer ns of the monotonic clock (comparable within one uptime of the machine), `_wall` integer ns
since the epoch (a label, and the key that orders rows of different boots). Durations: `_ns` integers as the core
counted them, `_ms` floats derived from them for filters and sorting. What is undefined is NULL, never 0.
There are no foreign keys: an event must be storable even when the row it belongs to could not be stored.
Invariant: one terminal event a sequence (partial unique index), one step a (boot, seq).
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)
from sqlalchemy import text as sql

from scheduler.metrics import WAIT_REASONS

metadata = MetaData(
    naming_convention={"ix": "ix_%(table_name)s_%(column_0_N_name)s", "pk": "pk_%(table_name)s", "uq": "uq_%(table_name)s"}
)

_SORTED = ("ttft_ms", "e2e_ms", "queue_ms")  # within a run; each costs the writer 2 to 3 % of what a request costs it
WAIT_COLUMNS: tuple[str, ...] = tuple(f"wait_{reason}_ns" for reason in WAIT_REASONS)


def _json(name: str) -> Column[object]:
    """JSON, where Python's None is SQL's NULL."""
    return Column(name, JSON(none_as_null=True))


def _of_some(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """An index of the rows that satisfy `where`."""
    return Index(name, *columns, unique=unique, sqlite_where=sql(where), postgresql_where=sql(where))


runs = Table(
    "runs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", Text),
    Column("scenario", Text),
    _json("parameters"),
    Column("seed", BigInteger),
    _json("scheduler"),  # the settings the run asked for
    _json("settings"),  # the settings in effect while it ran
    Column("target", Text),
    Column("external", Boolean, nullable=False, default=False),  # started by somebody else's load generator
    Column("foreign_target", Boolean, nullable=False, default=False),  # aimed at another server: there are no server rows
    _json("versions"),
    Column("status", String(16), nullable=False),
    Column("verdict", String(24)),
    Column("verdict_reason", Text),
    Column("error", Text),
    Column("created_wall", BigInteger, nullable=False),
    Column("started_wall", BigInteger),
    Column("ended_wall", BigInteger),
    Column("duration_s", Float),  # as planned
    Column("processes", Integer),
    Column("generator_cpu_high", Boolean),  # the generator's own warning that its core was full
    _json("progress"),  # the last progress line of the generator
    _json("report"),  # the report as computed at the end
)

requests = Table(
    "requests",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("run", String(64)),
    Column("client_request_id", Text),
    Column("endpoint", String(64), nullable=False),
    Column("stream", Boolean, nullable=False, default=False),
    Column("model", Text),
    Column("tenant", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("priority", BigInteger, nullable=False),
    Column("policy", String(64)),
    Column("boot", Integer),
    Column("number", BigInteger),
    Column("sequences", Integer, nullable=False, default=1),
    Column("state", String(16), nullable=False),
    Column("finish", String(16)),
    Column("detail", Text),
    Column("status_code", Integer),
    Column("received_at", BigInteger, nullable=False),
    Column("received_wall", BigInteger, nullable=False),
    Column("scheduled_at", BigInteger),
    Column("first_token_at", BigInteger),
    Column("finished_at", BigInteger),
    *[Column(name, Integer) for name in ("prompt_tokens", "cached_tokens", "output_tokens", "max_tokens")],
    *[Column(name, BigInteger) for name in WAIT_COLUMNS],
    *[Column(name, BigInteger) for name in ("prefill_ns", "decode_ns", "stalled_ns", "preempted_ns")],
    *[Column(name, Float) for name in ("queue_ms", "ttft_ms", "tpot_ms", "e2e_ms")],
    Column("top_wait", String(16)),
    Column("preemptions", Integer),
    Column("overtaken", Integer),  # later arrivals that were admitted before its first admission, or its end
    Column("prompt_hash", String(64)),
    Column("deadline_ms", Float),
    Column("timeout_ms", Float),
    _json("ignored_fields"),
    Column("prompt_text", Text),
    Column("output_text", Text),
    # A row is written once and its indexes with it, so each index is as narrow as its questions allow: ties of a key are
    # sorted by id when they are read, requests of no run are in no index of runs, open ones in none of figures, ended ones
    # in none of states.
    Index(None, "received_wall"),
    _of_some("ix_requests_run_received_wall", "run", "received_wall", where="run IS NOT NULL"),
    *[_of_some(f"ix_requests_run_{key}", "run", key, where=f"run IS NOT NULL AND {key} IS NOT NULL") for key in _SORTED],
    _of_some("ix_requests_no_run", "received_wall", where="run IS NULL"),
    _of_some("ix_requests_run_client_request_id", "run", "client_request_id", where="run IS NOT NULL"),
    _of_some("ix_requests_state", "state", where="state <> 'finished'"),
)

request_events = Table(
    "request_events",
    metadata,
    Column("boot", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("sequence_id", String(80), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("terminal", Boolean, nullable=False),
    _json("data"),
    PrimaryKeyConstraint("request_id", "boot", "seq"),  # the events of a request lie side by side
    _of_some("uq_request_events_terminal", "sequence_id", where="terminal", unique=True),
    _of_some("ix_request_events_number", "boot", "seq", where="kind = 'RequestQueued'"),  # whose number is this?
    sqlite_with_rowid=False,
)

steps = Table(
    "steps",
    metadata,
    Column("boot", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("step", BigInteger, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
    Column("ended_wall", BigInteger, nullable=False),
    Column("token_budget", Integer, nullable=False),
    Column("prefill_tokens", Integer, nullable=False),
    Column("decode_tokens", Integer, nullable=False),
    Column("binding", String(16), nullable=False),
    Column("waiting", Integer, nullable=False),
    _json("waiting_by_reason"),  # only reasons present
    Column("running", Integer, nullable=False),
    Column("preempted", Integer, nullable=False),
    Column("blocks_free", Integer, nullable=False),
    Column("host_late_ns", BigInteger, nullable=False, default=0),
    Column("slices", LargeBinary, nullable=False),  # packing.pack_slices
    _json("blockers"),  # who held what; NULL: as in the last step that says so
    Index(None, "ended_wall"),
    _of_some("ix_steps_blockers", "boot", "seq", where="blockers IS NOT NULL"),
)

client_requests = Table(
    "client_requests",
    metadata,
    Column("run", String(64), primary_key=True),
    Column("client_request_id", String(200), primary_key=True),
    Column("n", BigInteger),
    Column("tenant", Text),
    Column("kind", Text),
    *[Column(name, Float) for name in ("due_ms", "sent_ms", "first_ms", "last_ms", "end_ms")],
    Column("status", String(16), nullable=False),
    Column("http", Integer),
    Column("error", Text),
    Column("prompt_tokens", Integer),
    Column("output_tokens", Integer),
    Column("estimated", Boolean),
    Column("gaps", LargeBinary),  # packing.pack_gaps
    Column("server_id", String(64)),
    Column("attempts", Integer),
)

run_summaries = Table(
    "run_summaries",
    metadata,
    Column("run", String(64), primary_key=True),
    Column("version", Integer, nullable=False),  # of the figures' code
    Column("made_wall", BigInteger, nullable=False),
    Column("server_rows", BigInteger, nullable=False),  # what it was made from
    Column("client_rows", BigInteger, nullable=False),
    Column("open_rows", BigInteger, nullable=False),
    Column("lines", LargeBinary, nullable=False),  # run_summary.Kept
    Column("draws", LargeBinary, nullable=False),
)

run_columns = Table(
    "run_columns",
    metadata,
    Column("name", String(32), primary_key=True),  # of the column of `requests`
    Column("run", String(64), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("size", Integer, nullable=False),  # how many values: of so many requests, in the order of their ids
    Column("form", String(8), nullable=False),
    Column("first_id", String(64), nullable=False),
    Column("last_id", String(64), nullable=False),
    Column("data", LargeBinary, nullable=False),  # run_columns.Part
)

settings_changes = Table(
    "settings_changes",
    metadata,
    Column("boot", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("wall", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
    _json("changes"),
    Index(None, "wall"),
)

boots = Table(
    "boots",
    metadata,
    Column("boot", Integer, primary_key=True, autoincrement=False),
    Column("wall", BigInteger, nullable=False),
    Column("mono", BigInteger, nullable=False),
    _json("settings"),
    Column("blocks_total", Integer),
    Column("block_size", Integer),
    Column("runner", String(16), nullable=False),  # "web" for a life of the web process, which authors events of its own
    Column("hardware", Text),
    Column("model", Text),
    Column("web_pid", Integer),
    Column("created", BigInteger, nullable=False),
)

purges = Table(
    "purges",
    metadata,
    Column("day", String(10), primary_key=True),  # UTC, when it was done
    Column("cause", String(16), primary_key=True),  # retention, or prune by hand
    Column("until_wall", BigInteger, nullable=False),  # what was received before, and belongs to no run that was kept, is gone
    Column("requests", BigInteger, nullable=False),
)
