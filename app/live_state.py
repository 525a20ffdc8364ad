"""LiveState: what the live page shows, as the snapshot and the frames that the websocket sends. Knows no Flask, no socket.

Everything but the waits that still go on and the windows that run out is a function of the folded events and the engine's
status: two readers at the same (boot, seq) see the same. At rest nothing changes but once: 30 s on, the latencies are empty.
All calls come from one thread (the web process's hub), and none of them yields.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import Any

from app import live_bars, live_figures
from app.live_figures import LATENCY_WINDOW
from app.live_fold import Alive, LiveFold
from scheduler.core.events import Event
from scheduler.metrics import WAIT_REASONS

SNAPSHOT_STEPS = 600
WAITING_SHOWN = 10
RUN_LIVE = ("pending", "running", "draining")


class LiveState:
    """The live page's state. `now` reads the monotonic clock in ns; `version` is our own; `ring`: steps kept (0: 6,000)."""

    def __init__(self, now: Callable[[], int], *, version: str = "", ring: int = 0) -> None:
        self._now = now
        self.fold = LiveFold(version, ring)
        self.engine, self.engine_text = "loading", ""
        self.run: dict[str, Any] | None = None
        self.dashboards = 0
        self.revision = 0  # ascends with every change, also those that are no event
        self._figures: tuple[int, float, dict[str, Any]] = (-1, 0.0, {})  # of a revision, until a sample is too old

    # ---- what happens

    def apply(self, event: Event) -> None:
        """Fold one event."""
        if self.fold.apply(event):
            self.revision += 1

    def step_cost(self, observe_ns: int, host_late_ns: int = 0) -> None:
        """What recording and sending a step cost the engine; whether the host was too late for the simulated clock."""
        if observe_ns:
            self.fold.costs.append(observe_ns)
        self.fold.host_late += host_late_ns > 0
        self.revision += 1

    def engine_status(self, status: str, text: str = "") -> None:
        """`status`: up, loading, paused or down; `text`: progress or the last error. Who loads after a death is still down."""
        if (status, self.engine) == ("loading", "down"):
            status = "down"
        if (status, text) != (self.engine, self.engine_text):
            self.engine, self.engine_text = status, text
            self.revision += 1

    def describe(self, **fields: Any) -> None:
        """Facts of the server that no event carries: device, dtype, simulated, settings_version."""
        self.fold.describe(**fields)
        self.revision += 1

    def run_changed(self, run: Mapping[str, Any] | None) -> None:
        """The active or last load run; its start and its end become markers."""
        before, self.run = self.run, None if run is None else dict(run)
        old = before["id"] if before and before["status"] in RUN_LIVE else None
        new = self.run["id"] if self.run and self.run["status"] in RUN_LIVE else None
        if before and old is not None and old != new:
            status = self.run["status"] if self.run and self.run["id"] == old else "ended"
            self.fold.mark(self._now(), "run_end", f"run {_run_name(before)}: {status}")
        if self.run and new is not None and old != new:
            self.fold.mark(self._now(), "run_start", f"run {_run_name(self.run)} starts")
        self._mark_rate(before if before and self.run and before["id"] == self.run["id"] else None)
        self.revision += 1

    def _mark_rate(self, before: Mapping[str, Any] | None) -> None:
        """Changes of the run's rate that its generator has made since, each at its own instant."""
        known = len((before or {}).get("rate_changes") or ())
        for change in ((self.run or {}).get("rate_changes") or ())[known:]:
            ago = round(((self.run or {})["elapsed_s"] - change["at_s"]) * 1e9)
            self.fold.mark(self._now() - ago, "rate", f"rate × {change['factor']:g}")

    # ---- what is shown

    @property
    def boot(self) -> int:
        """The engine life shown."""
        return self.fold.boot

    @property
    def seq(self) -> int:
        """The newest event folded."""
        return self.fold.seq

    @property
    def server(self) -> dict[str, Any]:
        """What serves, and its settings."""
        return self.fold.server

    def snapshot(self) -> dict[str, Any]:
        """Everything that a page which joins now needs."""
        fold = self.fold
        bars, left_out = fold.bars.recent()
        return {
            "boot": fold.boot,
            "seq": fold.seq,
            "wall_ms": fold.wall / 1e6,
            "server": fold.server,
            "gauges": self.gauges(),
            "steps": live_figures.columns(fold.steps.newest(SNAPSHOT_STEPS), fold.ms),
            "segments": live_bars.columns(bars, fold.ms),
            "segments_dropped": left_out,
            "waiting_now": self._waiting_now(),
            "markers": list(fold.markers),
            "run": self.run,
        }

    def frame(self, last: int) -> dict[str, Any] | None:
        """What changed after seq `last`; None when that is no longer kept (send a snapshot)."""
        fold = self.fold
        steps, bars = fold.steps.since(last), fold.bars.since(last)
        if last > fold.seq or steps is None or bars is None:
            return None
        return {
            "boot": fold.boot,
            "from": last,
            "to": fold.seq,
            "gauges": self.gauges(),
            "steps": live_figures.columns(steps, fold.ms),
            "changes": live_bars.columns(bars, fold.ms),
            "waiting_now": self._waiting_now(),
            "markers": list(fold.markers),
        }

    def gauges(self) -> dict[str, Any]:
        """The tiles."""
        fold, now = self.fold, self._window_end()
        if self._figures[0] != self.revision or now >= self._figures[1]:
            self._figures = (self.revision, min(fold.ttft.stale_at(), fold.itl.stale_at()), self._computed(now))
        return self._figures[2] | {"now_ms": self.fold.ms(self._shown_now()), "dashboards": self.dashboards}

    def _computed(self, now: int) -> dict[str, Any]:
        fold, step = self.fold, self.fold.steps.last
        total, settings = fold.server["blocks_total"], fold.server["settings"]
        return {
            "engine": self.engine,
            "engine_text": self.engine_text,
            "waiting": len(fold.waiting),
            "running": fold.running,
            "preempted": fold.preempted,
            "blocks_free": self._blocks_free(),
            "blocks_total": total,
            "max_num_seqs": fold.server["max_num_seqs"],
            "token_budget": settings.get("max_num_batched_tokens") if step is None else step.budget,
            "binding": self._binding(),
            "waiting_by_reason": self._waiting_by_reason(),
            "preemptions": fold.preemptions,
            "finished": fold.finished,
            "step_ms_p50": fold.steps.step_ms_p50(),
            "budget_used": fold.steps.budget_used(),
            "observe_us_step": live_figures.mean_us(fold.costs),
            "host_late": fold.host_late,
            **self._rates(),
            **fold.ttft.gauges("ttft", now),
            **fold.itl.gauges("itl", now),
        }

    def _blocks_free(self) -> int | None:
        """As of the last step; who ended since then gave its blocks back, so with nobody running all are free."""
        fold, step = self.fold, self.fold.steps.last
        total = fold.server["blocks_total"]
        return total if step is None or total is None or not fold.running else int(total - step.kv_used)

    def _rates(self) -> dict[str, float | None]:
        output, prefill = self.fold.steps.rates()
        if (self.fold.idle or self._held()) and output is not None:  # no step runs, however fresh the last one is
            output = prefill = 0.0
        return {"output_tok_s": output, "prefill_tok_s": prefill}

    def _shown_now(self) -> int:
        """At rest time stands still."""
        fold = self.fold
        return fold.at if fold.idle and self.engine != "down" else max(fold.at, self._now())

    def _window_end(self) -> int:
        """Of the latencies. At rest it stands, too, until all in it is too old: else percentiles would be of ever fewer."""
        now = max(self.fold.at, self._now())
        return now if now >= self.fold.at + LATENCY_WINDOW else max(self.fold.at, self._shown_now())

    def _held(self) -> str | None:
        return {"paused": "paused", "down": "engine_down", "loading": "engine_down"}.get(self.engine)

    def _binding(self) -> str | None:
        step = self.fold.steps.last
        return self._held() or (None if step is None else step.binding)

    def _waiting_by_reason(self) -> dict[str, int]:
        fold, counts, held = self.fold, dict.fromkeys(WAIT_REASONS, 0), self._held()
        if held is not None:
            return counts | {held: len(fold.waiting)}
        for cause, number in fold.parked_by.items():
            counts[cause] += number
        counts["step"] += len(fold.fresh)
        counts[self._binding() or "step"] += len(fold.waiting) - len(fold.fresh) - sum(fold.parked_by.values())
        return counts

    def _reason(self, one: Alive) -> str:
        return self._held() or self._own_reason(one)

    def _own_reason(self, one: Alive) -> str:
        """What it waits for where nobody holds the engine: as of the last step."""
        last = self.fold.steps.last
        return one.cause or ("step" if last is None or one.queued.seq in self.fold.fresh else last.binding)

    def _blockers(self, one: Alive, reason: str) -> dict[str, Any] | None:
        """Who holds what it lacks: its own set while it is parked, else that of the last step, if the reason still stands."""
        if one.cause is not None:
            return one.blockers if reason == one.cause else None
        shared = self.fold.blockers
        return shared if shared is not None and shared["reason"] == reason else None

    def _waiting_now(self) -> list[dict[str, Any]]:
        now = self._shown_now()
        longest = heapq.nsmallest(WAITING_SHOWN, self.fold.waiting.values(), key=_arrival)
        return [
            {
                "id": one.queued.id,
                "number": one.queued.seq,
                "tenant": one.queued.tenant,
                "kind": one.queued.kind,
                "priority": one.queued.priority,
                "waited_ms": round((now - one.queued.received_at) / 1e6, 3),
                "reason": (reason := self._reason(one)),
                "blockers": self._blockers(one, reason),
                "prompt_tokens": one.queued.prompt_tokens,
            }
            | self._beneath(one)
            for one in longest
        ]

    def _beneath(self, one: Alive) -> dict[str, Any]:
        """While the engine is held, `beneath`: what it would wait for anyway, and who holds that."""
        if self._held() is None:
            return {}
        reason = self._own_reason(one)
        return {"beneath": {"reason": reason, "blockers": self._blockers(one, reason)}}


def _arrival(one: Alive) -> tuple[int, int]:
    return one.queued.received_at, one.queued.seq


def _run_name(run: Mapping[str, Any]) -> str:
    return str(run.get("scenario") or run.get("name") or run["id"])
