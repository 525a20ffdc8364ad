"""What a database means when it refuses: the driver's error → one of ours. Knows SQLite's codes and PostgreSQL's SQLSTATEs, no
table and no thread.

Invariant: every error has an answer; what is not recognised is StoreFailed, with the database's own words.
"""

from __future__ import annotations

import sqlite3

from app.store.errors import DatabaseDamaged, DatabaseUnusable, StoreError, StoreFailed, StoreFull, StoreLocked

_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NO_ROOM = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)  # what a file-size limit says, beside SQLITE_FULL
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LOCKED_STATES = ("55P03",)  # lock_not_available: lock_timeout passed
_FULL_STATES = ("53100",)  # disk_full


def refused(error: Exception) -> StoreFailed:
    """Why a write failed."""
    if isinstance(error, StoreFailed):
        return error
    code, state = _code(error), _state(error)
    kind: type[StoreFailed] = StoreFailed
    if code & 0xFF in _LOCKED or state in _LOCKED_STATES:
        kind = StoreLocked
    elif code & 0xFF == sqlite3.SQLITE_FULL or code in _NO_ROOM or state in _FULL_STATES:
        kind = StoreFull
    failure = kind(f"the records could not be written: {first_line(error)}")
    failure.__cause__ = error
    return failure


def unread(error: Exception) -> StoreFailed:
    """Why a question could not be asked."""
    return StoreFailed(f"the records cannot be read: {first_line(error)}")


def damaged(path: object, said: str) -> DatabaseDamaged:
    """The file is no sound database; `said`: how it shows."""
    return DatabaseDamaged(f"{path} is damaged ({said}): left as it is; restore a copy or move it away", "database")


def unusable(error: Exception, path: object) -> StoreError:
    """Why a database cannot be started on."""
    code = _code(error)
    if code & 0xFF in _DAMAGED:
        return damaged(path, _said(error))
    if code & 0xFF in _LOCKED or _state(error) in _LOCKED_STATES:
        return DatabaseUnusable(f"{path} is locked by another process", "database")
    return DatabaseUnusable(f"cannot use {path}: {_said(error)}", "database")


def first_line(error: BaseException) -> str:
    """Kind and words of an error, short."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


def _said(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).splitlines()[0][:200]


def _code(error: Exception) -> int:
    """SQLite's extended result code; 0 when it is no error of SQLite's."""
    return int(getattr(getattr(error, "orig", error), "sqlite_errorcode", 0) or 0)


def _state(error: Exception) -> str:
    """PostgreSQL's SQLSTATE; "" when it is no error of a server's."""
    return str(getattr(getattr(error, "orig", error), "sqlstate", None) or "")
