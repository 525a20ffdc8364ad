"""Engines: how a connection to the records is opened. Knows URLs and pragmas, no table.

SQLite is the embedded default. This Python's SQLite has the WAL-reset bug (below 3.51.3), so exactly one connection of
the whole system may write or checkpoint: `writing` is for the Writer and for migrations before it starts; everybody
else takes `reading`, whose connections cannot write. Transactions of a writing connection begin IMMEDIATE: a deferred
one that reads first fails at once when somebody else commits in between.
Any other SQLAlchemy URL (PostgreSQL) is opened as it is, with read-only transactions for readers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.pool import NullPool

BUSY_TIMEOUT_MS = 2000
_COMMON = ("PRAGMA busy_timeout=2000", "PRAGMA foreign_keys=OFF", "PRAGMA temp_store=MEMORY", "PRAGMA cache_size=-32768")
_WRITING = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA wal_autocheckpoint=400")
_READING = ("PRAGMA query_only=ON",)


def writing(url: str) -> Engine:
    """For the one writer: WAL, synchronous=FULL, BEGIN IMMEDIATE."""
    return _open(url, _WRITING, "BEGIN IMMEDIATE") if is_sqlite(url) else _open_server(url, read_only=False)


def reading(url: str) -> Engine:
    """For readers: `mode=ro`; a transaction sees one state of the database."""
    if not is_sqlite(url):
        return _open_server(url, read_only=True)
    path = make_url(url).database or ""
    return _open(f"sqlite:///file:{path}?mode=ro&uri=true", _READING, "BEGIN")


def file_of(url: str) -> Path | None:
    """The file of the embedded database; None where a server keeps the records."""
    name = make_url(url).database
    return Path(name) if is_sqlite(url) and name else None


def is_sqlite(url: str) -> bool:
    """True for the embedded default."""
    return make_url(url).get_backend_name() == "sqlite"


def _open(url: str, pragmas: tuple[str, ...], begin: str) -> Engine:
    engine = create_engine(url, poolclass=NullPool, connect_args={"check_same_thread": False}, **_json())

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # else the driver begins transactions of its own
        for pragma in (*_COMMON, *pragmas):
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def start(connection: Any) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _open_server(url: str, *, read_only: bool) -> Engine:
    options = {"postgresql_readonly": True} if read_only else {}
    return create_engine(url, poolclass=NullPool, execution_options=options, **_json())


def _json() -> dict[str, Any]:
    return {"json_serializer": _dump, "json_deserializer": orjson.loads}


def _dump(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
