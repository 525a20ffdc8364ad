"""Slowdown: how much longer a request took than it would have alone on the same hardware. Knows no file of a cost model.

slowdown = E2E / isolated E2E, at least about 1; the max/min over tenants says how unequally they were slowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Cost = Callable[[int, int, tuple[tuple[int, int], ...], int], float]


def isolated_ms(cost: Cost, prompt: int, cached: int, output: int, budget: int) -> float:
    """E2E on an idle machine: the prompt in chunks of `budget` tokens, then output - 1 steps of one decode.

    cost(decodes, context, chunks as (tokens, tokens before), finishing) → ms of a step. At a fixed number of decodes a cost
    model is linear in context, so the decodes cost their number times the mean of the first and the last: exact.
    """
    done, total = min(cached, prompt - 1), 0.0
    while done < prompt:
        tokens = min(budget, prompt - done)
        total += cost(0, 0, ((tokens, done),), int(done + tokens == prompt))
        done += tokens
    decodes = output - 1
    if decodes > 0:
        first, last = cost(1, prompt + 1, (), 0), cost(1, prompt + decodes, (), 0)
        total += decodes * (first + last) / 2
    return total


def extremes_ratio(values: Iterable[float | None]) -> float | None:
    """Greatest / least of the defined values; None below two of them, or where one is not above 0."""
    known = [value for value in values if value is not None]
    return max(known) / min(known) if len(known) > 1 and min(known) > 0 else None
