"""What a request waited for, stretch by stretch, and who held it meanwhile. Knows the tables of events and steps, no HTTP.

A step says who held what only when that is news (scheduler/core/blockers.py), and always when another constraint binds: so
the steps that say so, between its arrival and its admission, are where its stretches begin. While it was parked, the cause
and the set are its own. Labels, made from the steps' planning; the exact sums are the row's waits.
Invariant: the stretches of a sequence follow each other without a hole, from its arrival to its first admission or its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, select

from app.store.models import steps

MAX_STRETCHES = 500
MAX_SEQUENCES = 16


@dataclass(slots=True)
class Wait:
    """The first wait of one sequence in one engine life. `until` None: it still waits, or its engine died."""

    sequence: str
    boot: int
    seq: int
    begins: int
    until: int | None = None
    parkings: list[tuple[int, int | None, dict[str, Any]]] | None = None  # (from, to, data of RequestParked)


def waited_json(connection: Connection, events: Sequence[RowMapping], received_at: int) -> list[dict[str, Any]]:
    """Stretches of all sequences, by sequence and time: sequence, from_ms, to_ms (None: goes on), reason, blockers."""
    found: list[dict[str, Any]] = []
    for wait in list(_waits(events))[:MAX_SEQUENCES]:
        for begins, ends, reason, blockers in _stretches(connection, wait):
            found.append(
                {
                    "sequence": wait.sequence,
                    "from_ms": (begins - received_at) / 1e6,
                    "to_ms": None if ends is None else (ends - received_at) / 1e6,
                    "reason": reason,
                    "blockers": blockers,
                }
            )
    return found[:MAX_STRETCHES]


def _waits(events: Sequence[RowMapping]) -> Iterator[Wait]:
    """One of each sequence: that of the life that admitted or ended it, else of the newest one."""
    waits: dict[str, Wait] = {}
    for event in events:
        sequence, kind, at, data = event["sequence_id"], event["kind"], event["at"], event["data"] or {}
        wait = waits.get(sequence)
        if kind == "RequestQueued":
            waits[sequence] = Wait(sequence, event["boot"], event["seq"], at, parkings=[])
        elif wait is None or wait.until is not None or wait.parkings is None or event["boot"] != wait.boot:
            continue
        elif kind == "RequestParked":
            wait.parkings.append((at, None, data))
        elif kind in ("RequestUnparked", "RequestScheduled", "RequestFinished"):
            if wait.parkings and wait.parkings[-1][1] is None:
                wait.parkings[-1] = (wait.parkings[-1][0], at, wait.parkings[-1][2])
            if kind != "RequestUnparked":
                wait.until = at
    yield from waits.values()


Stretch = tuple[int, int | None, str, dict[str, Any] | None]


def _stretches(connection: Connection, wait: Wait) -> Iterator[Stretch]:
    """The open queue's stretches, with the parkings cut out of them."""
    at = wait.begins
    common = list(_common(connection, wait))
    for begins, ends, data in wait.parkings or []:
        yield from _within(common, at, begins)
        yield begins, ends, data["cause"], data.get("blockers")
        if ends is None:
            return
        at = ends
    yield from _within(common, at, wait.until)


def _within(common: list[Stretch], begins: int, ends: int | None) -> Iterator[Stretch]:
    for since, until, reason, blockers in common:
        first = max(since, begins)
        last = ends if until is None else until if ends is None else min(until, ends)
        if last is None or first < last:
            yield first, last, reason, blockers


def _common(connection: Connection, wait: Wait) -> Iterator[Stretch]:
    """What bound the open queue from `wait.begins` on: first what bound it then, then each step with news."""
    table = steps.c
    since, reason, blockers = wait.begins, *_at_arrival(connection, wait)
    question = select(table.started_at, table.blockers).where(
        table.boot == wait.boot, table.seq > wait.seq, table.blockers.is_not(None), table.started_at > wait.begins
    )
    if wait.until is not None:
        question = question.where(table.started_at < wait.until)
    for row in connection.execute(question.order_by(table.seq).limit(MAX_STRETCHES)):
        yield since, row.started_at, reason, blockers
        since, reason, blockers = row.started_at, row.blockers["reason"], row.blockers
    yield since, None, reason, blockers


def _at_arrival(connection: Connection, wait: Wait) -> tuple[str, dict[str, Any] | None]:
    """What bound the step that ran when it came; where that left nobody waiting, it only waits for the next step."""
    table = steps.c
    own = table.boot == wait.boot
    ran = _first(connection, own, table.seq > wait.seq)  # reported after it came
    if ran is None or ran.started_at > wait.begins:
        ran = _first(connection, own, table.seq < wait.seq, newest=True)
    if ran is None or ran.binding == "step":
        return "step", None
    told = _first(connection, own, table.seq <= ran.seq, table.blockers.is_not(None), newest=True)
    return ran.binding, None if told is None or told.blockers["reason"] != ran.binding else told.blockers


def _first(connection: Connection, *where: ColumnElement[bool], newest: bool = False) -> Any:
    """The oldest step, or the newest, that satisfies `where`."""
    table = steps.c
    question = select(table.seq, table.started_at, table.binding, table.blockers).where(*where)
    return connection.execute(question.order_by(table.seq.desc() if newest else table.seq).limit(1)).first()
