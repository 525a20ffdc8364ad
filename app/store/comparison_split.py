"""One run as two: before and after its settings changed in mid-run. Hands rows on; computes no figure.

A request is on the side on which it arrived, however long it lived; a step on the side on which it ended. So what arrived
before the change and ended after it is counted before, and named, since a part of its life had the new settings.
Invariant: every row of the run is on exactly one side.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, select

from app.store.errors import QueryError
from app.store.instants import iso
from app.store.models import boots, settings_changes
from app.store.packing import unpack_gaps
from app.store.report_figures import origin
from app.store.report_rows import Gathered, Row, relapses_of

_SECONDS = re.compile(r"[0-9]{1,7}(\.[0-9]{1,6})?s")


@dataclass(frozen=True, slots=True)
class Change:
    """Settings that changed while requests of a run arrived. at_s: since its t = 0; wall: epoch ns."""

    boot: int
    wall: int
    at_s: float
    version: int | None
    changes: dict[str, Any]

    @property
    def as_json(self) -> dict[str, Any]:
        """As the API shows it."""
        return {"version": self.version, "at_s": self.at_s, "changes": self.changes}


@dataclass(frozen=True, slots=True)
class Half:
    """One side. since, until: epoch ns of arrival; None is no bound."""

    found: Gathered
    side: str
    since: int | None = None
    until: int | None = None

    @property
    def as_json(self) -> dict[str, Any]:
        """What narrows a list of requests down to it."""
        return {"side": self.side, "since": iso(self.since), "until": iso(self.until)}


def zero(found: Gathered) -> int:
    """Epoch ns of a run's t = 0."""
    return origin(found.server, found.client, found.start_wall)


def changes_in(connection: Connection, found: Gathered) -> list[Change]:
    """What changed after the first request had arrived and before the last one did; oldest first."""
    arrivals = [row["received_wall"] for row in found.server]
    lives = sorted({step.boot for step in found.steps})
    if not arrivals or not lives:
        return []
    table, start = settings_changes.c, zero(found)
    asked = select(settings_changes).where(table.boot.in_(lives), table.wall > min(arrivals), table.wall <= max(arrivals))
    rows = connection.execute(asked.order_by(table.wall, table.seq)).mappings()
    return [
        Change(row["boot"], row["wall"], round((row["wall"] - start) / 1e9, 3), row["version"], dict(row["changes"] or {}))
        for row in rows
    ]


def split(connection: Connection, found: Gathered, text: str) -> tuple[Change, list[Half]]:
    """At a settings version (`7`) or an instant of the run (`12.5s`): the change, and both sides."""
    change = _asked(connection, found, text)
    server = [row["received_wall"] < change.wall for row in found.server]
    walls = _client_walls(found)
    client = [wall < change.wall for wall in walls]
    if all(server) and all(client) or not any(server) and not any(client):
        raise QueryError(f"split {text} leaves no request on one side of it", "split")
    settings = _settings_before(connection, found, change)
    steps = [step.ended_wall < change.wall for step in found.steps]
    early = _half(connection, found, server, client, steps, True)
    late = _half(connection, found, server, client, steps, False)
    return change, [
        Half(replace(early, settings=settings), "before", until=change.wall),
        Half(replace(late, settings=settings | change.changes), "after", since=change.wall),
    ]


def across(found: Gathered, wall: int) -> int:
    """How many requests arrived before an instant and ended after it, or not at all."""
    return sum(row["received_wall"] < wall and _ended_wall(row) > wall for row in found.server)


def _ended_wall(row: Row) -> float:
    lived = row["finished_at"]
    return float("inf") if lived is None else row["received_wall"] + lived - row["received_at"]


def _asked(connection: Connection, found: Gathered, text: str) -> Change:
    changes = changes_in(connection, found)
    if _SECONDS.fullmatch(text):
        at_s = float(text[:-1])
        wall = zero(found) + round(at_s * 1e9)
        return Change(found.life.get("boot", 0), wall, at_s, None, {})
    for change in changes:
        if str(change.version) == text:
            return change
    known = ", ".join(str(change.version) for change in changes) or "none"
    raise QueryError(
        f"split must be an instant of the run such as 12.5s, or a settings version that came while its requests arrived "
        f"({known}), not {text[:40]!r}",
        "split",
    )


def _client_walls(found: Gathered) -> list[float]:
    """When each request of the client arrived; one that the server has no row of: when it was sent."""
    arrived = {row["client_request_id"]: row["received_wall"] for row in found.server}
    start = zero(found)
    return [arrived.get(row["client_request_id"], start + _left_ms(row) * 1e6) for row in found.client]


def _left_ms(row: Row) -> float:
    return next((float(row[name]) for name in ("sent_ms", "due_ms") if row[name] is not None), 0.0)


def _half(
    connection: Connection, found: Gathered, server: list[bool], client: list[bool], steps: list[bool], side: bool
) -> Gathered:
    """The rows whose mark is `side`."""
    kept = [row for row, mark in zip(found.server, server, strict=True) if mark is side]
    seen = [row for row, mark in zip(found.client, client, strict=True) if mark is side]
    gaps = array("d")
    for row in seen:
        if row["status"] == "ok":
            gaps.extend(unpack_gaps(row["gaps"]))
    return replace(
        found,
        server=kept,
        client=seen,
        gaps=gaps,
        steps=[step for step, mark in zip(found.steps, steps, strict=True) if mark is side],
        relapses=list(relapses_of(connection, [row["id"] for row in kept if row["preemptions"]])),
    )


def _settings_before(connection: Connection, found: Gathered, change: Change) -> dict[str, Any]:
    """The settings in effect until a change came."""
    life = connection.execute(select(boots.c.settings).where(boots.c.boot == change.boot)).scalar()
    settings: dict[str, Any] = dict(life or found.settings)
    table = settings_changes.c
    earlier = select(table.changes).where(table.boot == change.boot, table.wall < change.wall).order_by(table.seq)
    for changes in connection.execute(earlier).scalars():
        settings |= changes or {}
    return settings
