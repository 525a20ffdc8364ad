"""A run as one file, to be kept or moved: its rows, and those of its requests, their events, its steps and its engine lives.

Format, version 1: gzip of UTF-8 lines. First an object that says what this is and which columns each table has; then a row a
line, `[table, value, …]`, bytes in base64; last `{"rows": {table: n}, "sha256": …}` over the lines of rows. Lives are numbered
from 1, whatever their numbers were here, and the kept report is left out, since the rows give it: so that the same run has
the same lines wherever it is. Knows no HTTP and holds no connection: the caller fetches page by page.
Invariant: what has been streamed to its last byte is the whole run.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, RowMapping, Table, func, select, tuple_

from app.store import migrate
from app.store.errors import StoreError
from app.store.instants import iso
from app.store.models import boots, client_requests, request_events, requests, runs, settings_changes, steps
from app.store.own_lives import IMPORTED, renumbered
from app.store.runs import ACTIVE
from app.store.step_rows import of_run, run_row
from app.version import VERSION

FORMAT, FORMAT_VERSION = "batchscope run", 1
MEDIA = "application/gzip"
SUFFIX = ".batchscope-run.gz"
TABLES = (runs, boots, settings_changes, requests, client_requests, request_events, steps)
LEFT_OUT = {"runs": ("report",)}
TEXTS = ("prompt_text", "output_text")
_PAGE = 500
_LEVEL = 6
_GZIP = 31  # zlib's word for a gzip header
Ask = Callable[..., Any]
Key = tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be written. numbers: a life's number here → in the file."""

    run: str
    numbers: dict[int, int]
    text: bool


def columns(table: Table) -> list[str]:
    """The columns of a table that a bundle has, in its order."""
    return [str(column.name) for column in table.columns if column.name not in LEFT_OUT.get(table.name, ())]


def inflater() -> Any:
    """What turns the pieces of a bundle into its lines again."""
    return zlib.decompressobj(_GZIP)


def stream(ask: Ask, run_id: str, *, text: bool = False) -> Iterator[bytes]:
    """The file, in pieces. `text`: with the prompts and outputs that were recorded. ask(function, *args) questions.

    Raises at once: QueryError("run") where there is no such run, StoreError("run") while it, or a request of it, goes on.
    """
    return _zipped(ask, ask(_plan, run_id, text))


def digest(ask: Ask, run_id: str, *, text: bool = False) -> str:
    """SHA-256 of the run's content: equal for the same run here and elsewhere."""
    summed = hashlib.sha256()
    plan = ask(_plan, run_id, text)
    for line in _rows(ask, plan, Counter()):
        summed.update(line)
    return summed.hexdigest()


def _zipped(ask: Ask, plan: Plan) -> Iterator[bytes]:
    deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    summed, counts = hashlib.sha256(), Counter[str]()
    yield deflater.compress(orjson.dumps(_head(plan)) + b"\n")
    for line in _rows(ask, plan, counts):
        summed.update(line)
        if piece := deflater.compress(line):
            yield piece
    told = {"rows": {str(table.name): counts[table.name] for table in TABLES}, "sha256": summed.hexdigest()}
    yield deflater.compress(orjson.dumps(told) + b"\n") + deflater.flush()


def _head(plan: Plan) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "batchscope": VERSION,
        "schema": migrate.head(),
        "run": plan.run,
        "exported": iso(time.time_ns()),
        "text": plan.text,
        "lives": len(plan.numbers),
        "columns": {str(table.name): columns(table) for table in TABLES},
    }


def _plan(connection: Connection, run_id: str, text: bool) -> Plan:
    if run_row(connection, run_id)["status"] in ACTIVE:
        raise StoreError(f"run {run_id} is active: it can be exported once it has ended", "run")
    table = requests.c
    if connection.execute(select(table.id).where(table.run == run_id, table.state != "finished").limit(1)).first():
        raise StoreError(f"requests of run {run_id} have not ended: try again once they have", "run")
    joined = request_events.join(requests, table.id == request_events.c.request_id)
    asked = (
        select(steps.c.boot).where(of_run(connection, run_id)),
        select(request_events.c.boot).select_from(joined).where(table.run == run_id),
        select(table.boot).where(table.run == run_id, table.boot.is_not(None)),
    )
    lives = {boot for question in asked for boot in connection.execute(question.distinct()).scalars()}
    return Plan(run_id, {boot: n for n, boot in enumerate(sorted(lives), 1)}, text)


def _rows(ask: Ask, plan: Plan, counts: Counter[str]) -> Iterator[bytes]:
    for page in (_heads, _request_page, _client_page, _event_page, _step_page):
        after: Key = None
        while True:
            rows, after = ask(page, plan, after)
            for table, row in rows:
                counts[table.name] += 1
                yield _line(table, row, plan)
            if after is None:
                break


