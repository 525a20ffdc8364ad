"""Events in, rows out: the writer's memory of what is open, and the batch of changes that a transaction will hold.

Knows no connection. It is called by the writer's thread alone, once for each item in the order of arrival; a batch is
made of absolute values, so that writing it a second time (after a commit whose outcome is unknown) changes nothing.
Invariant: exactly one terminal event row for each sequence of an accepted request, whoever authored it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from orjson import dumps

from app.store import event_data
from app.store.accepted import AcceptedRow, Amend, WebEnd
from app.store.batch import Batch, Row
from app.store.bulk import dump
from app.store.open_request import Ending, OpenRequest, SequenceState
from app.store.packing import pack_slices
from scheduler.core.events import (
    EngineStarted,
    Event,
    FirstToken,
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
Item = Event | WebEnd | Amend
Numbered = RequestScheduled | RequestParked | RequestUnparked | RequestPreempted | FirstToken


class Fold:
    """The open requests and the clock pairs of the boots; `batch` collects until the writer takes it."""

    def __init__(self, web_boot: int, wall: int, mono: int, web_pid: int) -> None:
        self.web_boot = web_boot
        self.batch = Batch()
        self.orphans = 0  # events of requests that were never accepted here
        self._web_pid = web_pid
        self._web_seq = 0
        self._host_late_ns = 0  # of the step in the message at hand
        self._clocks: dict[int, tuple[int, int]] = {web_boot: (wall, mono)}
        self._policies: dict[int, str] = {}
        self._open: dict[str, OpenRequest] = {}
        self._moved: dict[str, OpenRequest] = {}  # open, and not as the records have it: their columns are made by `take`
        self._forgotten: dict[str, None] = {}  # refused by the database; the engine has yet to end them
        self._numbers: dict[tuple[int, int], SequenceState] = {}
        self._table: dict[type, Callable[[Any], None]] = {
            EngineStarted: self._engine_started,
            RequestQueued: self._queued,
            RequestScheduled: self._scheduled,
            RequestParked: self._parked,
            RequestUnparked: self._unparked,
            RequestPreempted: self._preempted,
            FirstToken: self._first_token,
            RequestFinished: self._finished,
            StepCompleted: self._step,
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
        self.batch.live = {id: request.live() for id, request in self._moved.items()}
        self._moved.clear()
        batch, self.batch = self.batch, Batch()
        return batch

    def accepted(self, row: AcceptedRow) -> None:
        """A row is about to be written: follow it."""
        id, policy = row.id, row.policy
        self._open[id] = OpenRequest(id, row.received_at, row.sequences, row.stream, row.prompt_tokens, policy, policy)

    def forget(self, request_id: str) -> None:
        """Its row could not be written: no longer follow it, and keep none of its events."""
        self._open.pop(request_id, None)
        self._moved.pop(request_id, None)
        self._forgotten[request_id] = None
        if len(self._forgotten) > FORGOTTEN_KEPT:
            del self._forgotten[next(iter(self._forgotten))]

    def fold(self, items: Sequence[Item], host_late_ns: int, failed: Callable[[Exception], None]) -> None:
        """The items of one message in order. One that cannot be folded goes to `failed` and does not stop the others.

        host_late_ns: how far the simulated clock lagged behind its own plan in the step among them.
        """
        self._host_late_ns, table = host_late_ns, self._table
        for item in items:
            try:
                table[type(item)](item)
            except Exception as error:  # whatever is wrong with it, the records go on
                failed(error)

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

    def _step(self, event: StepCompleted) -> None:
        blockers = None if event.blockers is None else dump(event.blockers.named(event.binding))
        self.batch.steps.append(
            (
                event.boot, event.seq, event.step, event.started_at, event.ended_at, self._wall(event.boot, event.ended_at),
                event.token_budget, event.prefill_tokens, len(event.decodes), WAIT_REASONS[event.binding],
                sum(event.waiting_by_reason), event.running, event.preempted, event.blocks_free, self._host_late_ns,
                pack_slices(event.decodes, event.chunks, event.failed), _waiting(event.waiting_by_reason), blockers,
            )
        )  # fmt: skip

    # ---- lives of requests

    def _queued(self, event: RequestQueued) -> None:
        boot, seq, id = event.boot, event.seq, event.id
        request_id = id.partition("/")[0]
        request = self._open.get(request_id)
        state = SequenceState(id, request_id, request, boot, seq)
        self._numbers[boot, seq] = state
        self._row(state, "RequestQueued", event, event_data.queued(event))
        if request is None:
            self.orphans += 1
            return
        old = request.states.pop(id, None)  # of an engine that died: this life counts anew
        if old is not None:
            self._numbers.pop((old.boot, old.number), None)
        request.states[id] = state
        self._moved[request_id] = request
        if id == request_id or id.endswith("/0"):
            request.boot, request.number = boot, seq
            request.policy = request.asked_policy or self._policies.get(boot)

    def _scheduled(self, event: RequestScheduled) -> None:
        state = self._told(event, "RequestScheduled", event_data.scheduled(event))
        if state is not None:
            state.state, state.overtaken = "running", event.overtaken
            if state.scheduled_at is None:
                state.scheduled_at = event.at

    def _parked(self, event: RequestParked) -> None:
        self._told(event, "RequestParked", event_data.parked(event), moves=False)

    def _unparked(self, event: RequestUnparked) -> None:
        self._told(event, "RequestUnparked", event_data.numbered(event), moves=False)

    def _preempted(self, event: RequestPreempted) -> None:
        state = self._told(event, "RequestPreempted", event_data.preempted(event))
        if state is not None:
            state.state = "preempted"
            state.preemptions += 1

    def _first_token(self, event: FirstToken) -> None:
        state = self._told(event, "FirstToken", event_data.numbered(event))
        if state is not None:
            state.first_token_at = event.at

    def _told(self, event: Numbered, kind: str, data: str, moves: bool = True) -> SequenceState | None:
        """An event of a sequence that was queued before: its row. The sequence; None if nobody heard of it."""
        state = self._numbers.get((event.boot, event.number))
        if state is None:
            self.orphans += 1
            return None
        self._row(state, kind, event, data)
        if moves and state.request is not None:
            self._moved[state.request_id] = state.request
        return state

    def _finished(self, event: RequestFinished) -> None:
        boot, id = event.boot, event.id
        request_id = id.partition("/")[0]
        self._terminal(request_id, id, boot, event.seq, event.at, event_data.finished(event))
        ending = Ending(
            event.at,
            event.reason._value_,  # `value` is a call in Python
            event.detail,
            event.prompt_tokens,
            event.cached_tokens,
            event.output_tokens,
            event.preemptions,
            event.parts if boot != self.web_boot else None,  # only the engine's core can count them
            event.overtaken,
        )
        self._end(request_id, id, ending)
        self._numbers.pop((boot, event.number), None)

    def _web_end(self, item: WebEnd) -> None:
        request = self._open.get(item.id)
        if request is None:
            self.orphans += 1
            return
        if item.status_code is not None:
            request.status_code = item.status_code
        data = dumps({"reason": item.reason, "detail": item.detail, "output_tokens": item.output_tokens}).decode()
        for sequence_id in request.unfinished:
            self._web_seq += 1
            at = self._clocks[self.web_boot][1] if item.at is None else item.at
            self._terminal(item.id, sequence_id, self.web_boot, self._web_seq, at, data)
            self._end(item.id, sequence_id, Ending(item.at, item.reason, item.detail, output_tokens=item.output_tokens))

    def _amend(self, item: Amend) -> None:
        request = self._open.get(item.id)
        known: Row = {} if item.output_text is None else {"output_text": item.output_text}
        if request is None and item.status_code is not None:
            known["status_code"] = item.status_code
        elif request is not None and item.status_code is not None:
            request.status_code = item.status_code
            self._moved[item.id] = request
        if known:
            self.batch.amends.setdefault(item.id, {}).update(known)

    def _end(self, request_id: str, sequence_id: str, ending: Ending) -> None:
        request = self._open.get(request_id)
        if request is None:
            return
        state = request.sequence(sequence_id)
        if state.ending is not None:
            return  # the database refuses the second terminal row, and the writer counts it
        state.state, state.ending = "finished", ending
        if request.sequences > 1 and request.unfinished:
            self._moved[request_id] = request
            return
        self.batch.final[request_id] = request.final()
        self._moved.pop(request_id, None)
        del self._open[request_id]
        for each in request.states.values():
            self._numbers.pop((each.boot, each.number), None)
        request.states.clear()  # they know each other: a circle that is broken needs no collector

    # ---- rows

    def _wall(self, boot: int, at: int) -> int:
        wall, mono = self._clocks.get(boot) or self._clocks[self.web_boot]
        return wall + at - mono

    def _row(self, state: SequenceState, kind: str, event: Event, data: str) -> None:
        if not self._forgotten or state.request_id not in self._forgotten:
            self.batch.events.append((state.request_id, event.boot, event.seq, state.id, kind, event.at, 0, data))

    def _terminal(self, request_id: str, sequence_id: str, boot: int, seq: int, at: int, data: str) -> None:
        if not self._forgotten or request_id not in self._forgotten:
            self.batch.terminals.append((request_id, boot, seq, sequence_id, "RequestFinished", at, 1, data))


@lru_cache(256)  # it is often what it was in the step before
def _waiting(by_reason: tuple[int, ...]) -> str | None:
    """Who waits for what, as JSON's text: only reasons present."""
    return dump({name: n for name, n in zip(WAIT_REASONS, by_reason, strict=True) if n})
