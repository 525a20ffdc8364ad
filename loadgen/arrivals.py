"""When requests are due: absolute seconds from a stream's start, drawn ahead from a seeded generator.

Knows no clock and no server, so that a server that answers slowly cannot move an arrival.
Invariant: same arrivals, duration and seed give the same list, in order, each below the duration.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import accumulate, count, takewhile

from loadgen.scenario import Arrivals


def due_times(arrivals: Arrivals, duration_s: float, rng: random.Random) -> list[float]:
    """Every instant below `duration_s` at which an open-loop request is due."""
    return list(takewhile(lambda due: due < duration_s, _unending(arrivals, rng)))


def measured_times(works: Iterable[float], power: float, duration_s: float, rng: random.Random) -> list[float]:
    """Poisson arrivals that bring `power` units of work a second, where the k-th request brings `works[k]`.

    A stretch of heavy requests thus comes slower than a stretch of light ones, at the same load.
    """
    gaps = (rng.expovariate(1.0) * work / power for work in works)
    return list(takewhile(lambda due: due < duration_s, accumulate(gaps)))


def _unending(arrivals: Arrivals, rng: random.Random) -> Iterator[float]:
    if arrivals.process == "constant":
        return (k / arrivals.rate for k in count())
    if arrivals.process == "poisson":
        return accumulate(rng.expovariate(arrivals.rate) for _ in count())
    if arrivals.process == "gamma":
        shape = 1.0 / (arrivals.cv * arrivals.cv)
        return accumulate(rng.gammavariate(shape, 1.0 / (arrivals.rate * shape)) for _ in count())
    if arrivals.process == "burst":
        return _bursts(arrivals, rng)
    assert arrivals.process == "list", f"{arrivals.process} has no schedule of its own"
    return iter(arrivals.at_s)


def _bursts(arrivals: Arrivals, rng: random.Random) -> Iterator[float]:
    """Poisson at `rate` for quiet_s, at `burst_rate` for burst_s, and so on.

    A unit exponential is spent along the rate curve; that is exact across the edges, unlike restarting the gap there.
    """
    if arrivals.rate * arrivals.quiet_s + arrivals.burst_rate * arrivals.burst_s <= 0:
        return
    start, left = 0.0, rng.expovariate(1.0)
    while True:
        for length, rate in ((arrivals.quiet_s, arrivals.rate), (arrivals.burst_s, arrivals.burst_rate)):
            at = start
            while rate > 0 and at + left / rate < start + length:
                at += left / rate
                yield at
                left = rng.expovariate(1.0)
            left -= (start + length - at) * rate
            start += length
