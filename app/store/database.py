"""Engines: how a connection to the records is opened. Knows URLs and pragmas, no table.

SQLite is the embedded default. This Python's SQLite has the WAL-reset bug (below 3.51.3), so exactly one connection of
the whole system may write or checkpoint: `writing` is for the Writer and for migrations before it starts; everybody
else takes `reading`, whose connections cannot write. Transactions of a writing connection begin IMMEDIATE: a deferred
one that reads first fails at once when somebody else commits in between.
A URL of PostgreSQL is opened by postgresql.py; there are no others.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from app.store import postgresql
from app.store.errors import DatabaseUnusable

BUSY_TIMEOUT_MS = 2000
_COMMON = ("PRAGMA busy_timeout=2000", "PRAGMA foreign_keys=OFF", "PRAGMA temp_store=MEMORY", "PRAGMA cache_size=-32768")
_WRITING = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA wal_autocheckpoint=400")
_READING = ("PRAGMA query_only=ON",)


def writing(url: str) -> Engine:
    """For the one writer: WAL, synchronous=FULL, BEGIN IMMEDIATE. Raises DatabaseUnusable for a URL that is none of ours."""
    if not is_sqlite(url):
        return postgresql.engine(_parsed(url), read_only=False, **_json())
    return _open(url, _WRITING, "BEGIN IMMEDIATE")


def reading(url: str) -> Engine:
    """For readers: `mode=ro`; a transaction sees one state of the database."""
    if not is_sqlite(url):
        return postgresql.engine(_parsed(url), read_only=True, **_json())
    path = _parsed(url).database or ""
    return _open(f"sqlite:///file:{path}?mode=ro&uri=true", _READING, "BEGIN")


def file_of(url: str) -> Path | None:
    """The file of the embedded database; None where a server keeps the records."""
    name = _parsed(url).database
    return Path(name) if is_sqlite(url) and name else None


def name_of(url: str) -> str:
    """The URL as it may be shown: without its password."""
    shown = _parsed(url)
    return shown.set(query={}).render_as_string(hide_password=True)


def is_sqlite(url: str) -> bool:
    """True for the embedded default."""
    return _parsed(url).get_backend_name() == "sqlite"


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise DatabaseUnusable("the database URL cannot be read: try postgresql://user@host/name", "database_url") from None
    if parsed.get_backend_name() != "sqlite" and parsed.drivername not in postgresql.NAMES:
        raise DatabaseUnusable(
            f"records are kept by SQLite or PostgreSQL, not by {parsed.drivername}: try postgresql://user@host/name",
            "database_url",
        )
    return parsed


def _open(url: str, pragmas: tuple[str, ...], begin: str) -> Engine:
    engine = create_engine(url, poolclass=NullPool, connect_args={"check_same_thread": False}, **_json())

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # else the driver begins transactions of its own
        for pragma in (*_COMMON, *pragmas):
            _patiently(connection, pragma)

    @event.listens_for(engine, "begin")
    def start(connection: Any) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _patiently(connection: Any, pragma: str) -> None:
    """SQLite does not wait for the lock under which a journal changes its mode: two that open a new file at once meet there."""
    end = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute(pragma)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
            time.sleep(0.01)


def _json() -> dict[str, Any]:
    return {"json_serializer": _dump, "json_deserializer": orjson.loads}


def _dump(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
