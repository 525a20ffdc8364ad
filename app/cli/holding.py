"""The data directory, held as a server holds it: for commands that write while none runs. Knows the lock, no table."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.cli.failures import CommandError


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """The data directory, locked as a server locks it."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(f"a server holds {directory}: its schema is current, or is just being made so") from None
        yield
