"""A run under another id: its requests get other ids too, so that it may stand beside the one that it was. Knows no row.

Invariant: the same run under the same id has the same names; an id still begins with the instant at which it was made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from sqlalchemy import Table

_STAMP, _LENGTH = 14, 30  # characters of an id of ours: those that say when, all
_IDS = {
    "runs": ("id",),
    "requests": ("id", "run"),
    "request_events": ("request_id", "sequence_id"),
    "client_requests": ("run", "server_id"),
}
Row = dict[str, Any]


def renaming(run: str, name: str) -> Callable[[Table, Row], Row]:
    """What turns a row of `run` into one of the run `name`."""
    if name == run:
        return lambda table, row: row

    def another(text: str) -> str:
        if text == run or text.startswith(f"{run}-"):
            return name + text[len(run) :]
        key, slash, rest = text.partition("/")
        made = hashlib.sha256(f"{name}\n{key}".encode()).hexdigest()
        return f"{key[:_STAMP]}{made[: _LENGTH - _STAMP]}{slash}{rest}"

    def renamed(table: Table, row: Row) -> Row:
        return row | {field: another(row[field]) for field in _IDS.get(table.name, ()) if row.get(field) is not None}

    return renamed
