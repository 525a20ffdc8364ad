"""The rows behind a report: of the requests, of the client's lines, of the steps in the run's window. Computes nothing.

One pass over each table; a step's slices stay packed but for the few steps that are named one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, select

from app.store import runs
from app.store.detail import client_figures
from app.store.models import WAIT_COLUMNS, boots, client_requests, request_events, requests, settings_changes, steps
from app.store.packing import unpack_gaps, unpack_slices
from app.store.step_rows import of_run, window

Row = Mapping[str, Any]
_SERVER = (
    "id", "client_request_id", "tenant", "priority", "finish", "detail", "status_code", "received_at", "received_wall",
    "scheduled_at", "first_token_at", "finished_at", "prompt_tokens", "output_tokens", "cached_tokens", "preemptions",
    "sequences", "queue_ms", "ttft_ms", "tpot_ms", "e2e_ms", *WAIT_COLUMNS,
)  # fmt: skip
_CHUNK = 500
_TOLD_EACH = 20_000
Told = Callable[[str, int], object]  # (what is read, rows of it so far)


def nobody(_what: str, _rows: int) -> None:
    """Nobody wants to hear of progress."""


class StepRow(NamedTuple):
    """A step as its sums; a `Load` of scheduler.metrics. kv_total: blocks of its engine life, None where that is unknown."""

    boot: int
    seq: int
    started_at: int
    ended_at: int
    ended_wall: int
    token_budget: int
    prefill_tokens: int
    decode_tokens: int
    binding: str
    waiting: int
    running: int
    preempted: int
    blocks_free: int
    host_late_ns: int
    kv_total: int | None

    @property
    def kv_used(self) -> int | None:
        """Blocks in use after the step."""
        return None if self.kv_total is None else self.kv_total - self.blocks_free


@dataclass(frozen=True, slots=True)
class Gathered:
    """Everything that a report is made of. life: the last engine life of the run, {} where no step was recorded.

    client rows carry their figures (`client_figures`) and `longest_gap_ms`; gaps: of all answers that are ok, between tokens;
    relapses: (tokens lost, tokens found again) of each return from a preemption.
    """

    run: dict[str, Any]
    server: list[dict[str, Any]]
    client: list[dict[str, Any]]
    gaps: array[float]
    steps: list[StepRow]
    relapses: list[tuple[int, int]]
    life: dict[str, Any]
    settings: dict[str, Any]
    start_wall: int


def gather(connection: Connection, run_id: str, told: Told = nobody) -> Gathered:
    """Raises QueryError("run") when there is no such run. `told` hears of each _TOLD_EACH rows."""
    run = runs.get(connection, run_id)
    start, end = window(connection, run_id)
    server = _server_rows(connection, run_id, told)
    stepped = _steps(connection, run_id)
    life, settings = _settings(connection, run, {step.boot for step in stepped}, end)
    relapsed = list(relapses_of(connection, [row["id"] for row in server if row["preemptions"]]))
    return Gathered(run, server, *_client_rows(connection, run_id, told), stepped, relapsed, life, settings, start)


def prefilled(connection: Connection, boot: int, seq: int) -> list[tuple[str | None, int]]:
    """(id of the sequence, tokens) of each prefill slice of a step, most first; an id is None where the records lack it."""
    packed = connection.execute(select(steps.c.slices).where(steps.c.boot == boot, steps.c.seq == seq)).scalar()
    pieces = [] if packed is None else [piece for piece in unpack_slices(packed) if piece.kind == "prefill"]
    events = request_events.c
    named = select(events.seq, events.sequence_id).where(
        events.boot == boot, events.seq.in_([piece.request for piece in pieces])
    )
    ids = {number: sequence for number, sequence in connection.execute(named)}
    found = [(ids.get(piece.request), piece.tokens) for piece in pieces]
    return sorted(found, key=lambda pair: (-pair[1], pair[0] or ""))


def _server_rows(connection: Connection, run_id: str, told: Told) -> list[dict[str, Any]]:
    table = requests.c
    question = select(*[table[name] for name in _SERVER]).where(table.run == run_id).order_by(table.received_wall, table.id)
    return list(_heard(told, "requests", _dicts(connection, question, _SERVER)))


def _client_rows(connection: Connection, run_id: str, told: Told) -> tuple[list[dict[str, Any]], array[float]]:
    """(rows, gaps of ok ones). Gaps stay packed in the rows: as objects they would cost the collector more than all else."""
    table = client_requests.c
    question = select(client_requests).where(table.run == run_id).order_by(table.n, table.client_request_id)
    rows, gaps = list[dict[str, Any]](), array("d")
    for row in _heard(told, "client_requests", _dicts(connection, question, tuple(table.keys()))):
        mine = unpack_gaps(row["gaps"])
        row |= client_figures(row)
        row["longest_gap_ms"] = max(mine, default=0.0)
        if row["status"] == "ok":
            gaps.extend(mine)
        rows.append(row)
    return rows, gaps


def _heard(told: Told, what: str, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for n, row in enumerate(rows):
        if n % _TOLD_EACH == 0:
            told(what, n)
        yield row


def _dicts(connection: Connection, question: Select[Any], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    return (dict(zip(names, row, strict=True)) for row in connection.execute(question))


def _steps(connection: Connection, run_id: str) -> list[StepRow]:
    table = steps.c
    columns = [table[name] for name in StepRow._fields[:-1]]
    joined = steps.outerjoin(boots, boots.c.boot == table.boot)
    question = select(*columns, boots.c.blocks_total).select_from(joined).where(of_run(connection, run_id))
    return [StepRow._make(row) for row in connection.execute(question.order_by(table.boot, table.seq))]


def _settings(
    connection: Connection, run: Mapping[str, Any], lives: Iterable[int], end: int | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the last engine life of the run, the settings in effect at its end)."""
    row = connection.execute(select(boots).where(boots.c.boot == max(lives, default=0))).mappings().first()
    life = dict(row) if row is not None else {}
    if run["settings"]:
        return life, dict(run["settings"])
    settings = dict(life.get("settings") or {})
    table = settings_changes.c
    asked = select(table.changes).where(table.boot == life.get("boot", 0)).order_by(table.seq)
    for changes in connection.execute(asked if end is None else asked.where(table.wall <= end)).scalars():
        settings |= changes or {}
    return life, settings


def relapses_of(connection: Connection, ids: Sequence[str]) -> Iterator[tuple[int, int]]:
    """As `metrics.relapses`, from the events of the requests that were preempted."""
    table, lost = request_events.c, dict[tuple[int, str], int]()
    for start in range(0, len(ids), _CHUNK):
        mine = table.request_id.in_(ids[start : start + _CHUNK]), table.kind.in_(("RequestPreempted", "RequestScheduled"))
        question = select(table.boot, table.sequence_id, table.data).where(*mine).order_by(table.boot, table.seq)
        for boot, sequence, data in connection.execute(question):
            if "computed_tokens_lost" in data:
                lost[boot, sequence] = data["computed_tokens_lost"]
            elif data["resumed"]:
                yield lost.pop((boot, sequence), 0), data["cached_tokens"]
