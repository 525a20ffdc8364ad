"""SQL from people, read only: one statement on a connection of its own, with an allow-list and bounds. Embedded database only.

Temporary views without the columns of HIDDEN stand before the tables, so that `SELECT *` works. Sources: SQLite's
documentation of sqlite3_set_authorizer ("untrusted SQL"), sqlite3_limit and "Defense against the dark arts".
Invariant: nothing is written, no column of HIDDEN is read under whatever name, and no statement runs much over LIMIT_S.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import Any

from sqlalchemy import make_url

from app.store import models
from app.store.database import is_sqlite
from app.store.errors import QueryError
from app.store.functions import FUNCTIONS

LIMIT_S = 1.0
MAX_ROWS = 1000
MAX_BYTES = 4 << 20  # of an answer
AT_ONCE = 2
_TABLES = (
    models.runs, models.requests, models.request_events, models.steps, models.client_requests, models.settings_changes,
    models.boots,
)  # fmt: skip
HIDDEN = {"requests": {"prompt_text", "output_text", "prompt_hash"}}
SCHEMA = {
    str(table.name): [str(column.name) for column in table.columns if column.name not in HIDDEN.get(table.name, ())]
    for table in _TABLES
}
_READABLE = {name: {"", "ROWID", *columns} for name, columns in SCHEMA.items()}
_JSON_TABLES = ("json_each", "json_tree")  # values of a JSON column as rows
_PLAIN = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE)
_BOUNDS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 20_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 25_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_PRAGMAS = ("busy_timeout=500", "cache_size=-8192", "temp_store=FILE")  # first: temp_store drops temporary views
_OPERATIONS = 1000  # between two looks at the clock


def answer(url: str, statement: str) -> dict[str, Any]:
    """{columns, rows, truncated, elapsed_ms}; raises QueryError("sql") with what SQLite says of the statement.

    truncated: `rows` (there are more than 1,000), `size` (over 4 MiB) or null. Sorting spills to a temporary file.
    """
    if not is_sqlite(url):
        raise QueryError("the SQL console is for the embedded database: ask this one with a client of its own", "sql")
    if not statement.strip():
        raise QueryError("sql is empty: try SELECT tenant, count(*) FROM requests GROUP BY tenant", "sql")
    with closing(_open(make_url(url).database or "")) as connection:
        return _asked(connection, statement)


def _asked(connection: sqlite3.Connection, statement: str) -> dict[str, Any]:
    began = time.monotonic()
    connection.set_progress_handler(lambda: time.monotonic() - began > LIMIT_S, _OPERATIONS)
    try:
        cursor = connection.execute(statement)
        rows, truncated = _fetched(cursor, began)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        raise QueryError(_words(error), "sql") from error
    columns = [column[0] for column in cursor.description or ()]
    if not columns:
        raise QueryError("that is no question: try SELECT tenant, count(*) FROM requests GROUP BY tenant", "sql")
    spent = round((time.monotonic() - began) * 1000, 3)
    return {"columns": columns, "rows": rows, "truncated": truncated, "elapsed_ms": spent}


def _open(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)
    try:
        for limit, most in _BOUNDS.items():
            connection.setlimit(limit, most)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        for name, columns in SCHEMA.items():
            connection.execute(f"CREATE TEMP VIEW {name} AS SELECT {', '.join(columns)} FROM main.{name}")
        for name in _JSON_TABLES:
            connection.execute(f"SELECT 1 FROM {name}('[]')")  # made now: making one counts as CREATE TABLE
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA query_only=ON")
        connection.set_authorizer(_authorize)
    except BaseException:
        connection.close()
        raise
    return connection


def _authorize(action: int, first: str | None, second: str | None, _place: str | None, _source: str | None) -> int:
    if action in _PLAIN:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_READ:
        known = first in _JSON_TABLES or (second or "") in _READABLE.get(first or "", ())
        known = known or (second == "" and not str(first).startswith("sqlite_"))  # rows of a CTE, of which no column is read
        return sqlite3.SQLITE_OK if known else sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _fetched(cursor: sqlite3.Cursor, began: float) -> tuple[list[list[Any]], str | None]:
    rows: list[list[Any]] = []
    size = 0
    for row in cursor:
        if len(rows) == MAX_ROWS:
            return rows, "rows"
        shown = [_shown(value) for value in row]
        size += sum(len(value) if isinstance(value, str) else 8 for value in shown)
        if size > MAX_BYTES:
            return rows, "size"
        if time.monotonic() - began > LIMIT_S:
            raise sqlite3.OperationalError("interrupted")
        rows.append(shown)
    return rows, None


def _shown(value: Any) -> Any:
    """As JSON has it: bytes and numbers that are none as text."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value


def _words(error: Exception) -> str:
    text = str(error)
    if text == "interrupted":
        return f"stopped after {LIMIT_S:g} s: ask for less, or by an indexed column (received_wall, run)"
    if text == "not authorized" or text.startswith("cannot modify"):
        return "not allowed here: only SELECT, from the tables of the schema, with functions that only compute"
    return text
