"""The statements of the writer: a batch into rows. Knows no thread and no queue; the caller holds the transaction.

Every statement is safe to repeat: inserts of events, steps and boots do nothing where the key is there already, and
updates carry absolute values.
Invariant: a second terminal event of a sequence changes nothing and is counted, never an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import compress
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from app.store import bulk
from app.store.accepted import AcceptedRow, sequence_ids
from app.store.batch import EVENT_COLUMNS, STEP_COLUMNS, Batch, Row
from app.store.models import boots, request_events, requests, runs, settings_changes, steps
from app.store.open_request import FINAL, LIVE

_IN_FLIGHT = ("pending", "running", "draining")


def insert_accepts(connection: Connection, rows: list[AcceptedRow]) -> None:
    """New rows of `requests`, waiting."""
    _insert_requests(connection, rows, Batch())


def write(connection: Connection, accepts: list[AcceptedRow], batch: Batch) -> int:
    """New rows and the batch together: what the batch knows of a new row goes into its insertion. Returns as `apply`."""
    _insert_requests(connection, accepts, batch)
    return apply(connection, batch, done=frozenset(row.id for row in accepts))


def is_there(connection: Connection, row: AcceptedRow) -> bool:
    """Is this very row in the database? Asked after a commit whose outcome is unknown."""
    return connection.execute(select(requests.c.id).where(_very(row))).first() is not None


def withdraw(connection: Connection, rows: list[AcceptedRow]) -> None:
    """Rows that were refused to their clients after a commit of unknown outcome: should they be there, they go."""
    for row in rows:
        connection.execute(delete(requests).where(_very(row)))


def _very(row: AcceptedRow) -> ColumnElement[bool]:
    table = requests.c
    return (table.id == row.id) & (table.received_at == row.received_at) & (table.received_wall == row.received_wall)


def apply(connection: Connection, batch: Batch, done: frozenset[str] = frozenset()) -> int:
    """The whole batch, but for updates of the rows `done`; returns how many terminal events were refused as second ones."""
    for table, rows in ((boots, batch.boots), (settings_changes, batch.settings)):
        bulk.insert(connection, table, rows, ignoring=True)
    bulk.insert_tuples(connection, steps, STEP_COLUMNS, batch.steps)
    bulk.insert_tuples(connection, request_events, EVENT_COLUMNS, batch.events)
    refused = len(batch.terminals) - bulk.insert_tuples(connection, request_events, EVENT_COLUMNS, batch.terminals)
    for names, known in ((LIVE, batch.live), (FINAL, batch.final)):
        bulk.update_tuples(connection, requests, names, [row for key, row in known.items() if key not in done])
    for key, columns in batch.amends.items():
        bulk.update(connection, requests, [columns | {bulk.KEY: key}])
    return refused


def pieces(batch: Batch) -> Iterator[Batch]:
    """The batch row by row, for when one row of it is at fault and the others must not suffer."""
    for row in batch.boots:
        yield Batch(boots=[row])
    for row in batch.settings:
        yield Batch(settings=[row])
    for step in batch.steps:
        yield Batch(steps=[step])
    for event in batch.events:
        yield Batch(events=[event])
    for event in batch.terminals:
        yield Batch(terminals=[event])
    for key, live in batch.live.items():
        yield Batch(live={key: live})
    for key, final in batch.final.items():
        yield Batch(final={key: final})
    for key, amended in batch.amends.items():
        yield Batch(amends={key: amended})


def begin_life(connection: Connection, wall: int, mono: int, pid: int) -> int:
    """Number this life of the web process, and end what an earlier one left open: `error: web_crash`."""
    queued = request_events.c.kind == "RequestQueued"
    lives = [_last_boot(connection, table.c.boot) for table in (boots, steps, settings_changes)]
    boot = 1 + max(0, *lives, _last_boot(connection, request_events.c.boot, queued))
    row = {"boot": boot, "wall": wall, "mono": mono, "runner": "web", "web_pid": pid, "created": wall}
    bulk.insert(connection, boots, [row])
    _end_open_requests(connection, boot, mono)
    left = runs.c.status.in_(_IN_FLIGHT)
    connection.execute(update(runs).where(left).values(status="failed", error="web_crash", ended_wall=wall))
    return boot


def _end_open_requests(connection: Connection, boot: int, mono: int) -> None:
    """One terminal event a sequence, authored by the web's new life. When they really ended nobody knows: NULL."""
    left = connection.execute(select(requests.c.id, requests.c.sequences).where(requests.c.state != "finished")).all()
    ids = [sequence for key, sequences in left for sequence in sequence_ids(key, sequences)]
    shared: Row = {"boot": boot, "kind": "RequestFinished", "at": mono, "terminal": True}
    shared["data"] = {"reason": "error", "detail": "web_crash", "output_tokens": None}
    rows = [
        shared | {"seq": seq, "request_id": sequence.partition("/")[0], "sequence_id": sequence}
        for seq, sequence in enumerate(ids, start=-len(ids))  # below the seqs that the web will author while it lives
    ]
    bulk.insert(connection, request_events, rows, ignoring=True)
    ended = {"state": "finished", "finish": "error", "detail": "web_crash"}
    connection.execute(update(requests).where(requests.c.state != "finished").values(ended))


def _last_boot(connection: Connection, boot: ColumnElement[int], *where: ColumnElement[bool]) -> int:
    return connection.execute(select(func.max(boot)).where(*where)).scalar() or 0


def _insert_requests(connection: Connection, rows: list[AcceptedRow], batch: Batch) -> None:
    """New rows of `requests`, with what the batch knows of them already.

    What is not named in a statement is NULL. Rows that lack the same columns share one which leaves these out, since handing a
    None over takes the driver six times as long as an int.
    """
    alike: dict[tuple[str, tuple[bool, ...], bool], list[tuple[Any, ...]]] = {}
    for row in rows:
        if (known := batch.final.get(row.id)) is not None:
            stage = "ended"
        elif (known := batch.live.get(row.id)) is not None:
            stage, known = "open", (row.prompt_tokens, *known)
        else:
            stage, known = "new", (row.prompt_tokens, row.policy, "waiting", row.id)
        optional = _optional(row)
        made = (*_required(row), *[value for value in optional if value is not None], *known)
        if row.ignored_fields:
            made = (*made, bulk.dump(list(row.ignored_fields)))
        form = (stage, tuple([value is not None for value in optional]), bool(row.ignored_fields))
        if form in alike:
            alike[form].append(made)
        else:
            alike[form] = [made]
    for form, given in alike.items():
        bulk.insert_tuples(connection, requests, _names(*form), given, ignoring=False)


@cache
def _names(stage: str, present: tuple[bool, ...], ignored: bool) -> tuple[str, ...]:
    """The columns of a new row at this stage, of the optional ones those that are present."""
    return (*_REQUIRED, *compress(_OPTIONAL, present), *_STAGES[stage], *(_JSON if ignored else ()))


_JSON = ("ignored_fields",)
_STAGES = {"new": ("prompt_tokens", "policy", "state", "id"), "open": ("prompt_tokens", *LIVE), "ended": FINAL}
_OPTIONAL = (
    "model", "run", "client_request_id", "max_tokens", "deadline_ms", "timeout_ms", "prompt_hash", "prompt_text",
)  # fmt: skip
_REQUIRED = tuple(spec.name for spec in fields(AcceptedRow) if spec.name not in (*_OPTIONAL, *_STAGES["new"], *_JSON))
_optional = attrgetter(*_OPTIONAL)
_required = attrgetter(*_REQUIRED)
