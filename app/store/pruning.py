"""Retention in rounds: each goes on where the last one ended, and says how far it is. For a server's calls and for commands.

Knows no HTTP. Invariant: a round is the same whoever asks for it.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import Any

from sqlalchemy import Connection

from app.store import database
from app.store.instants import iso
from app.store.retention import EARLIEST, Rule, prune

ALONE_S = 0.2  # of a transaction where no accept waits for it


def pruned(connection: Connection, rule: Rule, since: int | None, seconds: float) -> Generator[None, None, dict[str, Any]]:
    """A job: about `seconds` of it; {removed, reached (ISO 8601), done, bytes}."""
    told = yield from prune(connection, rule, time.time_ns(), since or EARLIEST, seconds)
    return told | {"reached": iso(told["reached"])}


def prune_here(url: str, rule: Rule, seconds: float) -> Iterator[dict[str, Any]]:
    """All of it, now, round by round: for a command that holds the data directory's lock."""
    since: int | None = None
    with database.writing(url).connect() as connection:
        while True:
            told = _round(connection, rule, since, seconds)
            since = told["reached"]
            yield told | {"reached": iso(since)}
            if told["done"]:
                return


def _round(connection: Connection, rule: Rule, since: int | None, seconds: float) -> dict[str, Any]:
    work = prune(connection, rule, time.time_ns(), since or EARLIEST, seconds, ALONE_S)
    while True:
        with connection.begin():
            try:
                next(work)
            except StopIteration as end:
                told: dict[str, Any] = end.value
                return told
