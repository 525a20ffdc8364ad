"""Questions with a bound on their time: an answer, or None when it was not ready. Knows no table.

Invariant: after a question that was cut short the transaction goes on, and the connection bounds nothing any more.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

T = TypeVar("T")
_OPERATIONS = 2000  # of SQLite's machine between two looks at the clock: about 50 µs


def within(connection: Connection, seconds: float, ask: Callable[[], T]) -> T | None:
    """ask(), or None when the database needed more than `seconds`."""
    if connection.dialect.name == "sqlite":
        return _sqlite(connection, seconds, ask)
    return _server(connection, seconds, ask)


def _sqlite(connection: Connection, seconds: float, ask: Callable[[], T]) -> T | None:
    raw: Any = connection.connection.driver_connection
    end = time.monotonic() + seconds
    raw.set_progress_handler(lambda: time.monotonic() > end, _OPERATIONS)
    try:
        return ask()
    except (DBAPIError, sqlite3.OperationalError) as error:  # the latter from a cursor of the driver itself
        if str(getattr(error, "orig", error)) != "interrupted":
            raise
        return None
    finally:
        raw.set_progress_handler(None, 0)


def _server(connection: Connection, seconds: float, ask: Callable[[], T]) -> T | None:
    if seconds <= 0:
        return None
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = {max(1, round(seconds * 1000))}")
            answer = ask()
            connection.exec_driver_sql("SET LOCAL statement_timeout TO DEFAULT")
            return answer
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != "57014":  # query_canceled
            raise
        return None
