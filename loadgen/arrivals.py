"""When requests are due: seconds from a stream's start, drawn ahead from a seeded generator.

A process is two things: what is drawn (`masses`, which know no rate) and a curve of the rate (`curve`), along which it is
spent. So the k-th instant depends on the seed, the stream and k, and a rate may bend without a new draw. Knows no clock
and no server: a server that answers slowly cannot move an arrival.
Invariant: same arrivals, duration and seed give the same list, in order, each below the duration.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import accumulate, count, takewhile

from loadgen.curve import Curve, Listed, Rates
from loadgen.scenario import Arrivals


def due_times(arrivals: Arrivals, duration_s: float, rng: random.Random) -> list[float]:
    """Every instant below `duration_s` at which an open-loop request is due."""
    along = curve(arrivals)
    return list(takewhile(lambda due: due < duration_s, (along.instant(mass) for mass in masses(arrivals, rng))))


def measured_times(works: Iterable[float], power: float, duration_s: float, rng: random.Random) -> list[float]:
    """Poisson arrivals that bring `power` units of work a second, where the k-th request brings `works[k]`."""
    along = Rates([(0.0, power)])
    return list(takewhile(lambda due: due < duration_s, (along.instant(mass) for mass in measured_masses(works, rng))))


def curve(arrivals: Arrivals) -> Curve:
    """Arrivals expected by an instant; of a list, those that it names."""
    if arrivals.process == "list":
        return Listed(arrivals.at_s)
    if arrivals.process == "shape":
        return Rates(arrivals.points)
    if arrivals.process == "burst":
        quiet, period = arrivals.quiet_s, arrivals.quiet_s + arrivals.burst_s
        burst = ((quiet, arrivals.burst_rate), (period, arrivals.burst_rate))
        return Rates([(0.0, arrivals.rate), (quiet, arrivals.rate), *burst], period)
    assert arrivals.process in ("constant", "poisson", "gamma"), f"{arrivals.process} has no schedule of its own"
    return Rates([(0.0, arrivals.rate)])


def masses(arrivals: Arrivals, rng: random.Random) -> Iterator[float]:
    """What must have come, in expectation, when request 0, 1, 2, … is due: unending, with a mean gap of 1.

    Along the curve of a rate, exponential gaps are a Poisson process of that rate, however the rate moves.
    """
    if arrivals.process in ("constant", "list"):
        return (float(k) for k in count())
    if arrivals.process == "gamma":
        shape = 1.0 / (arrivals.cv * arrivals.cv)
        return accumulate(rng.gammavariate(shape, 1.0 / shape) for _ in count())
    return accumulate(rng.expovariate(1.0) for _ in count())


def measured_masses(works: Iterable[float], rng: random.Random) -> Iterator[float]:
    """In units of work: a stretch of heavy requests thus comes slower than a stretch of light ones, at the same load."""
    return accumulate(rng.expovariate(1.0) * work for work in works)
