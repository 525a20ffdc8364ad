"""A run of an experiment, and what is kept of it. Knows no experiment.

Invariant: equal requests, runner and settings give an equal Record, on any machine.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from random import Random
from typing import Any

from scheduler.core.events import Event, StepCompleted
from scheduler.core.policies.base import Policy
from scheduler.core.request import Request, SamplingParams
from scheduler.metrics import Life, lives
from scheduler.runners.base import Runner
from scheduler.settings import SchedulerSettings
from scheduler.simulate import Progress, Simulation, Trace

MS = 1_000_000
SECOND = 1_000_000_000
SEED = 1
ROOMY: Mapping[str, Any] = {  # nothing binds but what an experiment says
    "max_num_seqs": 256,
    "max_num_batched_tokens": 1 << 15,
    "max_model_len": 1 << 15,
    "kv_cache_tokens": 1 << 21,
    "enable_prefix_caching": False,  # where nobody is preempted and no prefix is shared it would find nothing
    "watermark": 0.0,
    "max_num_queued_reqs": 1_000_000,
}


class Record:
    """The events of one run, its steps apart. steps: empty unless they were asked for."""

    def __init__(self, on_step: Callable[[StepCompleted], None] | None = None) -> None:
        self.events: list[Event] = []
        self.end = Progress(0, 0, 0)
        self._on_step = on_step

    def take(self, events: list[Event]) -> None:
        """What one call of the scheduler made happen."""
        for event in events:
            if not isinstance(event, StepCompleted):
                self.events.append(event)
            elif self._on_step is not None:
                self._on_step(event)

    @cached_property
    def lives(self) -> list[Life]:
        """Every request in the order of arrival, those that did not end included."""
        return list(lives(self.events).values())

    def mean_response_s(self, keep: Callable[[Life], bool] = lambda life: True) -> float:
        """Mean time from arrival to the last token, seconds, of those that ended; NaN of nobody."""
        return _mean(life.e2e for life in self.lives if keep(life)) / SECOND

    def mean_wait_s(self, keep: Callable[[Life], bool] = lambda life: True) -> float:
        """Mean time from arrival to first admission, seconds."""
        return _mean(life.queue for life in self.lives if keep(life)) / SECOND

    def mean_ttft_s(self) -> float:
        """Mean time from arrival to the first token, seconds."""
        return _mean(life.ttft for life in self.lives) / SECOND


def play(
    requests: Iterable[Request],
    runner: Runner,
    policy: str = "fcfs",
    *,
    params: Mapping[str, Any] | None = None,
    order: Policy | None = None,
    until_s: float | None = None,
    on_step: Callable[[StepCompleted], None] | None = None,
    **settings: Any,
) -> Record:
    """Simulate `requests` (in order of arrival). order: instead of a policy of the catalog; settings: over ROOMY."""
    chosen = SchedulerSettings().change({**ROOMY, "policy": policy, "policy_params": dict(params or {}), **settings})
    record = Record(on_step)
    simulation = Simulation(chosen, runner, Trace(requests), record.take, policy=order)
    record.end = simulation.run(None if until_s is None else round(until_s * SECOND))
    return record


def job(number: int, at_ns: int, output: int, prompt: int = 1, **fields: Any) -> Request:
    """A request of exactly so many tokens, as max_tokens tells; its first token is its number, so no two share a prefix."""
    tokens = array("I", bytes(4 * prompt))
    tokens[0] = number
    return Request(f"job-{number}", tokens, SamplingParams(max_tokens=output, ignore_eos=True), received_at=at_ns, **fields)


def poisson(rng: Random, rate: float, count: int) -> list[int]:
    """`count` instants of a Poisson process of `rate` a second, ns."""
    at, instants = 0.0, []
    for _ in range(count):
        at += rng.expovariate(rate)
        instants.append(round(at * SECOND))
    return instants


def _mean(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan
