"""PostgreSQL: how a connection is opened. The only place that imports psycopg, the extra `[postgresql]`, and late.

A connection that may write holds the database's advisory lock for as long as it is open: records have one writer, on
whichever machine it runs, and migrations come before it. A second one waits as long as for any lock and is then told so.
Readers are read-only, and a transaction of theirs sees one state of the database.
Invariant: a commit that returned is on the server's disk; text is stored as it is, but for NUL, which PostgreSQL has not
and which becomes U+FFFD.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from app.store.errors import DatabaseUnusable

NAMES = ("postgresql", "postgres", "postgresql+psycopg")
ONE_WRITER = 0x6261746368  # the advisory lock's number: "batch"
LOCK_TIMEOUT_MS = 2000
_REACHED = {"connect_timeout": 3, "tcp_user_timeout": 5000, "application_name": "batchscope"}  # s, ms; the URL's own win
_SETTINGS = ("synchronous_commit = on", "client_min_messages = error")


def engine(url: URL, *, read_only: bool, **options: Any) -> Engine:
    """An engine without a pool. Raises DatabaseUnusable without psycopg."""
    _ready()
    reader = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    made = create_engine(
        url.set(drivername="postgresql+psycopg"),
        poolclass=NullPool,
        use_native_hstore=False,  # asks the server for a type that is not used here
        connect_args={name: value for name, value in _REACHED.items() if name not in url.query},
        execution_options=reader if read_only else {},
        **options,
    )

    @event.listens_for(made, "connect")
    def prepare(connection: Any, _record: object) -> None:
        try:
            _prepare(connection, read_only)
        except BaseException:
            connection.close()
            raise

    return made


def _ready() -> None:
    if find_spec("psycopg") is None:
        raise DatabaseUnusable("records in PostgreSQL need psycopg: pip install 'batchscope[postgresql]'", "database_url")
    if find_spec("psycopg_binary") is not None:  # else psycopg would take gevent's patched poll, in native threads as well
        os.environ.setdefault("PSYCOPG_WAIT_FUNC", "wait_c")


def _prepare(connection: Any, read_only: bool) -> None:
    connection.adapters.register_dumper(str, _text_dumper())
    for setting in (*_SETTINGS, f"lock_timeout = {LOCK_TIMEOUT_MS}"):
        connection.execute(f"SET {setting}")
    if not read_only:
        connection.execute(f"SELECT pg_advisory_lock({ONE_WRITER})")
    connection.commit()


def _text_dumper() -> Any:
    from psycopg.types.string import StrDumperUnknown

    class WithoutNul(StrDumperUnknown):
        def dump(self, obj: str) -> Any:
            return super().dump(obj.replace("\0", "\ufffd"))

    return WithoutNul
