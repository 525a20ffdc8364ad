"""Place: the file that the records are written to, by inode. Knows paths, no SQL.

SQLite goes on writing to a file that was removed or renamed, and would make an empty one on the next opening: both lose
records in silence. Invariant: `missing` is None only if the paths still name the files that were noted.
"""

from __future__ import annotations

import logging
from pathlib import Path

from app.store.errors import StoreLost

log = logging.getLogger("batchscope")

Identity = tuple[int, int]


class Place:
    """A database file and its write-ahead log, as long as one connection holds them open."""

    def __init__(self, path: Path) -> None:
        self._paths = (path, path.with_name(path.name + "-wal"))
        self._noted: dict[Path, Identity] = {}
        self._told = False

    def note(self) -> None:
        """Remember the files that are there now, where not done yet; called after each commit."""
        if len(self._noted) < len(self._paths):
            for path in self._paths:
                if path not in self._noted and (identity := _identity(path)) is not None:
                    self._noted[path] = identity

    def release(self) -> None:
        """The connection is closed: SQLite may remove the log itself."""
        self._noted.pop(self._paths[1], None)

    def missing(self) -> StoreLost | None:
        """Which file is gone or another one; said in the log once for each time that it happens."""
        for path, identity in self._noted.items():
            now = _identity(path)
            if now != identity:
                what = "was removed" if now is None else "was replaced by another file"
                error = StoreLost(f"{path} {what} while the server runs; nothing more is accepted until it is back", "database")
                if not self._told:
                    log.critical("%s", error.message)
                self._told = True
                return error
        if self._told:
            log.warning("%s is back", self._paths[0])
        self._told = False
        return None


def _identity(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
