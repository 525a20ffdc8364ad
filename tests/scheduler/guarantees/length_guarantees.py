"""What policies promise about response times where lengths differ.

One slot, one token a step: a job of n tokens takes n steps.
"""

from __future__ import annotations

import random

from builders import make_request
from guarantee import Guarantee
from trials import STEP, made, responses, trial

from scheduler.core.request import Request

JOBS = 60


def jobs(arrivals: list[int], lengths: list[int]) -> list[Request]:
    """Arrivals in steps; each prompt takes no step of its own."""
    return [
        make_request(f"job{i}", prompt=1, max_tokens=length, received_at=at * STEP)
        for i, (at, length) in enumerate(zip(arrivals, lengths, strict=True))
    ]


def total(policy: str, arrivals: list[int], lengths: list[int]) -> int:
    """The sum of all response times, steps."""
    events = trial(made(policy, {"preempt_below": 1}), jobs(arrivals, lengths), max_num_seqs=1)
    return sum(responses(events).values()) // STEP


def least_total(arrivals: list[int], lengths: list[int]) -> int:
    """Schrage: in each step, a token for the job with the least left."""
    left, now, spent = dict(enumerate(lengths)), 0, 0
    while left:
        here = [job for job in left if arrivals[job] <= now]
        if here:
            job = min(here, key=lambda job: left[job])
            left[job] -= 1
            if not left[job]:
                del left[job]
                spent += now + 1 - arrivals[job]
        now += 1
    return spent


def worse_when_all_are_there(policy: str) -> str | None:
    rng = random.Random(5)
    lengths = [rng.randrange(1, 30) for _ in range(JOBS)]
    return _worse(policy, [0] * JOBS, lengths)


def worse_whenever_they_come(policy: str) -> str | None:
    rng = random.Random(6)
    lengths = [rng.choice([2, 3, 5, 40]) for _ in range(JOBS)]
    arrivals = sorted(rng.randrange(sum(lengths)) for _ in range(JOBS))
    return _worse(policy, arrivals, lengths)


def _worse(policy: str, arrivals: list[int], lengths: list[int]) -> str | None:
    took, least = total(policy, arrivals, lengths), least_total(arrivals, lengths)
    assert took >= least, "the least is not the least"
    return None if took == least else f"the mean is {took / JOBS:.1f} steps, the least {least / JOBS:.1f}"


def late_first_token(policy: str) -> str | None:
    """All slots are held by requests that have had 40 tokens of 400; a newcomer asks for more than any of them."""
    holders = [make_request(f"long{i}", prompt=8, max_tokens=400) for i in range(4)]
    newcomer = make_request("newcomer", prompt=8, max_tokens=900, received_at=40 * STEP)
    trial(made(policy), [*holders, newcomer], max_num_seqs=4, blocks=2000, until=200 * STEP)
    at = newcomer.first_token_at
    if at is not None and at <= newcomer.received_at + 2 * STEP:
        return None
    return "it had no first token within 2 steps"


GUARANTEES = [
    Guarantee(
        "least mean response, all there",
        "For requests that are all there, of known lengths, served one at a time, no order has a smaller mean response time.",
        ("sjf", "srtf"),
        ("fcfs", "lifo", "edf"),
        worse_when_all_are_there,
    ),
    Guarantee(
        "least mean response, whenever they come",
        "For requests of known lengths, served one at a time, no order has a smaller mean response time (preempt_below=1).",
        ("srtf",),
        ("fcfs", "sjf", "lifo"),
        worse_whenever_they_come,
    ),
    Guarantee(
        "first token soon",
        "A newcomer has its first token within 2 steps though all slots are held by requests that have had their quantum, and "
        "nobody's length is known.",
        ("skip_join_mlfq",),
        ("fcfs", "sjf", "srtf", "lifo"),
        late_first_token,
    ),
]
