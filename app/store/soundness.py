"""Is a database sound? The engine's own check of pages and indexes, and what every record must satisfy. Only reads.

Invariant: an empty answer means that nothing was found wrong, not that nothing was asked.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from app.store import database

# Each counts the rows that break a promise of the records; all must be 0.
_PROMISES = {
    "finished requests have no end": "SELECT count(*) FROM requests WHERE state = 'finished' AND finish IS NULL",
    "live requests have an end": "SELECT count(*) FROM requests WHERE state <> 'finished' AND finish IS NOT NULL",
    "requests end before they were received": "SELECT count(*) FROM requests WHERE finished_at < received_at",
    "steps end before they begin": "SELECT count(*) FROM steps WHERE ended_at < started_at",
}


def faults(url: str) -> list[str]:
    """What is wrong, a sentence each."""
    engine = database.reading(url)
    with engine.connect() as connection:
        found = _damage(connection) if database.is_sqlite(url) else []
        return found or _broken_promises(connection)


def quick(url: str) -> list[str]:
    """The same of the file alone, and of that without comparing indexes with their tables. Nothing of a database server."""
    if not database.is_sqlite(url):
        return []
    with database.reading(url).connect() as connection:
        said = [str(row[0]) for row in connection.execute(text("PRAGMA quick_check"))]
    return [] if said == ["ok"] else said


def _damage(connection: Connection) -> list[str]:
    said = [str(row[0]) for row in connection.execute(text("PRAGMA integrity_check"))]
    return [] if said == ["ok"] else said


def _broken_promises(connection: Connection) -> list[str]:
    counts = {what: connection.execute(text(query)).scalar_one() for what, query in _PROMISES.items()}
    return [f"{count} {what}" for what, count in counts.items() if count]
