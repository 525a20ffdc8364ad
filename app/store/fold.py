"""Events in, rows out: the writer's memory of what is open, and the batch of changes that a transaction will hold.

Knows no connection. It is called by the writer's thread alone, once for each item in the order of arrival; a batch is
made of absolute values, so that writing it a second time (after a commit whose outcome is unknown) changes nothing.
Invariant: exactly one terminal event row for each sequence of an accepted request, whoever authored it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from orjson import dumps

from app.store.accepted import AcceptedRow, Amend, WebEnd
from app.store.bulk import dump
from app.store.open_request import Ending, OpenRequest
from app.store.packing import pack_slices
from scheduler.core.events import (
    EVENT_TYPES,
    EngineStarted,
    Event,
    FirstToken,
    Parts,
    RequestFinished,
    RequestParked,
    RequestPreempted,
    RequestQueued,
    RequestScheduled,
    RequestUnparked,
    SettingsChanged,
    StepCompleted,
)
from scheduler.metrics import WAIT_REASONS

FORGOTTEN_KEPT = 20_000
EVENT_COLUMNS = ("request_id", "boot", "seq", "sequence_id", "kind", "at", "terminal", "data")
EventRow = tuple[str, int, int, str, str, int, bool, str | None]  # by EVENT_COLUMNS, `data` as JSON's text
STEP_COLUMNS = (
    "boot", "seq", "step", "started_at", "ended_at", "ended_wall", "token_budget", "prefill_tokens", "decode_tokens", "binding",
    "waiting", "running", "preempted", "blocks_free", "host_late_ns", "slices", "waiting_by_reason", "blockers",
)  # fmt: skip
StepRow = tuple[Any, ...]  # by STEP_COLUMNS, `waiting_by_reason` and `blockers` as JSON's text
Row = dict[str, Any]
Numbered = RequestScheduled | RequestParked | RequestUnparked | RequestPreempted | FirstToken


@dataclass(slots=True)
class Batch:
    """What the next transaction writes, by table; `updates`: id → columns of `requests`."""

    events: list[EventRow] = field(default_factory=list)
    terminals: list[EventRow] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    settings: list[Row] = field(default_factory=list)
    boots: list[Row] = field(default_factory=list)
    updates: dict[str, Row] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(getattr(self, spec.name)) for spec in fields(self))


class Fold:
    """The open requests and the clock pairs of the boots; `batch` collects until the writer takes it."""

    def __init__(self, web_boot: int, wall: int, mono: int, web_pid: int) -> None:
        self.web_boot = web_boot
        self.batch = Batch()
        self.orphans = 0  # events of requests that were never accepted here
        self._web_pid = web_pid
        self._web_seq = 0
        self._clocks: dict[int, tuple[int, int]] = {web_boot: (wall, mono)}
        self._policies: dict[int, str] = {}
        self._open: dict[str, OpenRequest] = {}
        self._moved: dict[str, OpenRequest] = {}  # open, and not as the records have it: their columns are made by `take`
        self._forgotten: dict[str, None] = {}  # refused by the database; the engine has yet to end them
        self._numbers: dict[tuple[int, int], tuple[OpenRequest | None, str]] = {}
        self._table: dict[type, Callable[[Any], None]] = {
            EngineStarted: self._engine_started,
            RequestQueued: self._queued,
            RequestScheduled: self._numbered,
            RequestParked: self._numbered,
            RequestUnparked: self._numbered,
            RequestPreempted: self._numbered,
            FirstToken: self._numbered,
            RequestFinished: self._finished,
            SettingsChanged: self._settings_changed,
            WebEnd: self._web_end,
            Amend: self._amend,
        }

    @property
    def open(self) -> int:
        """Requests accepted and not ended."""
        return len(self._open)

    def take(self) -> Batch:
        """The batch so far; an empty one from here on."""
        for request in self._moved.values():
            self._update(request.id, request.live_columns())
        self._moved.clear()
        batch, self.batch = self.batch, Batch()
        return batch

    def accepted(self, row: AcceptedRow) -> None:
        """A row is about to be written: follow it."""
        self._open[row.id] = OpenRequest(row.id, row.received_at, row.sequences, row.stream, row.prompt_tokens, row.policy)

    def forget(self, request_id: str) -> None:
        """Its row could not be written: no longer follow it, and keep none of its events."""
        self._open.pop(request_id, None)
        self._moved.pop(request_id, None)
        self._forgotten[request_id] = None
        if len(self._forgotten) > FORGOTTEN_KEPT:
            del self._forgotten[next(iter(self._forgotten))]

    def fold(self, item: Event | WebEnd | Amend) -> None:
        """One item, in order of arrival."""
        self._table[type(item)](item)

    def step(self, event: StepCompleted, host_late_ns: int = 0) -> None:
        """One step; `host_late_ns`: how far the simulated clock lagged behind its own plan."""
        waiting = {name: n for name, n in zip(WAIT_REASONS, event.waiting_by_reason, strict=True) if n}
        blockers = None if event.blockers is None else dump(event.blockers.named(event.binding))
        self.batch.steps.append(
            (
                event.boot, event.seq, event.step, event.started_at, event.ended_at, self._wall(event.boot, event.ended_at),
                event.token_budget, event.prefill_tokens, len(event.decodes), WAIT_REASONS[event.binding],
                sum(event.waiting_by_reason), event.running, event.preempted, event.blocks_free, host_late_ns,
                pack_slices(event.decodes, event.chunks, event.failed), dump(waiting), blockers,
            )
        )  # fmt: skip

    # ---- lives of the engine

    def _engine_started(self, event: EngineStarted) -> None:
        self._clocks[event.boot] = (event.wall, event.mono)
        settings = dict(event.settings)
        self._policies[event.boot] = str(settings.get("policy"))
        names = ("boot", "wall", "mono", "blocks_total", "block_size", "runner", "hardware", "model")
        row: Row = {name: getattr(event, name) for name in names}
        self.batch.boots.append(row | {"settings": settings, "web_pid": self._web_pid, "created": event.wall})

    def _settings_changed(self, event: SettingsChanged) -> None:
        changes = dict(event.changes)
        if "policy" in changes:
            self._policies[event.boot] = str(changes["policy"])
        row = {"boot": event.boot, "seq": event.seq, "at": event.at, "version": event.version, "changes": changes}
        self.batch.settings.append(row | {"wall": self._wall(event.boot, event.at)})

    # ---- lives of requests

    def _queued(self, event: RequestQueued) -> None:
        request = self._open.get(event.id.partition("/")[0])
        self._numbers[event.boot, event.seq] = (request, event.id)
        self._event_row(event, event.id)
        if request is None:
            self.orphans += 1
            return
        old = request.states.pop(event.id, None)  # of an engine that died: this life counts anew
        if old is not None:
            self._numbers.pop((old.boot, old.number), None)
        state = request.sequence(event.id)
        state.boot, state.number = event.boot, event.seq
        self._moved[request.id] = request
        if event.id in (request.id, f"{request.id}/0"):
            policy = request.policy or self._policies.get(event.boot)
            self._update(request.id, {"boot": event.boot, "number": event.seq, "policy": policy})

    def _numbered(self, event: Numbered) -> None:
        request, sequence_id = self._numbers.get((event.boot, event.number), (None, None))
        if sequence_id is None:
            self.orphans += 1
            return
        self._event_row(event, sequence_id)
        if request is None or isinstance(event, (RequestParked, RequestUnparked)):
            return
        state = request.sequence(sequence_id)
        if isinstance(event, RequestScheduled):
            state.state = "running"
            state.scheduled_at = event.at if state.scheduled_at is None else state.scheduled_at
            state.overtaken = event.overtaken
        elif isinstance(event, RequestPreempted):
            state.state = "preempted"
            state.preemptions += 1
        else:
            state.first_token_at = event.at
        self._moved[request.id] = request

    def _finished(self, event: RequestFinished) -> None:
        by_engine = event.boot != self.web_boot  # only the engine's core can count the parts
        ending = Ending(
            event.at,
            event.reason.value,
            event.detail,
            event.prompt_tokens,
            event.cached_tokens,
            event.output_tokens,
            event.preemptions,
            event.parts if by_engine else None,
            event.overtaken,
        )
        self._event_row(event, event.id, terminal=True)
        self._end(event.id.partition("/")[0], event.id, ending)
        self._numbers.pop((event.boot, event.number), None)

    def _web_end(self, item: WebEnd) -> None:
        request = self._open.get(item.id)
        if request is None:
            self.orphans += 1
            return
        if item.status_code is not None:
            request.status_code = item.status_code
        for sequence_id in request.unfinished:
            self._web_seq += 1
            data = {"reason": item.reason, "detail": item.detail, "output_tokens": item.output_tokens}
            at = self._clocks[self.web_boot][1] if item.at is None else item.at
            self._row("RequestFinished", self.web_boot, self._web_seq, at, sequence_id, data, True)
            self._end(item.id, sequence_id, Ending(item.at, item.reason, item.detail, output_tokens=item.output_tokens))

    def _amend(self, item: Amend) -> None:
        request = self._open.get(item.id)
        if request is not None and item.status_code is not None:
            request.status_code = item.status_code
        given = {"status_code": item.status_code, "output_text": item.output_text}
        self._update(item.id, {name: value for name, value in given.items() if value is not None})

    def _end(self, request_id: str, sequence_id: str, ending: Ending) -> None:
        request = self._open.get(request_id)
        if request is None:
            return
        state = request.sequence(sequence_id)
        if state.ending is not None:
            return  # the database refuses the second terminal row, and the writer counts it
        state.state, state.ending = "finished", ending
        if request.unfinished:
            self._moved[request_id] = request
            return
        self._update(request_id, request.final_columns())
        self._moved.pop(request_id, None)
        del self._open[request_id]
        for each in request.states.values():
            self._numbers.pop((each.boot, each.number), None)

    # ---- rows

    def _wall(self, boot: int, at: int) -> int:
        wall, mono = self._clocks.get(boot) or self._clocks[self.web_boot]
        return wall + at - mono

    def _update(self, request_id: str, columns: Row) -> None:
        self.batch.updates.setdefault(request_id, {}).update(columns)

    def _event_row(self, event: Event, sequence_id: str, *, terminal: bool = False) -> None:
        name, read = _PAYLOAD[type(event)]
        data = read(event)
        if terminal:
            data["parts"] = _named(data["parts"])
        elif isinstance(event, RequestParked):
            data["cause"] = WAIT_REASONS[event.cause]
            data["blockers"] = None if event.blockers is None else event.blockers.named(event.cause)
        self._row(name, event.boot, event.seq, event.at, sequence_id, data, terminal)

    def _row(self, kind: str, boot: int, seq: int, at: int, sequence_id: str, data: Row, terminal: bool) -> None:
        request_id = sequence_id.partition("/")[0]
        if request_id not in self._forgotten:
            rows = self.batch.terminals if terminal else self.batch.events
            rows.append((request_id, boot, seq, sequence_id, kind, at, terminal, dumps(data).decode()))


def _named(parts: Parts) -> Row:
    """What Parts._asdict() gives, in a third of its time."""
    waits, prefill, decode, stalled, preempted = parts
    return {"waits": waits, "prefill": prefill, "decode": decode, "stalled": stalled, "preempted": preempted}


def _payload(kind: type[Event]) -> tuple[str, Callable[[Event], Row]]:
    """The kind's name, and how to read those of its fields that are not columns of their own."""
    names = tuple(spec.name for spec in fields(kind) if spec.name not in ("boot", "seq", "at", "id"))
    read = attrgetter("seq", *names)  # of two names at least, so that it gives a tuple
    return kind.__name__, lambda event: dict(zip(names, read(event)[1:], strict=True))


_PAYLOAD = {kind: _payload(kind) for kind in EVENT_TYPES}
