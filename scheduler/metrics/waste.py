"""Waste: token budget and memory that were not used, tokens computed twice, time without a step. Knows steps as sums.

Steps have no padding: each runs just the tokens of its slices. Folds take their input in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from scheduler.core.events import EngineStarted, Event, RequestPreempted, RequestScheduled, StepCompleted


class Load(Protocol):
    """What a step was, in sums; instants in ns. kv_used: blocks in use after it, None where the pool's size is unknown."""

    @property
    def boot(self) -> int: ...
    @property
    def seq(self) -> int: ...
    @property
    def started_at(self) -> int: ...
    @property
    def ended_at(self) -> int: ...
    @property
    def token_budget(self) -> int: ...
    @property
    def prefill_tokens(self) -> int: ...
    @property
    def decode_tokens(self) -> int: ...
    @property
    def kv_used(self) -> int | None: ...
    @property
    def kv_total(self) -> int | None: ...


class StepLoad(NamedTuple):
    """A Load as a value."""

    boot: int
    seq: int
    started_at: int
    ended_at: int
    token_budget: int
    prefill_tokens: int
    decode_tokens: int
    kv_used: int | None
    kv_total: int | None


@dataclass(frozen=True, slots=True)
class Memory:
    """The share of KV blocks in use: its mean over the time of steps, and its peak at a step's end."""

    mean: float
    peak: float


def step_loads(events: Iterable[Event]) -> list[StepLoad]:
    """The steps of a log."""
    totals: dict[int, int] = {}
    found = []
    for event in events:
        if isinstance(event, EngineStarted):
            totals[event.boot] = event.blocks_total
        elif isinstance(event, StepCompleted):
            total = totals.get(event.boot)
            used = None if total is None else total - event.blocks_free
            sums = (event.token_budget, event.prefill_tokens, len(event.decodes))
            found.append(StepLoad(event.boot, event.seq, event.started_at, event.ended_at, *sums, used, total))
    return found


def budget_used(steps: Iterable[Load]) -> float | None:
    """Σ T / Σ token budget: batch-token utilisation; None without steps."""
    tokens = budget = 0
    for step in steps:
        tokens += step.prefill_tokens + step.decode_tokens
        budget += step.token_budget
    return ratio(tokens, budget)


def memory(steps: Iterable[Load]) -> Memory | None:
    """KV utilisation; None where no step says how large its pool is."""
    known = [
        (step.ended_at - step.started_at, step.kv_used / step.kv_total)
        for step in steps
        if step.kv_total and step.kv_used is not None
    ]
    whole = sum(ns for ns, _ in known)
    if not whole:
        return None
    return Memory(sum(ns * share for ns, share in known) / whole, max(share for _, share in known))


def idle_share(steps: Iterable[Load]) -> float | None:
    """The share of the time from the first step's start to the last one's end in which no step ran, in lives of the engine
    taken one by one; None without steps."""
    spans: dict[int, tuple[int, int]] = {}
    busy = 0
    for step in steps:
        first, last = spans.get(step.boot, (step.started_at, step.ended_at))
        spans[step.boot] = (min(first, step.started_at), max(last, step.ended_at))
        busy += step.ended_at - step.started_at
    whole = sum(last - first for first, last in spans.values())
    return 1 - busy / whole if whole else None


def relapses(events: Iterable[Event]) -> Iterator[tuple[int, int]]:
    """Of each preempted sequence that ran again: (computed tokens that it lost, tokens found again by prefix hash)."""
    lost: dict[tuple[int, int], int] = {}
    for event in events:
        if isinstance(event, RequestPreempted):
            lost[event.boot, event.number] = event.computed_tokens_lost
        elif isinstance(event, RequestScheduled) and event.resumed:
            yield lost.pop((event.boot, event.number), 0), event.cached_tokens


def recomputed(again: Iterable[tuple[int, int]]) -> int:
    """Tokens to be computed a second time, from `relapses`: what was lost and not found again."""
    return sum(max(0, lost - found) for lost, found in again)


def ratio(part: float, whole: float) -> float | None:
    """part / whole, None of nothing: preemptions a request, refused of sent (shed rate), cached of prompt tokens (prefix
    hit rate), recomputed of all computed tokens."""
    return part / whole if whole else None
