"""How much of the database is in use, and giving back what is not. Knows SQLite's pages, no table.

What is deleted leaves free pages in the file, which later rows fill. A file that was vacuumed with `auto_vacuum=INCREMENTAL`
(`batchscope db prune --vacuum` does so) can give them back to the file system bit by bit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from app.store import database

_INCREMENTAL = 2
_PAGES = 64  # moved by one statement
_TURN_S = 0.005


def used(connection: Connection) -> int | None:
    """Bytes in use; None where a server keeps the records."""
    if connection.dialect.name != "sqlite":
        return None
    pages, free, size = (_ask(connection, name) for name in ("page_count", "freelist_count", "page_size"))
    return (pages - free) * size


def give_back(connection: Connection) -> Iterator[None]:
    """Free pages back to the file system, in short slices; none where the file was not made for that."""
    if connection.dialect.name != "sqlite" or _ask(connection, "auto_vacuum") != _INCREMENTAL:
        return
    raw: Any = connection.connection.driver_connection
    ends_at = time.monotonic() + _TURN_S
    while _ask(connection, "freelist_count"):
        raw.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()  # each step of the statement moves one page
        if time.monotonic() > ends_at:
            yield
            ends_at = time.monotonic() + _TURN_S


def vacuum(url: str) -> tuple[int, int]:
    """Write the file anew without its free pages, and so that it can give them back later; (bytes before, after).

    Needs as much room again, and nobody else on the file.
    """
    path = database.file_of(url)
    assert path is not None, "only the embedded database is a file"
    before = _size(path)
    with database.writing(url).connect() as connection:
        raw: Any = connection.connection.driver_connection
        raw.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")
        raw.execute("VACUUM")
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return before, _size(path)


def _size(path: Path) -> int:
    return sum(part.stat().st_size for suffix in ("", "-wal") if (part := path.with_name(path.name + suffix)).exists())


def _ask(connection: Connection, name: str) -> int:
    return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
