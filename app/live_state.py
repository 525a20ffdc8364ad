"""LiveState: folds core events into what the live page shows. Knows no Flask, no socket and no thread.

The snapshot and the frames are functions of the folded events (and of the engine's status): two readers at the same
(boot, seq) see the same figures. Only waits that still go on are measured to `now`.
Invariant: every request that was queued and has not finished is in `_alive`, waiting, running or preempted.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app import live_bars, live_figures
from app.live_bars import Bar, Bars
from app.live_figures import REASONS, RECENT_STEPS, Samples, Step, StepRing
from scheduler.core import events as ev

SNAPSHOT_STEPS = 600
WAITING_SHOWN = 10
MARKERS_KEPT = 40
SERVER_FIELDS = (
    "version", "model", "runner", "hardware", "simulated", "device", "dtype", "max_num_seqs", "block_size",
    "blocks_total", "policy", "settings", "settings_version",
)  # fmt: skip


@dataclass(slots=True)
class Alive:
    """A request between its queueing and its end. `cause` while parked; `last_token_at` of its newest output token."""

    queued: ev.RequestQueued
    phase: str = "queued"
    slot: int = -1
    cause: str | None = None
    last_token_at: int | None = None


class LiveState:
    """The live page's state. `now` reads the monotonic clock in ns; `version` is Batchscope's own."""

    def __init__(self, now: Callable[[], int], *, version: str = "") -> None:
        self._now = now
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
        self.engine, self.engine_text = "loading", ""
        self.run: dict[str, Any] | None = None
        self.dashboards = 0
        self.revision = 0  # ascends with every change, also those that are no event
        self.boot = 0
        self._reset(wall=0, mono=0)

    def _reset(self, wall: int, mono: int) -> None:
        self.seq = 0
        self._wall, self._mono, self._at = wall, mono, mono
        self._alive: dict[int, Alive] = {}
        self._waiting: dict[int, Alive] = {}
        self._fresh: dict[int, int] = {}  # waiting since after the last step's planning: number → instant
        self._preempted_now = self._preemptions = self._done = self._host_late = 0
        self._parked_by: dict[str, int] = {}
        self._bars = Bars()
        self._steps = StepRing()
        self._ttft, self._itl = Samples(), Samples()
        self._costs: deque[int] = deque(maxlen=RECENT_STEPS)
        self._markers: deque[dict[str, Any]] = deque(maxlen=MARKERS_KEPT)
        self._figures: tuple[int, dict[str, Any]] = (-1, {})

    # ---- what happens

    def apply(self, event: ev.Event) -> None:
        """Fold one event. Events of another boot (an engine that died, the web's own) are not this page's."""
        if event.boot != self.boot and not (isinstance(event, ev.EngineStarted) and event.boot > self.boot):
            return
        self._dispatch[type(event)](event)
        self.seq, self._at = event.seq, max(self._at, event.at)
        self._bars.forget(self._at - live_bars.KEPT_S * live_figures.NS)
        self.revision += 1

    def step_cost(self, observe_ns: int, host_late_ns: int = 0) -> None:
        """What recording and sending a step cost the engine; whether the host was too late for the simulated clock."""
        if observe_ns:
            self._costs.append(observe_ns)
        self._host_late += host_late_ns > 0
        self.revision += 1

    def engine_status(self, status: str, text: str = "") -> None:
        """`status`: up, loading, paused or down; `text`: progress or the last error."""
        if (status, text) != (self.engine, self.engine_text):
            self.engine, self.engine_text = status, text
            self.revision += 1

    def describe(self, **fields: Any) -> None:
        """Facts of the server that no event carries: device, dtype, simulated, settings_version, …"""
        unknown = set(fields) - set(SERVER_FIELDS)
        assert not unknown, unknown
        self.server = self.server | fields
        self.server_version += 1
        self.revision += 1

    def run_changed(self, run: Mapping[str, Any] | None) -> None:
        """The active or last load run; its start and end become markers."""
        before, self.run = self.run, None if run is None else dict(run)
        live = ("running", "draining")
        was = before is not None and before["status"] in live
        if self.run is not None and self.run["status"] in live and not (was and before and before["id"] == self.run["id"]):
            self._mark(self._now(), "run_start", f"run {self.run['scenario'] or self.run['name']} starts")
        elif was and before and (self.run is None or self.run["status"] not in live):
            status = "ends" if self.run is None else self.run["status"]
            self._mark(self._now(), "run_end", f"run {before['scenario'] or before['name']} {status}")
        self.revision += 1

    # ---- what is shown

    def snapshot(self) -> dict[str, Any]:
        """Everything a page needs that joins now."""
        return {
            "boot": self.boot,
            "seq": self.seq,
            "wall_ms": self._wall / 1e6,
            "server": self.server,
            "gauges": self.gauges(),
            "steps": live_figures.columns(self._steps.newest(SNAPSHOT_STEPS), self._ms),
            "segments": live_bars.columns(self._bars.recent(), self._ms),
            "segments_dropped": self._bars.dropped,
            "waiting_now": self._waiting_now(),
            "markers": list(self._markers),
            "run": self.run,
        }

    def frame(self, last: int) -> dict[str, Any] | None:
        """What changed after seq `last`; None when that is no longer kept (send a snapshot)."""
        steps, bars = self._steps.since(last), self._bars.since(last)
        if last > self.seq or steps is None or bars is None:
            return None
        return {
            "boot": self.boot,
            "from": last,
            "to": self.seq,
            "gauges": self.gauges(),
            "steps": live_figures.columns(steps, self._ms),
            "changes": live_bars.columns(bars, self._ms),
            "waiting_now": self._waiting_now(),
            "markers": list(self._markers),
        }

    def gauges(self) -> dict[str, Any]:
        """The tiles."""
        if self._figures[0] != self.revision:
            self._figures = (self.revision, self._compute_gauges())
        return self._figures[1] | {"now_ms": self._ms(self._shown_now()), "dashboards": self.dashboards}

    def _compute_gauges(self) -> dict[str, Any]:
        step, settings = self._steps.last, self.server["settings"]
        output, prefill = self._steps.rates()
        if self.idle and step is not None:
            output = prefill = 0.0
        ttft_p50, ttft_p95, ttft_n = self._ttft.figures(self._at)
        itl_p50, itl_p95, itl_n = self._itl.figures(self._at)
        total = self.server["blocks_total"]
        return {
            "engine": self.engine,
            "engine_text": self.engine_text,
            "waiting": len(self._waiting),
            "running": len(self._alive) - len(self._waiting) - self._preempted_now,
            "preempted": self._preempted_now,
            "blocks_free": total if step is None or total is None else total - step.kv_used,
            "blocks_total": total,
            "max_num_seqs": self.server["max_num_seqs"],
            "token_budget": settings.get("max_num_batched_tokens") if step is None else step.budget,
            "binding": self._binding(),
            "waiting_by_reason": self._waiting_by_reason(),
            "output_tok_s": output,
            "prefill_tok_s": prefill,
            "step_ms_p50": self._steps.step_ms_p50(),
            "budget_used": self._steps.budget_used(),
            "preemptions": self._preemptions,
            "finished": self._done,
            "ttft_p50_ms": ttft_p50,
            "ttft_p95_ms": ttft_p95,
            "ttft_n": ttft_n,
            "itl_p50_ms": itl_p50,
            "itl_p95_ms": itl_p95,
            "itl_n": itl_n,
            "observe_us_step": live_figures.mean_us(self._costs),
            "host_late": self._host_late,
        }

    @property
    def idle(self) -> bool:
        """True when nothing waits and nothing runs."""
        return not self._alive

    def _shown_now(self) -> int:
        """At rest time stands still, so that nothing on the page changes."""
        return self._at if self.idle and self.engine != "down" else max(self._at, self._now())

    def _ms(self, at: int) -> float:
        return round((at - self._mono) / 1e6, 3)

    def _binding(self) -> str | None:
        if self.engine in ("paused", "down"):
            return "paused" if self.engine == "paused" else "engine_down"
        return None if self._steps.last is None else self._steps.last.binding

    def _waiting_by_reason(self) -> dict[str, int]:
        counts = dict.fromkeys(REASONS, 0)
        if self.engine in ("paused", "down"):
            counts["paused" if self.engine == "paused" else "engine_down"] = len(self._waiting)
            return counts
        for cause, number in self._parked_by.items():
            counts[cause] += number
        counts["step"] += len(self._fresh)
        rest = len(self._waiting) - len(self._fresh) - sum(self._parked_by.values())
        counts[self._binding() or "step"] += rest
        return counts

    def _reason(self, one: Alive) -> str:
        if self.engine in ("paused", "down"):
            return self._binding() or "step"
        return one.cause or ("step" if one.queued.seq in self._fresh else self._binding() or "step")

    def _waiting_now(self) -> list[dict[str, Any]]:
        now = self._shown_now()
        longest = heapq.nsmallest(WAITING_SHOWN, self._waiting.values(), key=lambda one: (one.queued.received_at, one.queued.seq))
        return [
            {
                "id": one.queued.id,
                "number": one.queued.seq,
                "tenant": one.queued.tenant,
                "kind": one.queued.kind,
                "priority": one.queued.priority,
                "waited_ms": round((now - one.queued.received_at) / 1e6, 3),
                "reason": self._reason(one),
                "prompt_tokens": one.queued.prompt_tokens,
            }
            for one in longest
        ]

    def _mark(self, at: int, kind: str, text: str) -> None:
        self._markers.append({"t": self._ms(at), "kind": kind, "text": text})

    # ---- the fold, one method an event

    def _started(self, event: ev.EngineStarted) -> None:
        self.boot = event.boot
        self._reset(event.wall, event.mono)
        settings = dict(event.settings)
        self.describe(
            model=event.model, runner=event.runner, hardware=event.hardware, simulated=event.runner != "torch",
            block_size=event.block_size, blocks_total=event.blocks_total, settings=settings, policy=settings.get("policy"),
            max_num_seqs=settings.get("max_num_seqs"),
        )  # fmt: skip
        if event.boot > 1:
            self._mark(event.at, "engine", f"engine life {event.boot} starts")

    def _queued(self, event: ev.RequestQueued) -> None:
        self._alive[event.seq] = self._waiting[event.seq] = Alive(event)
        self._fresh[event.seq] = event.at
        self._bars.open(event.seq, Bar(event.seq, event.id, event.tenant, -1, "queued", event.received_at))

    def _scheduled(self, event: ev.RequestScheduled) -> None:
        one = self._alive[event.number]
        self._leave_queue(event.number)
        self._preempted_now -= one.phase == "preempted"
        self._turn(event.seq, event.number, "prefill", event.at, event.slot)

    def _parked(self, event: ev.RequestParked) -> None:
        if event.number in self._waiting:
            self._unpark(event.number)
            cause = event.cause.name.lower()
            self._alive[event.number].cause = cause
            self._parked_by[cause] = self._parked_by.get(cause, 0) + 1
            self._fresh.pop(event.number, None)

    def _unparked(self, event: ev.RequestUnparked) -> None:
        if event.number in self._waiting:
            self._unpark(event.number)

    def _preempted(self, event: ev.RequestPreempted) -> None:
        one = self._alive[event.number]
        last = self._steps.last
        if one.phase == "decode" and last is not None:
            one.last_token_at = max(one.last_token_at or 0, last.ended_at)
        self._preempted_now += 1
        self._preemptions += 1
        self._turn(event.seq, event.number, "preempted", event.at, event.slot)

    def _first_token(self, event: ev.FirstToken) -> None:
        self._ttft.add(event.at, event.at - self._alive[event.number].queued.received_at)

    def _finished(self, event: ev.RequestFinished) -> None:
        self._done += 1
        one = self._alive.pop(event.number, None)
        if one is None:
            return  # refused before it was queued
        if event.number in self._waiting:
            self._unpark(event.number)
        self._waiting.pop(event.number, None)
        self._fresh.pop(event.number, None)
        self._preempted_now -= one.phase == "preempted"
        self._bars.close(event.seq, event.number, event.at, event.reason.value)

    def _stepped(self, event: ev.StepCompleted) -> None:
        before = self._steps.last
        decoded = len(event.decodes) - len(event.failed)
        if before is not None and decoded:
            self._itl.add(event.ended_at, event.ended_at - before.ended_at, decoded)
        emitted = decoded
        for number, _, gained in event.chunks:
            emitted += gained
            one = self._alive.get(number)
            if gained and one is not None:
                if one.last_token_at is not None:
                    self._itl.add(event.ended_at, event.ended_at - one.last_token_at)
                one.last_token_at = event.ended_at
                self._turn(event.seq, number, "decode", event.ended_at, one.slot)
        self._fresh = {number: at for number, at in self._fresh.items() if at > event.started_at}
        used = (self.server["blocks_total"] or 0) - event.blocks_free
        self._steps.append(
            Step(
                event.seq, event.step, event.started_at, event.ended_at, event.prefill_tokens, len(event.decodes), emitted,
                event.token_budget, event.binding.name.lower(), event.waiting_by_reason, event.running, used, event.preempted,
            )
        )  # fmt: skip

    def _settings_changed(self, event: ev.SettingsChanged) -> None:
        old, changes = self.server["settings"], dict(event.changes)
        settings = old | changes
        self.describe(
            settings=settings, settings_version=event.version, policy=settings.get("policy"),
            max_num_seqs=settings.get("max_num_seqs"),
        )  # fmt: skip
        text = ", ".join(f"{name} {old.get(name)} → {value}" for name, value in changes.items() if old.get(name) != value)
        if text:
            self._mark(event.at, "settings", text)

    def _turn(self, seq: int, number: int, phase: str, at: int, slot: int) -> None:
        """The request's bar ends and one of `phase` begins."""
        one = self._alive[number]
        self._bars.close(seq, number, at)
        one.phase, one.slot = phase, slot
        self._bars.open(seq, Bar(number, one.queued.id, one.queued.tenant, slot, phase, at))

    def _leave_queue(self, number: int) -> None:
        if number in self._waiting:
            self._unpark(number)
            del self._waiting[number]
        self._fresh.pop(number, None)

    def _unpark(self, number: int) -> None:
        one = self._alive[number]
        if one.cause is not None:
            self._parked_by[one.cause] -= 1
            one.cause = None
