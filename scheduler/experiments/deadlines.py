"""Deadlines that can be met are met: E3 of the literature. One server, jobs interrupted at any step."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from scheduler.experiments.figure import Experiment, Figure, Part, at_least, exactly
from scheduler.experiments.record import SECOND, SEED, job, play
from scheduler.experiments.unit_cost import UnitCost

Jobs = list[tuple[int, int, int]]  # (arrival, length, deadline) in steps of a second
SOURCE = "Dertouzos, 1974"


def feasible_jobs(seed: int, jobs: int = 40) -> Jobs:
    """Random jobs whose deadlines are the ends of some schedule: that of random ranks, interrupting."""
    rng = Random(seed)
    arrivals = sorted(rng.randrange(301) for _ in range(jobs))
    lengths = [rng.randrange(1, 21) for _ in arrivals]
    ranks = [rng.random() for _ in arrivals]
    left, ends, now = list(lengths), [0] * jobs, 0
    while any(left):
        ready = [i for i in range(jobs) if left[i] and arrivals[i] <= now]
        if ready:
            chosen = min(ready, key=ranks.__getitem__)
            left[chosen] -= 1
            if not left[chosen]:
                ends[chosen] = now + 1
        now += 1
    return list(zip(arrivals, lengths, ends, strict=True))


def misses(policy: str, jobs: Jobs, **params: float) -> int:
    """How many of `jobs` end after their deadline."""
    requests = [
        job(i, at * SECOND, length, deadline_at=end * SECOND, expected_output_tokens=length)
        for i, (at, length, end) in enumerate(jobs)
    ]
    run = play(requests, UnitCost(SECOND), policy, params=params, max_num_seqs=1)
    due = {f"job-{i}": end * SECOND for i, (_, _, end) in enumerate(jobs)}
    return sum((life.finished_at or 0) > due[life.id] for life in run.lives)


def feasible(instances: int = 200) -> Iterator[Figure]:
    """Missed deadlines, of sets of jobs for which some order misses none."""
    sets = [feasible_jobs(SEED + i) for i in range(instances)]
    total = sum(map(len, sets))
    edf = sum(misses("edf", jobs, preempt=1) for jobs in sets)
    yield exactly(f"missed of {total:,} under edf, preempting", edf, 0, SOURCE)
    for policy, share in (("fcfs", 0.4), ("srtf", 0.2)):
        missed = sum(misses(policy, jobs) for jobs in sets)
        yield at_least(f"missed of {total:,} under {policy}", missed, share * total, "no order but edf needs to meet them")


EDF = Experiment(
    name="edf",
    says="Jobs whose deadlines some schedule can meet. Earliest deadline first, preempting, meets every one; orders that do "
    "not look at deadlines miss many of them.",
    source="Liu & Layland, 1973; Dertouzos, 1974",
    parts=(Part("feasible deadlines", feasible, quick={"instances": 40}),),
)
