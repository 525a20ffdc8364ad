"""What policies promise about deadlines. One slot, one token a step: a job of n tokens takes n steps."""

from __future__ import annotations

import random
from functools import cache
from itertools import accumulate, permutations

from builders import make_request
from guarantee import Guarantee
from trials import STEP, made, trial

from scheduler.core.events import RequestFinished

EXACT = {"preempt": 1, "prompt_ms": 0, "output_ms": 10, "margin_ms": 0}  # what a step of a trial takes
INSTANCES = 5
Jobs = tuple[tuple[int, int, int], ...]  # (arrival, length, deadline), steps


def lateness(policy: str, jobs: Jobs, **params: float) -> dict[str, int]:
    """End less deadline, steps, by id."""
    requests = [
        make_request(f"job{i}", prompt=1, max_tokens=length, received_at=at * STEP, deadline_at=due * STEP)
        for i, (at, length, due) in enumerate(jobs)
    ]
    events = trial(made(policy, params), requests, max_num_seqs=1)
    return {
        event.id: event.at // STEP - jobs[int(event.id.removeprefix("job"))][2]
        for event in events
        if isinstance(event, RequestFinished)
    }


@cache
def feasible(seed: int) -> Jobs:
    """Jobs whose deadlines are the ends under some preemptive order, a random one: so they can all be met."""
    rng = random.Random(seed)
    arrivals = [rng.randrange(300) for _ in range(40)]
    lengths = [rng.randrange(1, 21) for _ in range(40)]
    ranks = [rng.random() for _ in range(40)]
    left, ends, now = dict(enumerate(lengths)), dict[int, int](), 0
    while left:
        here = [job for job in left if arrivals[job] <= now]
        now += 1
        if here:
            job = min(here, key=lambda job: ranks[job])
            left[job] -= 1
            if not left[job]:
                del left[job]
                ends[job] = now
    return tuple((arrivals[job], lengths[job], ends[job]) for job in range(40))


def misses_what_can_be_met(policy: str) -> str | None:
    missed = 0
    for seed in range(INSTANCES):
        missed += sum(late > 0 for late in lateness(policy, feasible(seed), **EXACT).values())
    return f"{missed} of {INSTANCES * 40} deadlines missed, all of which could be met" if missed else None


@cache
def all_there(seed: int) -> tuple[Jobs, int]:
    """Six jobs that are all there, and the least possible largest lateness, by trying every order."""
    rng = random.Random(seed)
    jobs = tuple((0, rng.randrange(1, 8), rng.randrange(1, 27)) for _ in range(6))
    least = min(
        max(end - due for end, (_, _, due) in zip(accumulate(job[1] for job in order), order, strict=True))
        for order in permutations(jobs)
    )
    return jobs, least


def later_than_need_be(policy: str) -> str | None:
    for seed in range(INSTANCES):
        jobs, least = all_there(seed)
        largest = max(lateness(policy, jobs).values())
        if largest > least:
            return f"the largest lateness is {largest} steps, the least possible {least}"
    return None


GUARANTEES = [
    Guarantee(
        "feasible deadlines",
        "Served one at a time, all deadlines are met whenever any order can meet them (preempt=1; least_slack with exact times "
        "and no margin).",
        ("edf", "least_slack"),
        ("fcfs", "sjf", "srtf", "lifo"),
        misses_what_can_be_met,
    ),
    Guarantee(
        "least largest lateness",
        "For requests that are all there, served one at a time, the largest lateness is the least possible.",
        ("edf",),
        ("fcfs", "sjf", "lifo", "least_slack"),
        later_than_need_be,
    ),
]
