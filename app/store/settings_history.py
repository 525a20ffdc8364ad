"""The history of the scheduler's settings: who serves was changed from what to what, when, and during which run.

Both ways are told: a PATCH between two steps, and a start with other settings than the engine before it ended with. Who asked
is not in the records. Knows no HTTP. Invariant: folding the changes of a life over its first settings gives those in effect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.engine import RowMapping

from app.store.errors import QueryError
from app.store.filters import limit
from app.store.instants import iso
from app.store.models import boots, runs, settings_changes
from app.store.own_lives import own_lives
from app.store.step_rows import run_row, window

SHOWN = 50
MOST_SHOWN = 500
MOST_LIVES = 100
_LOAN_NS = 2 * 10**9  # a run's own settings are taken before there is a row of it
_PARAMS = ("run", "limit")
Row = dict[str, Any]


def changes_json(connection: Connection, params: Mapping[str, str]) -> dict[str, Any]:
    """GET /api/scheduler/changes: {items, truncated}, newest first; of `run` those from its making to its end.

    An item: boot, seq (0: the start of that engine), at, version, changes [{name, from, to}], run {id, name, at_s} or None.
    """
    for name in params:
        if name not in _PARAMS:
            raise QueryError(f"unknown parameter {name!r}", name)
    size = limit(params.get("limit"), MOST_SHOWN, SHOWN)
    since, until = _span(connection, params.get("run"))
    lives = _lives(connection, until)
    found = [row for row in _told(connection, lives) if since <= row["wall"] and (until is None or row["wall"] <= until)]
    shown = found[::-1][:size]
    told = _runs(connection, shown)
    items = [_item(row, told) for row in shown]
    return {"items": items, "truncated": len(found) > size or len(lives) == MOST_LIVES}


def _span(connection: Connection, run_id: str | None) -> tuple[int, int | None]:
    """Epoch ns. A run that was simulated or imported has lives of its own, and nobody changed anything in them here."""
    if not run_id:
        return 0, None
    row = run_row(connection, run_id)
    return (0, -1) if own_lives(row["versions"]) is not None else (row["created_wall"], row["ended_wall"])


def _lives(connection: Connection, until: int | None) -> list[RowMapping]:
    """The newest lives of an engine that were lived here, in their order."""
    table = boots.c
    asked = select(table.boot, table.wall, table.settings).where(table.boot >= 0, table.runner != "web")
    if until is not None:
        asked = asked.where(table.wall <= until)
    return list(connection.execute(asked.order_by(table.boot.desc()).limit(MOST_LIVES)).mappings())[::-1]


def _told(connection: Connection, lives: list[RowMapping]) -> list[Row]:
    """Every start with other settings and every change, oldest first. What an engine before the first of `lives` had is
    not known, so that one's start is no change."""
    table = settings_changes.c
    asked = select(settings_changes).where(table.boot >= (lives[0]["boot"] if lives else 0)).order_by(table.boot, table.seq)
    by_life = defaultdict[int, list[RowMapping]](list)
    for change in connection.execute(asked).mappings():
        by_life[change["boot"]].append(change)
    found, before = list[Row](), None
    for life in lives:
        settings: Row = dict(life["settings"] or {})
        if before is not None and (differences := _differences(before, settings)):
            found.append({"boot": life["boot"], "seq": 0, "wall": life["wall"], "version": None, "changes": differences})
        for change in by_life[life["boot"]]:
            after = settings | _reset(change["changes"] or {})
            row = {name: change[name] for name in ("boot", "seq", "wall", "version")}
            found.append(row | {"changes": _differences(settings, after)})
            settings = after
        before = settings
    return found


def _reset(changes: Mapping[str, Any]) -> Row:
    """Another policy begins with its own defaults, also where that is not said."""
    return ({"policy_params": {}} if "policy" in changes else {}) | dict(changes)


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Row]:
    names = [name for name in after if name not in before or before[name] != after[name]]
    return [{"name": name, "from": before.get(name), "to": after[name]} for name in names]


def _runs(connection: Connection, rows: Iterable[Row]) -> list[tuple[RowMapping, int]]:
    """The runs that went on at any of these instants, each with its t = 0."""
    walls = [row["wall"] for row in rows]
    if not walls:
        return []
    table = runs.c
    names = (table.id, table.scenario, table.name, table.scheduler, table.created_wall, table.ended_wall, table.versions)
    met = table.created_wall <= max(walls) + _LOAN_NS, table.ended_wall.is_(None) | (table.ended_wall >= min(walls))
    found = connection.execute(select(*names).where(*met).order_by(table.created_wall)).mappings()
    return [(run, window(connection, run["id"])[0]) for run in found if own_lives(run["versions"]) is None]


def _item(row: Row, told: list[tuple[RowMapping, int]]) -> Row:
    wall = row.pop("wall")
    item = row | {"at": iso(wall), "run": None}
    for run, start in told:
        if _lent(row, run, wall) or run["created_wall"] <= wall and (run["ended_wall"] is None or wall <= run["ended_wall"]):
            name = run["name"] or run["scenario"] or run["id"]
            item["run"] = {"id": run["id"], "name": name, "at_s": round((wall - start) / 1e9, 3)}
    return item


def _lent(row: Row, run: RowMapping, wall: int) -> bool:
    """Are these the settings that the run asked for, taken right before it was made?"""
    asked = run["scheduler"] or {}
    mine = bool(asked) and all(asked.get(each["name"], {}) == each["to"] for each in row["changes"])
    return mine and run["created_wall"] - _LOAN_NS <= wall < run["created_wall"]
