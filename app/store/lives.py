"""What computed: the newest engine life of the records, and that of each run. Reads the table of lives, no step.

A life of the web process computes nothing and is none of these, nor is a number that was only set aside.
Invariant: what is not known is None, never a default.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, select

from app.store.life_numbers import AHEAD_OF_LIVES
from app.store.models import boots
from app.store.own_lives import own_lives

Life = dict[str, Any]  # runner, hardware (None: it computed on this machine), model
_NAMES = ("runner", "hardware", "model")
_COMPUTED = boots.c.runner.not_in(("web", AHEAD_OF_LIVES))


def newest(connection: Connection) -> Life | None:
    """The last life that was lived here."""
    engines = select(*[boots.c[name] for name in _NAMES]).where(boots.c.boot > 0, _COMPUTED)
    row = connection.execute(engines.order_by(boots.c.boot.desc()).limit(1)).mappings().first()
    return None if row is None else dict(row)


def of_runs(connection: Connection, rows: Iterable[Mapping[str, Any]]) -> dict[str, Life | None]:
    """By run: of a simulated or imported one its own life, else the last that had begun when the run ended."""
    question = select(boots.c.boot, boots.c.wall, *[boots.c[name] for name in _NAMES]).where(_COMPUTED)
    lives = {row["boot"]: row for row in connection.execute(question.order_by(boots.c.wall, boots.c.boot)).mappings()}
    here = [row for boot, row in lives.items() if boot > 0]
    began = [row["wall"] for row in here]
    found = dict[str, Life | None]()
    for row in rows:
        own = own_lives(row["versions"])
        if own is None:
            place = len(here) if row["ended_wall"] is None else bisect_right(began, row["ended_wall"])
            life = here[place - 1] if place else None
        else:
            life = lives.get(own[-1]) if own else None
        found[row["id"]] = None if life is None or row["foreign_target"] else {name: life[name] for name in _NAMES}
    return found
