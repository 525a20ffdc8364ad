"""The ledger of what was taken away: until when, by whom, on which day. Knows one table, and the time that is in our ids.

Nothing is kept of a row that is gone; its id says when it was made, and the ledger whether all of that time is gone.
Invariant: a day has one row a cause, so that the ledger stays small.
"""

from __future__ import annotations

import re
import time

from sqlalchemy import Connection, insert, select, update

from app.store.instants import iso
from app.store.models import purges

_ID = re.compile(r"(?:req|run)_([0-9a-hjkmnp-tv-z]{10})[0-9a-hjkmnp-tv-z]{16}(?![0-9a-z])")
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"


def note(connection: Connection, cause: str, until_wall: int, requests: int) -> None:
    """All before the instant that no run holds is gone, `requests` more of them now."""
    day = (iso(time.time_ns()) or "")[:10]
    mine = (purges.c.day == day) & (purges.c.cause == cause)
    found = connection.execute(select(purges).where(mine)).mappings().first()
    if found is None:
        row = {"day": day, "cause": cause, "until_wall": until_wall, "requests": requests}
        connection.execute(insert(purges), [row])
        return
    until = max(found["until_wall"], until_wall)
    connection.execute(update(purges).where(mine).values(until_wall=until, requests=found["requests"] + requests))


def absent(connection: Connection, kind: str, id: str) -> str:
    """What to say of a request or run that is not here."""
    why = words(connection, id)
    return f"no {kind} {id!r}" + (f": {why}" if why else "")


def words(connection: Connection, id: str) -> str | None:
    """'purged by retention on 2026-11-30', where that is what became of it; None where nobody knows of it."""
    match = _ID.match(id)
    if match is None:
        return None
    made = 0
    for letter in match[1]:
        made = made << 5 | _DIGITS.index(letter)
    table = purges.c
    question = select(table.day, table.cause).where(table.until_wall > made * 1_000_000).order_by(table.day, table.cause)
    found = connection.execute(question.limit(1)).first()
    return None if found is None else f"purged by {'retention' if found.cause == 'retention' else 'an operator'} on {found.day}"
