"""Closed forms of queueing theory: mean times of one server with Poisson arrivals. Times in seconds, rates a second."""

from __future__ import annotations

from collections.abc import Sequence


def wait_fcfs(rate: float, mean: float, second_moment: float) -> float:
    """Pollaczek-Khinchine: mean wait before service in M/G/1, first come first served."""
    return rate * second_moment / (2 * (1 - rate * mean))


def waits_by_class(classes: Sequence[tuple[float, float]]) -> list[float]:
    """Cobham, 1954: mean waits under classes served in this order, never interrupted; (rate, fixed service time) each."""
    left_over = sum(rate * service**2 for rate, service in classes) / 2
    waits, load_before = [], 0.0
    for rate, service in classes:
        load = load_before + rate * service
        waits.append(left_over / ((1 - load_before) * (1 - load)))
        load_before = load
    return waits


def response_srpt(rate: float, short: float, long: float, share_short: float) -> float:
    """Schrage-Miller, 1966: mean response time under least remaining work first, of two sizes of job."""
    load_short = rate * share_short * short
    load = load_short + rate * (1 - share_short) * long
    wait_short = rate * short**2 / (2 * (1 - load_short))
    second = share_short * short**2 + (1 - share_short) * long**2
    wait_long = rate * second / (2 * (1 - load_short) * (1 - load))
    residence_long = short + (long - short) / (1 - load_short)
    return share_short * (wait_short + short) + (1 - share_short) * (wait_long + residence_long)


def lindley(arrivals: Sequence[int], services: Sequence[int]) -> list[int]:
    """Lindley, 1952: the wait of each job in a queue of one server, first come first served; whole ns in and out."""
    waits, free_at = [], 0
    for arrival, service in zip(arrivals, services, strict=True):
        begins = max(arrival, free_at)
        waits.append(begins - arrival)
        free_at = begins + service
    return waits
