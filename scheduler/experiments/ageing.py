"""Nobody is overtaken by somebody who came much later: E5 and E5b of the literature."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any

from scheduler.core.events import Event, RequestFinished, RequestQueued, RequestScheduled
from scheduler.core.policies.base import Policy
from scheduler.core.policies.weighted_score import WORST_PRIORITY, WeightedScore
from scheduler.experiments.figure import Experiment, Figure, Part, at_least, at_most
from scheduler.experiments.record import MS, SECOND, SEED, Record, job, play, poisson
from scheduler.experiments.unit_cost import UnitCost

GAP_S = 10.0  # a class's head start, in units of score
SCORE_ALPHA = 2.0


def farthest_overtake_s(events: Iterable[Event]) -> float:
    """The most by which a request that was admitted was younger than one left waiting, seconds."""
    waiting: dict[int, int] = {}
    worst = 0
    for event in events:
        if isinstance(event, RequestQueued):
            waiting[event.seq] = event.received_at
        elif isinstance(event, RequestScheduled) and not event.resumed:
            passing = waiting.pop(event.number)
            oldest = next(iter(waiting.values()), passing)  # they wait in the order of arrival
            worst = max(worst, passing - oldest)
        elif isinstance(event, RequestFinished):
            waiting.pop(event.number, None)
    return worst / SECOND


def overload(policy: str, params: Mapping[str, Any], seconds: float, order: Policy | None = None, lower: int = 1) -> Record:
    """One slot, slightly too much work, 15 % of it of the class `lower`, the rest of class 0; cut off after `seconds`."""
    rng = Random(SEED)
    arrivals = [at for at in poisson(rng, 1.15, round(1.3 * seconds)) if at < seconds * SECOND]
    requests = [job(i, at, rng.randrange(1, 3), priority=lower * (rng.random() < 0.15)) for i, at in enumerate(arrivals)]
    return play(requests, UnitCost(600 * MS), policy, params=params, order=order, until_s=seconds, max_num_seqs=1)


def ageing(seconds: float = 4_000) -> Iterator[Figure]:
    """The farthest overtaking, by how much a second of waiting is worth."""
    for alpha in (0.1, 0.5, 2.0):
        bound = GAP_S / alpha
        run = overload("priority_aging", {"gap_ms": bound * 1000}, seconds)
        yield at_most(
            f"farthest overtaking under priority_aging, gap {bound:g} s",
            farthest_overtake_s(run.events),
            bound,
            "gap / alpha",
            "s",
        )
    bare = overload("priority", {}, seconds)
    left = sum(life.scheduled_at is None for life in bare.lives)
    yield at_least("farthest overtaking under priority", farthest_overtake_s(bare.events), 0.15 * seconds, "no bound", "s")
    yield at_least("requests that priority never admitted", left, 0.02 * seconds, "no bound")


def moving_weights(seconds: float = 4_000) -> Iterator[Figure]:
    """A score whose weights follow the load."""
    policy = WeightedScore(alpha=SCORE_ALPHA, busy_waiting=20.0)
    run = overload("weighted_score", {}, seconds, policy, WORST_PRIORITY)
    farthest, bound = farthest_overtake_s(run.events), policy.bound_ns / SECOND
    yield at_most("farthest overtaking under weighted_score", farthest, bound, "B / alpha", "s")
    yield at_least(
        "farthest overtaking under weighted_score: the bound is put to the test",
        farthest,
        bound / 10,
        "a bound that nobody nears shows nothing",
        "s",
    )


AGING = Experiment(
    name="aging",
    says="Slightly more work than one server can do. With ageing, nobody is overtaken by a request that came more than the gap "
    "later, whatever the load; under bare priority classes the lower one waits for ever.",
    source="Kleinrock's time-dependent priorities, as a constant key",
    parts=(
        Part("classes with a head start", ageing, quick={"seconds": 2_000}),
        Part("a score with moving weights", moving_weights, quick={"seconds": 2_000}),
    ),
)
