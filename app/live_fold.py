"""LiveFold: core events → who waits, who runs, bars, steps and latency samples. Knows no clock, no Flask and no JSON.

Invariant: every request that was queued and has not finished is in `alive`: waiting, running or preempted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app import live_bars, live_figures
from app.live_bars import Bar, Bars
from app.live_figures import RECENT_STEPS, Samples, Step, StepRing
from scheduler.core import events as ev

MARKERS_KEPT = 40
SERVER_FIELDS = (
    "version", "model", "runner", "hardware", "simulated", "device", "dtype", "max_num_seqs", "block_size",
    "blocks_total", "policy", "settings", "settings_version",
)  # fmt: skip


@dataclass(slots=True)
class Alive:
    """A request between its queueing and its end. `cause` and `blockers` while parked; `last_token_at` of its newest token."""

    queued: ev.RequestQueued
    phase: str = "queued"
    slot: int = -1
    cause: str | None = None
    blockers: dict[str, Any] | None = None
    last_token_at: int | None = None


class LiveFold:
    """What the events of one engine life amount to. An EngineStarted of a later boot begins anew."""

    def __init__(self, version: str, ring: int = 0) -> None:
        self._ring = ring
        self._dispatch: dict[type[ev.Event], Callable[[Any], None]] = {
            ev.EngineStarted: self._started,
            ev.RequestQueued: self._queued,
            ev.RequestScheduled: self._scheduled,
            ev.RequestParked: self._parked,
            ev.RequestUnparked: self._unparked,
            ev.RequestPreempted: self._preempted,
            ev.FirstToken: self._first_token,
            ev.RequestFinished: self._finished,
            ev.StepCompleted: self._stepped,
            ev.SettingsChanged: self._settings_changed,
        }
        self.server: dict[str, Any] = dict.fromkeys(SERVER_FIELDS) | {"version": version, "simulated": False, "settings": {}}
        self.server_version = 0
        self.boot = 0
        self._reset(wall=0, mono=0)

    def _reset(self, wall: int, mono: int) -> None:
        self.seq = 0
        self.wall, self.mono, self.at = wall, mono, mono
        self.alive: dict[int, Alive] = {}
        self.waiting: dict[int, Alive] = {}
        self.fresh: dict[int, int] = {}  # waiting since after the last step's planning: number → instant
        self.parked_by: dict[str, int] = {}
        self._just_ended: dict[int, Alive] = {}  # by the commit whose StepCompleted is still to come
        self.preempted = self.preemptions = self.finished = 0
        self.bars = Bars()
        self.steps = StepRing(self._ring)
        self.ttft, self.itl = Samples(), Samples()
        self.costs: deque[int] = deque(maxlen=RECENT_STEPS)
        self.host_late = 0
        self.blockers: dict[str, Any] | None = None  # who held what in the last step that said so
        self.markers: deque[dict[str, Any]] = deque(maxlen=MARKERS_KEPT)

    def apply(self, event: ev.Event) -> bool:
        """Fold one event; False when it belongs to another boot (an engine that died, the web's own)."""
        if event.boot != self.boot and not (isinstance(event, ev.EngineStarted) and event.boot > self.boot):
            return False
        self._dispatch[type(event)](event)
        self.seq, self.at = event.seq, max(self.at, event.at)
        self.bars.forget(self.at - live_bars.KEPT_S * live_figures.NS)
        return True

    def describe(self, **fields: Any) -> None:
        """Facts of the server; the dict is replaced, never changed in place, since frames hold it."""
        unknown = set(fields) - set(SERVER_FIELDS)
        assert not unknown, unknown
        self.server = self.server | fields
        self.server_version += 1

    def mark(self, at: int, kind: str, text: str) -> None:
        """A line across the charts."""
        self.markers.append({"t": self.ms(at), "kind": kind, "text": text})

    def ms(self, at: int) -> float:
        """Milliseconds since the boot."""
        return round((at - self.mono) / 1e6, 3)

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return len(self.alive) - len(self.waiting) - self.preempted

    @property
    def idle(self) -> bool:
        """True when nothing waits and nothing runs."""
        return not self.alive

    # ---- one method an event

    def _started(self, event: ev.EngineStarted) -> None:
        before, self.boot = self.boot, event.boot
        self._reset(event.wall, event.mono)
        settings = dict(event.settings)
        self.describe(
            model=event.model, runner=event.runner, hardware=event.hardware, simulated=event.runner != "torch",
            block_size=event.block_size, blocks_total=event.blocks_total, settings=settings, policy=settings.get("policy"),
            max_num_seqs=settings.get("max_num_seqs"),
        )  # fmt: skip
        if before:
            self.mark(event.at, "engine", "a new engine starts")

    def _queued(self, event: ev.RequestQueued) -> None:
        self.alive[event.seq] = self.waiting[event.seq] = Alive(event)
        self.fresh[event.seq] = event.at
        self.bars.open(event.seq, Bar(event.seq, event.id, event.tenant, -1, "queued", event.received_at))

    def _scheduled(self, event: ev.RequestScheduled) -> None:
        one = self.alive[event.number]
        self._leave_queue(event.number)
        self.preempted -= one.phase == "preempted"
        self._turn(event.seq, event.number, "prefill", event.at, event.slot)

    def _parked(self, event: ev.RequestParked) -> None:
        if event.number in self.waiting:
            self._unpark(event.number)
            cause = event.cause.name.lower()
            self.alive[event.number].cause = cause
            self.alive[event.number].blockers = None if event.blockers is None else event.blockers.named(event.cause)
            self.parked_by[cause] = self.parked_by.get(cause, 0) + 1
            self.fresh.pop(event.number, None)

    def _unparked(self, event: ev.RequestUnparked) -> None:
        if event.number in self.waiting:
            self._unpark(event.number)

    def _preempted(self, event: ev.RequestPreempted) -> None:
        one = self.alive[event.number]
        last = self.steps.last
        if one.phase == "decode" and last is not None:
            one.last_token_at = max(one.last_token_at or 0, last.ended_at)
        self.preempted += 1
        self.preemptions += 1
        self._turn(event.seq, event.number, "preempted", event.at, event.slot)

    def _first_token(self, event: ev.FirstToken) -> None:
        self.ttft.add(event.at, event.at - self.alive[event.number].queued.received_at)

    def _finished(self, event: ev.RequestFinished) -> None:
        self.finished += 1
        self._leave_queue(event.number)
        one = self.alive.pop(event.number, None)
        if one is None:
            return  # refused before it was queued
        self.preempted -= one.phase == "preempted"
        self._just_ended[event.number] = one
        self.bars.close(event.seq, event.number, event.at, event.reason.value)

    def _stepped(self, event: ev.StepCompleted) -> None:
        if event.blockers is not None:
            self.blockers = event.blockers.named(event.binding)
        before = self.steps.last
        decoded = len(event.decodes) - len(event.failed)
        if before is not None and decoded:
            self.itl.add(event.ended_at, event.ended_at - before.ended_at, decoded)
        emitted = decoded
        for number, _, gained in event.chunks:
            emitted += gained
            if gained:
                self._caught_up(event, number)
        self._just_ended.clear()
        self.fresh = {number: at for number, at in self.fresh.items() if at > event.started_at}
        used = (self.server["blocks_total"] or 0) - event.blocks_free
        self.steps.append(
            Step(
                event.seq, event.step, event.started_at, event.ended_at, event.prefill_tokens, len(event.decodes), emitted,
                event.token_budget, event.binding.name.lower(), event.waiting_by_reason, event.running, used, event.preempted,
                self.server["max_num_seqs"],
            )
        )  # fmt: skip

    def _caught_up(self, event: ev.StepCompleted, number: int) -> None:
        """A chunk of `number` made a token: its first, or the first after a preemption, which is a long gap."""
        one = self.alive.get(number) or self._just_ended.get(number)
        if one is None:
            return
        if one.last_token_at is not None:
            self.itl.add(event.ended_at, event.ended_at - one.last_token_at)
        one.last_token_at = event.ended_at
        if number in self.alive:
            self._turn(event.seq, number, "decode", event.ended_at, one.slot)

    def _settings_changed(self, event: ev.SettingsChanged) -> None:
        old, changes = self.server["settings"], dict(event.changes)
        settings = old | changes
        self.describe(
            settings=settings, settings_version=event.version, policy=settings.get("policy"),
            max_num_seqs=settings.get("max_num_seqs"),
        )  # fmt: skip
        text = ", ".join(f"{name} {_told(old.get(name))} → {_told(to)}" for name, to in changes.items() if old.get(name) != to)
        if text:
            self.mark(event.at, "settings", text)

    def _turn(self, seq: int, number: int, phase: str, at: int, slot: int) -> None:
        """The request's bar ends and one of `phase` begins."""
        one = self.alive[number]
        self.bars.close(seq, number, at)
        one.phase, one.slot = phase, slot
        self.bars.open(seq, Bar(number, one.queued.id, one.queued.tenant, slot, phase, at))

    def _leave_queue(self, number: int) -> None:
        if number in self.waiting:
            self._unpark(number)
            del self.waiting[number]
        self.fresh.pop(number, None)

    def _unpark(self, number: int) -> None:
        one = self.alive[number]
        if one.cause is not None:
            self.parked_by[one.cause] -= 1
            one.cause = one.blockers = None


def _told(value: Any) -> str:
    """A setting as the pages say it: "true", "—", "weight.a=2 weight.b=1"."""
    if isinstance(value, dict):
        return " ".join(f"{name}={_told(each)}" for name, each in value.items()) or "—"
    if isinstance(value, bool):
        return str(value).lower()
    return "—" if value is None else str(value)
