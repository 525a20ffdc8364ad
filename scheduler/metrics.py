"""What the events mean: TTFT, TPOT, ITL, E2E, goodput, queue depth, waits, fairness, Little's law. Pure folds.

Knows no clock, no database and no screen; the same functions serve the live page, the reports and the simulator.
Everything is exact: integer ns in, integer ns or an unrounded ratio out; what is undefined is None, never 0.

    TTFT  first token - received              (queueing included)
    TPOT  (finished - first token) / (output tokens - 1), only for requests that ended by stop or length
    ITL   each gap between successive tokens of a request; over tokens, not over means of requests
    E2E   finished - received = waits + prefill + decode + stalled + preempted
    queue first scheduled - received
Invariant: folding a finished log gives, for each request, parts that sum to its E2E.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from scheduler.core.events import (
    Event,
    FirstToken,
    Parts,
    RequestFinished,
    RequestPreempted,
    RequestQueued,
    RequestScheduled,
    StepCompleted,
)
from scheduler.core.request import FinishReason, WaitReason

__all__ = [
    "FINISHED_WELL",
    "WAIT_REASONS",
    "FinishReason",
    "Life",
    "QueueDepth",
    "WaitReason",
    "attainment",
    "depth",
    "few",
    "inter_token",
    "jain",
    "lives",
    "little",
    "meets",
    "percentile",
    "percentiles",
    "service",
    "token_times",
    "waits",
]

WAIT_REASONS: tuple[str, ...] = tuple(reason.name.lower() for reason in WaitReason)
FINISHED_WELL = (FinishReason.STOP, FinishReason.LENGTH)
INPUT_WEIGHT, OUTPUT_WEIGHT = 1, 2  # a token's service, as VTC counts it


# ---- numbers


def percentile(ordered: Sequence[float], q: float) -> float | None:
    """The q-th percentile (0..100) of ascending values, linear between ranks (numpy's default); None of nothing."""
    if not ordered:
        return None
    rank = (len(ordered) - 1) * q / 100
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def few(n: int, q: float) -> bool:
    """True when fewer than one of n values is expected beyond the q-th percentile: shown, but grey."""
    return n * (100 - q) < 100


def percentiles(values: Iterable[float | None], qs: Sequence[int] = (50, 90, 95, 99)) -> dict[str, object]:
    """{"p50": …, "n": …, "few": [names of the percentiles that n is too small for]} over the defined values."""
    ordered = sorted(value for value in values if value is not None)
    n = len(ordered)
    figures: dict[str, object] = {f"p{q}": percentile(ordered, q) for q in qs}
    return {**figures, "n": n, "few": [f"p{q}" for q in qs if few(n, q)]}


def jain(shares: Iterable[float]) -> float | None:
    """Jain's index (Σx)² / (n·Σx²): 1 when all are equal, 1/n when one has all; None when nobody had anything."""
    values = list(shares)
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


# ---- one request


@dataclass(slots=True)
class Life:
    """One sequence as the log tells it; ns on the monotonic clock."""

    boot: int
    number: int
    id: str
    received_at: int
    tenant: str
    kind: str
    queued_at: int | None = None
    scheduled_at: int | None = None
    first_token_at: int | None = None
    finished_at: int | None = None
    reason: FinishReason | None = None
    detail: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    preemptions: int = 0
    parts: Parts | None = None
    spans: list[tuple[int, int]] = field(default_factory=list)  # when it was waiting or preempted, closed
    outside_since: int | None = None

    @property
    def queue(self) -> int | None:
        """First admission - received."""
        return None if self.scheduled_at is None else self.scheduled_at - self.received_at

    @property
    def ttft(self) -> int | None:
        """First token - received."""
        return None if self.first_token_at is None else self.first_token_at - self.received_at

    @property
    def e2e(self) -> int | None:
        """Finished - received."""
        return None if self.finished_at is None else self.finished_at - self.received_at

    @property
    def tpot(self) -> float | None:
        """Mean time per output token after the first; None below two tokens or unless it ended by stop or length."""
        if self.finished_at is None or self.first_token_at is None or self.reason not in FINISHED_WELL:
            return None
        return (self.finished_at - self.first_token_at) / (self.output_tokens - 1) if self.output_tokens > 1 else None


def lives(events: Iterable[Event]) -> dict[tuple[int, str], Life]:
    """Every sequence of the log by (boot, id), in order of first mention."""
    found: dict[tuple[int, str], Life] = {}
    by_number: dict[tuple[int, int], Life] = {}
    for event in events:
        if isinstance(event, RequestQueued):
            life = Life(event.boot, event.seq, event.id, event.received_at, event.tenant, event.kind)
            life.queued_at, life.prompt_tokens, life.outside_since = event.at, event.prompt_tokens, event.received_at
            found[event.boot, event.id] = by_number[event.boot, event.seq] = life
        elif isinstance(event, RequestFinished):
            finished = found.get((event.boot, event.id))
            if finished is None:  # rejected before it was queued
                received = event.at - event.parts.total
                finished = found[event.boot, event.id] = Life(event.boot, event.number, event.id, received, "", "")
                finished.outside_since = received
            _finish(finished, event)
        elif isinstance(event, (RequestScheduled, RequestPreempted, FirstToken)):
            _move(by_number[event.boot, event.number], event)
    return found


def _move(life: Life, event: RequestScheduled | RequestPreempted | FirstToken) -> None:
    if isinstance(event, RequestScheduled):
        if life.scheduled_at is None:
            life.scheduled_at = event.at
        if life.outside_since is not None:
            life.spans.append((life.outside_since, event.at))
        life.outside_since = None
    elif isinstance(event, RequestPreempted):
        life.outside_since = event.at
        life.preemptions += 1
    elif life.first_token_at is None:
        life.first_token_at = event.at


def _finish(life: Life, event: RequestFinished) -> None:
    life.finished_at, life.reason, life.detail, life.parts = event.at, event.reason, event.detail, event.parts
    life.prompt_tokens, life.cached_tokens = event.prompt_tokens, event.cached_tokens
    life.output_tokens, life.preemptions = event.output_tokens, event.preemptions
    if life.outside_since is not None:
        life.spans.append((life.outside_since, event.at))
        life.outside_since = None


# ---- many requests


def waits(finished: Iterable[Life]) -> dict[str, int]:
    """ns waited before the first admission, by reason, over requests that have ended; all reasons present."""
    totals = [0] * len(WAIT_REASONS)
    for life in finished:
        if life.parts is not None:
            totals = [total + wait for total, wait in zip(totals, life.parts.waits, strict=True)]
    return dict(zip(WAIT_REASONS, totals, strict=True))


def meets(ttft_ms: float | None, tpot_ms: float | None, slo_ttft_ms: float, slo_tpot_ms: float) -> bool:
    """Does a request that ended well meet the SLO pair? An undefined TTFT fails, an undefined TPOT (one token) passes."""
    return ttft_ms is not None and ttft_ms <= slo_ttft_ms and (tpot_ms is None or tpot_ms <= slo_tpot_ms)


def attainment(all_due: Sequence[Life], slo_ttft_ms: float, slo_tpot_ms: float) -> float | None:
    """Share of *all* requests (failed and rejected ones too) that ended well within both objectives."""
    good = sum(
        life.reason in FINISHED_WELL and meets(_ms(life.ttft), _ms(life.tpot), slo_ttft_ms, slo_tpot_ms) for life in all_due
    )
    return good / len(all_due) if all_due else None


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e6


def service(rows: Iterable[tuple[str, int, int]]) -> dict[str, int]:
    """(tenant, prompt tokens, output tokens) → service a tenant, weighted tokens."""
    totals: dict[str, int] = {}
    for tenant, prompt, output in rows:
        totals[tenant] = totals.get(tenant, 0) + INPUT_WEIGHT * prompt + OUTPUT_WEIGHT * output
    return totals


# ---- time


def token_times(events: Iterable[Event]) -> dict[tuple[int, int], list[int]]:
    """(boot, number) → the end of each step that gave it a token."""
    times: dict[tuple[int, int], list[int]] = {}
    steps = (event for event in events if isinstance(event, StepCompleted))
    for step in steps:
        emitted = [row.request for row in step.slices if row.emitted]
        for number in emitted:
            times.setdefault((step.boot, number), []).append(step.ended_at)
    return times


def inter_token(times: Mapping[tuple[int, int], Sequence[int]]) -> list[int]:
    """Every gap between successive tokens, ns, over all requests."""
    return [later - earlier for stamps in times.values() for earlier, later in pairwise(stamps)]


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many were waiting or preempted: a staircase of (instant, depth from then on), and its exact integral."""

    stairs: tuple[tuple[int, int], ...]
    area: int  # request-ns between the first and the last instant

    @property
    def peak(self) -> int:
        """The greatest depth."""
        return max((level for _, level in self.stairs), default=0)


def depth(finished: Iterable[Life]) -> QueueDepth:
    """The number outside the running set over time, arrivals counted from `received_at`."""
    moves: dict[int, int] = {}
    for life in finished:
        for start, end in life.spans:
            moves[start] = moves.get(start, 0) + 1
            moves[end] = moves.get(end, 0) - 1
    level, area, before, stairs = 0, 0, 0, []
    for at in sorted(moves):
        area += level * (at - before)
        level, before = level + moves[at], at
        stairs.append((at, level))
    return QueueDepth(tuple(stairs), area)


def little(finished: Sequence[Life]) -> tuple[int, int]:
    """Both sides of L·T = λT·W for the waiting (preempted included): the staircase's area, and the sum of single waits.

    They are computed apart, the first from the depth over time, the second from the parts that the core counted;
    on a finished log they are equal to the nanosecond.
    """
    parts = [life.parts for life in finished if life.parts is not None]
    return depth(finished).area, sum(sum(each.waits) + each.preempted for each in parts)
