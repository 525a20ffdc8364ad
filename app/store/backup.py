"""A copy of the embedded database while a server writes to it: `VACUUM INTO`, which reads one state and waits for nobody.

SQLite's backup interface would begin anew with every commit of another connection; under load it would never end.
Invariant: a file that is there is not touched; what stands at the target is whole, checked and on the disk, or is not there.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from app.store import consistency, database, database_size, soundness
from app.store.errors import StoreError
from app.store.models import requests

_OPERATIONS = 20_000  # of SQLite's machine between two looks
_SPARE = 1.05
Look = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Copy:
    """What was made. newest: when the last request in it was received, epoch ns; faults: what a check of it found."""

    path: Path
    bytes: int
    requests: int
    newest: int | None
    faults: list[str]


def back_up(url: str, target: Path, look: Look = lambda done, of: None) -> Copy:
    """Copy the database to `target`. look(bytes written, about how many) now and then; raises StoreError saying what to do."""
    if not database.is_sqlite(url):
        raise StoreError(
            "a database server keeps the records: back them up with its own tool, as `pg_dump --format=custom`", "database"
        )
    if target.exists():
        raise StoreError(f"{target} is there already, and is not written over: name another file", "file")
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    try:
        _copy(url, part, look)
        made = _checked(part, target)
        _settle(part, target)
    finally:
        part.unlink(missing_ok=True)
    return made


def _copy(url: str, part: Path, look: Look) -> None:
    with database.reading(url).connect() as connection:
        used = database_size.used(connection) or 0
        connection.rollback()
        free = shutil.disk_usage(part.parent).free
        if free < used * _SPARE:
            raise StoreError(f"{part.parent} has {free} bytes free, the copy needs about {used}", "file")
        raw: Any = connection.connection.driver_connection

        def told() -> None:
            look(part.stat().st_size if part.exists() else 0, used)

        raw.execute("PRAGMA query_only=OFF")  # it forbids writing to the copy too; ours is opened read only in any case
        raw.set_progress_handler(told, _OPERATIONS)  # an exception of it ends the statement
        try:
            raw.execute("VACUUM INTO ?", (str(part),))
        except sqlite3.OperationalError as error:
            raise StoreError(f"the copy could not be written: {error}", "file") from error
        finally:
            raw.set_progress_handler(None, 0)


def _checked(part: Path, target: Path) -> Copy:
    url = f"sqlite:///{part}"
    faults = soundness.faults(url)
    engine = database.reading(url)
    faults += [] if faults else [each.sentence for each in consistency.findings(engine) if each.question.fault]
    with engine.connect() as connection:
        count, newest = connection.execute(select(func.count(), func.max(requests.c.received_wall))).one()
    return Copy(target, part.stat().st_size, count, newest, faults)


def _settle(part: Path, target: Path) -> None:
    """Onto the disk, and to its name, unless somebody has taken that meanwhile."""
    for path in (part, part.parent):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    try:
        os.link(part, target)
    except FileExistsError:
        raise StoreError(f"{target} is there already, and is not written over: name another file", "file") from None
    except OSError:  # a file system without hard links, as of a memory stick
        part.rename(target)
