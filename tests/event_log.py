"""EventLog: an independent reading of the log. Folds events only; never looks into the scheduler.

Invariant: what it holds after any event is what a reader of the log alone can know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.core.events import (
    Event,
    FirstToken,
    RequestFinished,
    RequestParked,
    RequestPreempted,
    RequestQueued,
    RequestScheduled,
    RequestUnparked,
    StepCompleted,
)
from scheduler.core.request import FinishReason, WaitReason


@dataclass
class Row:
    """One request as the log tells it."""

    number: int
    id: str
    received_at: int
    state: str = "waiting"
    slot: int = -1
    since: int = 0
    spent: dict[str, int] = field(default_factory=lambda: {"waiting": 0, "running": 0, "preempted": 0})
    computing: int = 0  # ns in steps that computed a chunk of it
    decoding_since: int | None = None
    decoding: int = 0
    emitted: int = 0
    firsts: int = 0
    preemptions: int = 0
    scheduled_at: list[int] = field(default_factory=list)
    overtaken: int = 0
    parked: WaitReason | None = None
    parked_since: int = 0
    parked_ns: dict[WaitReason, int] = field(default_factory=dict)  # while it waited for its first admission
    finished: RequestFinished | None = None

    def unpark(self, at: int) -> None:
        """It is in the open queue again, or ended."""
        assert self.parked is not None
        if self.state == "waiting":
            self.parked_ns[self.parked] = self.parked_ns.get(self.parked, 0) + at - self.parked_since
        self.parked = None

    def go(self, state: str, at: int) -> None:
        """Leave one state for another."""
        self.spent[self.state] += at - self.since
        self.state, self.since = state, at
        if self.decoding_since is not None and state != "running":
            self.decoding += at - self.decoding_since
            self.decoding_since = None


class EventLog:
    """All that was folded so far. `rows` by number; `refused` are those that never were queued."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.refused: list[RequestFinished] = []
        self.steps: list[StepCompleted] = []
        self.seq = 0

    def fold(self, events: Iterable[Event]) -> None:
        """Read on."""
        for event in events:
            assert event.seq == self.seq + 1, f"a hole in the log between {self.seq} and {event.seq}"
            self.seq = event.seq
            self._one(event)

    def _one(self, event: Event) -> None:
        match event:
            case RequestQueued():
                self.rows[event.seq] = Row(event.seq, event.id, event.received_at, since=event.received_at)
            case RequestScheduled():
                row = self.rows[event.number]
                assert event.resumed == (row.state == "preempted") and row.parked is None
                if not event.resumed:
                    self._admitted(row)
                assert event.overtaken == row.overtaken, (row, event)
                row.go("running", event.at)
                row.slot = event.slot
                row.scheduled_at.append(event.at)
            case RequestPreempted():
                row = self.rows[event.number]
                assert row.slot == event.slot
                row.go("preempted", event.at)
                row.slot, row.preemptions = -1, row.preemptions + 1
            case RequestParked():
                row = self.rows[event.number]
                assert row.parked is None and row.state in ("waiting", "preempted")
                row.parked, row.parked_since = event.cause, event.at
            case RequestUnparked():
                self.rows[event.number].unpark(event.at)
            case FirstToken():
                self.rows[event.number].firsts += 1
            case RequestFinished():
                self._finished(event)
            case StepCompleted():
                self._step(event)

    def _admitted(self, row: Row) -> None:
        """Who came earlier and still waits for his first admission was overtaken."""
        for older in self.rows.values():
            if older.number >= row.number:
                break
            older.overtaken += older.state == "waiting"

    def _finished(self, event: RequestFinished) -> None:
        if event.number == 0:
            self.refused.append(event)
            return
        row = self.rows[event.number]
        assert row.finished is None, f"{event.id} finished twice"
        assert row.slot == event.slot and row.id == event.id
        if row.parked is not None:
            row.unpark(event.at)
        assert event.overtaken == row.overtaken, (row, event)
        row.go("finished", event.at)
        row.spent.setdefault("finished", 0)
        row.finished = event

    def _step(self, step: StepCompleted) -> None:
        self.steps.append(step)
        for number, tokens, kind, emitted in step.slices:
            row = self.rows[number]
            assert tokens > 0
            row.emitted += emitted
            if kind == "prefill":
                end = step.ended_at if row.finished is None else row.finished.at
                row.computing += end - step.started_at
                if emitted and row.finished is None:
                    row.decoding_since = step.ended_at

    @property
    def live(self) -> list[Row]:
        """Requests without an end."""
        return [row for row in self.rows.values() if row.finished is None]

    def count(self, state: str) -> int:
        """How many are in `state`."""
        return sum(row.state == state for row in self.rows.values())

    def check_finished(self) -> None:
        """Every row ended once, and its parts are what the log says of its time; refused ones spent all in travel."""
        for row in self.rows.values():
            end = row.finished
            assert end is not None, f"{row.id} never ended"
            parts = end.parts
            assert parts.total == end.at - row.received_at
            assert sum(parts.waits) == row.spent["waiting"], (row, parts)
            assert parts.preempted == row.spent["preempted"]
            assert parts.waits[WaitReason.QUOTA] == row.parked_ns.get(WaitReason.QUOTA, 0), (row, parts)
            assert parts.prefill + parts.decode + parts.stalled == row.spent["running"]
            assert parts.prefill == row.computing, (row, parts)
            assert parts.decode == row.decoding, (row, parts)
            assert row.emitted == end.output_tokens, (row, end)
            assert row.firsts == (end.output_tokens > 0) and row.preemptions == end.preemptions
        for end in self.refused:
            assert end.reason is FinishReason.REJECTED and end.detail and sum(end.parts.waits) == end.parts.total

    def integral(self, state: str) -> int:
        """∫ number in `state` dt, by sweeping the log's instants; needs every row to have ended."""
        changes: list[tuple[int, int]] = []
        for row in self.rows.values():
            assert row.finished is not None
            for start, end in self._spells(row, state):
                changes += [(start, 1), (end, -1)]
        total, present, last = 0, 0, 0
        for at, step in sorted(changes):
            total += present * (at - last)
            present, last = present + step, at
        assert present == 0
        return total

    def _spells(self, row: Row, state: str) -> list[tuple[int, int]]:
        assert row.finished is not None
        if state == "waiting":
            return [(row.received_at, row.scheduled_at[0] if row.scheduled_at else row.finished.at)]
        assert state == "system"
        return [(row.received_at, row.finished.at)]
