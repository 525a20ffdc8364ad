"""What did not end well in a run, as its client saw it: alike ones together. One statement; knows no report.

Invariant: of up to MOST_GROUPS sorts, the counts add up to the failed and refused requests of the report.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from app.store.models import client_requests

MOST_GROUPS = 50
_WELL = ("ok", "incomplete", "client_cancel")  # the run's end, or the scenario, cut those off


def groups(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """{status, http, error, count, first_s, last_s, sample}, the most frequent first, so many at most.

    first_s, last_s: seconds of the run at which the first and the last of them ended; sample: the server's id of one of them,
    None where none of them reached it.
    """
    table = client_requests.c
    alike = table.status, table.http, table.error
    seen = func.count().label("count"), func.min(table.end_ms), func.max(table.end_ms), func.max(table.server_id)
    asked = select(*alike, *seen).where(table.run == run_id, table.status.not_in(_WELL)).group_by(*alike)
    rows = connection.execute(asked.order_by(func.count().desc(), *alike).limit(MOST_GROUPS))
    return [
        dict(status=status, http=http, error=error, count=n, first_s=_s(first), last_s=_s(last), sample=sample)
        for status, http, error, n, first, last, sample in rows
    ]


def _s(ms: float | None) -> float | None:
    return None if ms is None else round(ms / 1e3, 3)
