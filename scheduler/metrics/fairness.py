"""Fairness between tenants: the service that each got, and how far service drifts apart while several want it.

Service is what VTC counts: prompt tokens once, output tokens twice (w_p = 1, w_q = 2; Sheng et al., OSDI'24). A difference
between tenants says something only while both are *backlogged* (have a request waiting): who asks for nothing gets nothing.
Time is cut into slots by `edges`: each step a slot for what a log says exactly, or an even grid for rows.
Invariant: summed over slots that span everything, a tenant's service is `service` of its requests.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise
from typing import NamedTuple

from scheduler.core.events import Event, RequestScheduled, StepCompleted
from scheduler.metrics.lives import Life

INPUT_WEIGHT, OUTPUT_WEIGHT = 1, 2


class Served(NamedTuple):
    """Service, spread evenly over (since, until]; all at once where the two are equal."""

    tenant: str
    since: int
    until: int
    units: int


class Wait(NamedTuple):
    """A tenant had a request waiting from `since` to `until`."""

    tenant: str
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Slots:
    """Slot i is (edges[i], edges[i + 1]]. By tenant: units served in it, and whether it was backlogged all through it."""

    edges: tuple[int, ...]
    served: dict[str, list[float]]
    backlogged: dict[str, list[bool]]


def service(rows: Iterable[tuple[str, int, int]]) -> dict[str, int]:
    """(tenant, prompt tokens, output tokens) → service a tenant, weighted tokens."""
    totals: dict[str, int] = {}
    for tenant, prompt, output in rows:
        totals[tenant] = totals.get(tenant, 0) + INPUT_WEIGHT * prompt + OUTPUT_WEIGHT * output
    return totals


def service_slots(given: Iterable[Served], waiting: Iterable[Wait], edges: Sequence[int]) -> Slots:
    """Cut time at ascending `edges`; service outside them is put into the first or last slot."""
    size = len(edges) - 1
    assert size > 0, "a slot needs two edges"
    found: dict[str, list[float]] = {}
    slopes: dict[str, list[float]] = {}
    for tenant, since, until, units in given:
        if tenant not in found:
            found[tenant], slopes[tenant] = [0.0] * size, [0.0] * (size + 1)
        _spread(found[tenant], slopes[tenant], since, until, units, edges)
    for tenant, slope in slopes.items():
        rates = accumulate(slope)
        widths = [later - earlier for earlier, later in pairwise(edges)]
        found[tenant] = [units + rate * width for units, rate, width in zip(found[tenant], rates, widths, strict=False)]
    return Slots(tuple(edges), found, _backlogged(waiting, edges, found))


def _spread(slots: list[float], slopes: list[float], since: int, until: int, units: int, edges: Sequence[int]) -> None:
    """`slopes[i]` is where the rate (units a ns) over whole slots changes; what fills a slot in part goes to `slots`."""
    first, last = _slot(since, edges), _slot(until, edges)
    if first == last or until <= since:
        slots[last] += units
        return
    rate = units / (until - since)
    slots[first] += rate * (edges[first + 1] - since)
    slots[last] += rate * (until - edges[last])
    slopes[first + 1] += rate
    slopes[last] -= rate


def _slot(at: int, edges: Sequence[int]) -> int:
    return min(max(bisect_left(edges, at) - 1, 0), len(edges) - 2)


def _backlogged(waiting: Iterable[Wait], edges: Sequence[int], tenants: Iterable[str]) -> dict[str, list[bool]]:
    spans: dict[str, list[tuple[int, int]]] = {tenant: [] for tenant in tenants}
    for tenant, since, until in waiting:
        spans.setdefault(tenant, []).append((since, until))
    found = {tenant: [False] * (len(edges) - 1) for tenant in spans}
    for tenant, mine in spans.items():
        for since, until in _union(mine):
            first, last = bisect_left(edges, since), bisect_left(edges, until + 1) - 1
            found[tenant][first:last] = [True] * max(0, last - first)
    return found


def _union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for since, until in sorted(spans):
        if merged and since <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], until))
        else:
            merged.append((since, until))
    return merged


def wider(slots: Slots, factor: int) -> Slots:
    """Slots of `factor` slots each; a tenant is backlogged in one only where it was in all its parts."""
    starts = range(0, len(slots.edges) - 1, factor)
    return Slots(
        (*(slots.edges[start] for start in starts), slots.edges[-1]),
        {tenant: [sum(units[start : start + factor]) for start in starts] for tenant, units in slots.served.items()},
        {tenant: [all(wanted[start : start + factor]) for start in starts] for tenant, wanted in slots.backlogged.items()},
    )


def service_drift(slots: Slots, weights: Mapping[str, float] | None = None) -> float | None:
    """max |ΔW_f(t1, t2) - ΔW_g(t1, t2)| over tenants f, g and every [t1, t2] in which both are backlogged throughout.

    This is what VTC bounds by 2·max(w_p·L_input, w_q·M) (Theorem 4.4); each W is divided by its tenant's weight. None where
    no two tenants were ever backlogged together. O(pairs × slots).
    """
    found = None
    for one, other in _pairs(slots):
        together = _together(slots, one, other, weights or {})
        found = max(found or 0.0, _range(together)) if any(each is not None for each in together) else found
    return found


def window_drift(slots: Slots, weights: Mapping[str, float] | None = None) -> float | None:
    """The same within single slots: give slots as wide as the window (VTC plots 60 s)."""
    differences = [abs(each) for pair in _pairs(slots) for each in _together(slots, *pair, weights or {}) if each is not None]
    return max(differences, default=None)


def _pairs(slots: Slots) -> Iterable[tuple[str, str]]:
    return combinations(sorted(slots.backlogged), 2)


def _together(slots: Slots, one: str, other: str, weights: Mapping[str, float]) -> list[float | None]:
    """By slot: the difference of what the two got, None unless both were backlogged."""
    nothing = [0.0] * (len(slots.edges) - 1)
    got = [[units / weights.get(tenant, 1.0) for units in slots.served.get(tenant, nothing)] for tenant in (one, other)]
    both = zip(slots.backlogged[one], slots.backlogged[other], strict=True)
    return [mine - theirs if all(wanted) else None for mine, theirs, wanted in zip(*got, both, strict=True)]


def _range(differences: Iterable[float | None]) -> float:
    """The greatest rise or fall of the running sum within one stretch without None."""
    widest = total = low = high = 0.0
    for each in differences:
        if each is None:
            total = low = high = 0.0
            continue
        total += each
        low, high = min(low, total), max(high, total)
        widest = max(widest, high - low)
    return widest


# ---- from a log


def served(events: Iterable[Event], found: Iterable[Life]) -> list[Served]:
    """Service as it happened: a prompt at its first admission, an output token at the end of its step."""
    by_number = {(life.boot, life.number): life for life in found}
    given: list[Served] = []
    for event in events:
        if isinstance(event, RequestScheduled) and not event.resumed:
            life = by_number[event.boot, event.number]
            given.append(Served(life.tenant, event.at, event.at, INPUT_WEIGHT * life.prompt_tokens))
        elif isinstance(event, StepCompleted):
            lucky = [by_number[event.boot, row.request].tenant for row in event.slices if row.emitted]
            given += [Served(tenant, event.ended_at, event.ended_at, OUTPUT_WEIGHT) for tenant in lucky]
    return given


def waiting_of(found: Iterable[Life]) -> list[Wait]:
    """When each sequence was outside the running set."""
    return [Wait(life.tenant, *span) for life in found if life.queued_at is not None for span in life.spans]
