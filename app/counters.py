"""Counters: a fold of core events into what /metrics shows, under `batchscope:` names that mirror vLLM's. Pure.

Invariant: totals only ascend while the process lives; gauges fall back to zero with a new life of the engine.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduler.core import events as ev

_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0)
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_NS = 1_000_000_000


class Histogram:
    """Counts by upper bound, for Prometheus; not what any percentile on our pages is made of."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """`times` observations of `value`."""
        self.counts[bisect.bisect_left(self.bounds, value)] += times
        self.sum += value * times


class Counters:
    """See the module. `gauges` of the process itself are handed to `render`."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self.finished: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()  # POSTs that never became requests, by the records' word for why
        self.waiting = self.running = 0
        self.blocks_total = self.blocks_free = 0
        self.ttft, self.queue, self.e2e = Histogram(_SECONDS), Histogram(_SECONDS), Histogram(_SECONDS)
        self.step_time = Histogram(_STEPS)
        self.model = ""
        self._received: dict[int, int] = {}
        self._handlers: dict[type[ev.Event], Callable[[Any], None]] = {
            ev.EngineStarted: self._started,
            ev.RequestQueued: self._queued,
            ev.RequestScheduled: self._scheduled,
            ev.RequestPreempted: self._preempted,
            ev.FirstToken: self._first_token,
            ev.RequestFinished: self._finished,
            ev.StepCompleted: self._stepped,
        }

    def apply(self, event: ev.Event) -> None:
        """Fold one event."""
        handle = self._handlers.get(type(event))
        if handle is not None:
            handle(event)

    def render(self, gauges: Mapping[str, float]) -> str:
        """The Prometheus text format."""
        label = f'model_name="{self.model}"'
        used = self.blocks_total - self.blocks_free
        shown = {
            "num_requests_waiting": self.waiting,
            "num_requests_running": self.running,
            "kv_cache_usage_perc": used / self.blocks_total if self.blocks_total else 0,
            **gauges,
        }
        lines = []
        for name, value in shown.items():
            lines += [f"# TYPE batchscope:{name} gauge", f"batchscope:{name}{{{label}}} {value:g}"]
        for name in _TOTALS:
            lines += [f"# TYPE batchscope:{name} counter", f"batchscope:{name}_total{{{label}}} {self.totals[name]}"]
        lines.append("# TYPE batchscope:request_success counter")
        for reason, count in sorted(self.finished.items()):
            lines.append(f'batchscope:request_success_total{{{label},finished_reason="{reason}"}} {count}')
        lines.append("# TYPE batchscope:requests_refused counter")
        for detail, count in sorted(self.refused.items()):
            lines.append(f'batchscope:requests_refused_total{{{label},reason="{detail}"}} {count}')
        histograms = {
            "time_to_first_token_seconds": self.ttft,
            "request_queue_time_seconds": self.queue,
            "e2e_request_latency_seconds": self.e2e,
            "step_duration_seconds": self.step_time,
        }
        for name, histogram in histograms.items():
            lines += _histogram(f"batchscope:{name}", label, histogram)
        return "\n".join(lines) + "\n"

    def _started(self, event: ev.EngineStarted) -> None:
        self.totals["engine_starts"] += 1
        self.waiting = self.running = 0
        self._received.clear()
        self.blocks_total = self.blocks_free = event.blocks_total
        self.model = "".join(c for c in event.model if c.isprintable() and c not in '"\\')

    def _queued(self, event: ev.RequestQueued) -> None:
        self.waiting += 1
        self.totals["prompt_tokens"] += event.prompt_tokens
        self._received[event.seq] = event.received_at

    def _scheduled(self, event: ev.RequestScheduled) -> None:
        self.running += 1
        self.totals["prefix_cache_hits"] += event.cached_tokens
        if not event.resumed:
            self.waiting -= 1
            self.queue.add((event.at - self._received[event.number]) / _NS)

    def _preempted(self, event: ev.RequestPreempted) -> None:
        self.running -= 1
        self.totals["num_preemptions"] += 1

    def _first_token(self, event: ev.FirstToken) -> None:
        self.ttft.add((event.at - self._received[event.number]) / _NS)

    def _finished(self, event: ev.RequestFinished) -> None:
        self.finished[event.reason.value] += 1
        received = self._received.pop(event.number, None)
        if received is None:
            return  # refused before it was queued
        self.e2e.add((event.at - received) / _NS)
        if event.slot >= 0:
            self.running -= 1
        elif not event.preemptions:
            self.waiting -= 1

    def _stepped(self, event: ev.StepCompleted) -> None:
        self.blocks_free = event.blocks_free
        self.totals["steps"] += 1
        self.totals["prefill_tokens"] += event.prefill_tokens
        emitted = len(event.decodes) - len(event.failed) + sum(emitted for _, _, emitted in event.chunks)
        self.totals["generation_tokens"] += emitted
        self.step_time.add((event.ended_at - event.started_at) / _NS)


_TOTALS = (
    "prompt_tokens",
    "prefill_tokens",
    "generation_tokens",
    "num_preemptions",
    "prefix_cache_hits",
    "steps",
    "engine_starts",
)


def _histogram(name: str, label: str, histogram: Histogram) -> list[str]:
    lines, total = [f"# TYPE {name} histogram"], 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        total += count
        le = "+Inf" if bound == float("inf") else f"{bound:g}"
        lines.append(f'{name}_bucket{{{label},le="{le}"}} {total}')
    return [*lines, f"{name}_sum{{{label}}} {histogram.sum:g}", f"{name}_count{{{label}}} {total}"]