def _line(table: Table, row: Mapping[str, Any], plan: Plan) -> bytes:
    values = dict(row)
    if values.get("boot") is not None:
        values["boot"] = plan.numbers[values["boot"]]
    if table is runs:
        told = renumbered(values["versions"], plan.numbers)
        values["versions"] = {name: value for name, value in (told or {}).items() if name != IMPORTED} or None
    if table is requests and not plan.text:
        values |= dict.fromkeys(TEXTS)
    plain = [_plain(values[name]) for name in columns(table)]
    return orjson.dumps([str(table.name), *plain], option=orjson.OPT_NON_STR_KEYS) + b"\n"


def _plain(value: Any) -> Any:
    return b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def _heads(connection: Connection, plan: Plan, after: Key) -> tuple[list[tuple[Table, RowMapping]], Key]:
    """The run's own row, its lives, and the changes of settings in them until it ended."""
    run = run_row(connection, plan.run)
    found: list[tuple[Table, RowMapping]] = [(runs, run)]
    for table in (boots, settings_changes):
        question = select(table).where(table.c.boot.in_(plan.numbers)).order_by(*table.primary_key.columns)
        if table is settings_changes and run["ended_wall"] is not None:
            question = question.where(table.c.wall <= run["ended_wall"])
        found += [(table, row) for row in connection.execute(question).mappings()]
    return found, None


def _request_page(connection: Connection, plan: Plan, after: Key) -> tuple[list[tuple[Table, RowMapping]], Key]:
    table = requests.c
    question = select(requests).where(table.run == plan.run)
    if after is not None:
        question = question.where(tuple_(table.received_wall, table.id) > after)
    rows = connection.execute(question.order_by(table.received_wall, table.id).limit(_PAGE)).mappings().all()
    return _paged(requests, rows, ("received_wall", "id"))


def _client_page(connection: Connection, plan: Plan, after: Key) -> tuple[list[tuple[Table, RowMapping]], Key]:
    table = client_requests.c
    question = select(client_requests).where(table.run == plan.run)
    if after is not None:
        question = question.where(table.client_request_id > after[0])
    rows = connection.execute(question.order_by(table.client_request_id).limit(_PAGE)).mappings().all()
    return _paged(client_requests, rows, ("client_request_id",))


def _event_page(connection: Connection, plan: Plan, after: Key) -> tuple[list[tuple[Table, RowMapping]], Key]:
    """The events of a page of requests."""
    table, events = requests.c, request_events.c
    question = select(table.received_wall, table.id).where(table.run == plan.run)
    if after is not None:
        question = question.where(tuple_(table.received_wall, table.id) > after)
    some = connection.execute(question.order_by(table.received_wall, table.id).limit(_PAGE)).all()
    asked = select(request_events).where(events.request_id.in_([row.id for row in some]))
    rows = connection.execute(asked.order_by(events.request_id, events.boot, events.seq)).mappings()
    last = (some[-1].received_wall, some[-1].id) if len(some) == _PAGE else None
    return [(request_events, row) for row in rows], last


def _step_page(connection: Connection, plan: Plan, after: Key) -> tuple[list[tuple[Table, Mapping[str, Any]]], Key]:
    """Of one life at a time, so that a page is a stretch of the primary key."""
    lives, table = sorted(plan.numbers), steps.c
    boot, seq = after if after is not None else (lives[0] if lives else 0, None)
    question = select(steps).where(of_run(connection, plan.run), table.boot == boot)
    if seq is not None:
        question = question.where(table.seq > seq)
    rows = [dict(row) for row in connection.execute(question.order_by(table.seq).limit(_PAGE)).mappings()]
    if seq is None and rows and rows[0]["blockers"] is None:
        rows[0]["blockers"] = _standing(connection, boot, rows[0]["seq"])
    later = [other for other in lives if other > boot]
    following: Key = (boot, rows[-1]["seq"]) if len(rows) == _PAGE else (later[0], None) if later else None
    return [(steps, row) for row in rows], following


def _standing(connection: Connection, boot: int, seq: int) -> Any:
    """Who held what at a step that does not say it: as the last one before it did, which the file may not have."""
    told = steps.c
    last = select(func.max(told.seq)).where(told.boot == boot, told.seq < seq, told.blockers.is_not(None)).scalar_subquery()
    return connection.execute(select(told.blockers).where(told.boot == boot, told.seq == last)).scalar()


def _paged(table: Table, rows: Iterable[RowMapping], key: tuple[str, ...]) -> tuple[list[tuple[Table, RowMapping]], Key]:
    found = [(table, row) for row in rows]
    return found, tuple(found[-1][1][name] for name in key) if len(found) == _PAGE else None
