"""Keys and what follows from them: the formulas to the token, who yields, and to whom."""

from __future__ import annotations

import random
from typing import Any

import pytest
from builders import MS, make_request

from scheduler.core.policies.base import Keyed, Standoff
from scheduler.core.policies.catalog import make
from scheduler.core.policies.skip_join_mlfq import SkipJoinMlfq
from scheduler.core.policies.srtf import Srtf
from scheduler.core.policies.weighted_score import WeightedScore
from scheduler.core.request import Request


def asked(**fields: Any) -> Request:
    """10 prompt tokens, due after 1 s; 20 output tokens are expected, of at most 90."""
    return make_request(prompt=10, max_tokens=90, **({"expected_output_tokens": 20, "deadline_at": 1000 * MS} | fields))


@pytest.mark.parametrize(
    ("had", "slot", "computed", "left", "prompt"),
    [
        (0, -1, 0, 20, 10),
        (0, 0, 4, 20, 6),
        (1, 0, 10, 19, 0),
        (8, 0, 17, 12, 0),
        (8, -1, 0, 12, 18),
        (19, 0, 28, 1, 0),
        (40, 0, 49, 1, 0),
    ],
)
def test_what_is_left_is_never_less_than_one_token_and_the_prompt_counts_while_it_is_to_compute(
    had: int, slot: int, computed: int, left: int, prompt: int
) -> None:
    request = asked()
    request.tokens.extend([1] * had)
    request.slot, request.computed = slot, computed
    slack = make("least_slack", {"prompt_ms": 2, "output_ms": 5})
    srtf = make("srtf", {"prompt_weight": 0.5})
    assert isinstance(slack, Keyed) and isinstance(srtf, Keyed)
    assert slack.key_of(request, 0) == (1000 - 2 * prompt - 5 * left) * MS
    assert srtf.key_of(request, 0) == left + (0.5 * prompt if not had else 0), "what is computed again is not counted"


def test_a_score_is_of_the_weights_of_now_and_never_more_than_all_of_them() -> None:
    policy = WeightedScore()
    request = asked(priority=99, kind="background", deadline_at=10**18, received_at=5 * MS)
    request.tokens.extend([1] * 9000)
    request.prompt_tokens = len(request.tokens)
    policy._tenants["default"] = 1
    key = policy.key_of(request, 0)
    assert key == 5 * MS + int(policy._calm.total / 0.5 * 1000 * MS)
    policy.weights = policy._rush
    assert request.queue_data == (key, 5 * MS + policy.bound_ns)
    assert policy.key_of(request, 0) - 5 * MS == int(policy._rush.total / 0.5 * 1000 * MS) == policy.bound_ns
    assert policy._calm == (4, 2, 1, 2, 1) and policy._rush == (8, 2, 0.5, 4, 1), "class and deadline twice, length half"
    soon = make_request(received_at=50_000 * MS, deadline_at=65_000 * MS)
    assert policy._factors(soon).deadline == 0.25, "15 of 60 s, from its arrival on"
    best = make_request(prompt=0, max_tokens=1, priority=-5, deadline_at=-1)
    assert policy._factors(best)[:2] == (0, 0) and policy._factors(best).deadline == 0


def in_mid_life(rng: random.Random, number: int) -> Request:
    """Somebody who runs: anything from the first piece of its prompt to an output longer than was expected."""
    request = asked(expected_output_tokens=rng.randrange(1, 12), deadline_at=(40 + 5 * rng.randrange(3)) * MS)
    request.number, request.slot = number, number - 1
    request.tokens.extend([1] * rng.choice([0, 0, rng.randrange(1, 20)]))
    request.computed = len(request.tokens) - 1 if request.output_tokens else rng.randrange(10)
    return request


@pytest.mark.parametrize(
    ("name", "params"), [("srtf", {"prompt_weight": 0.5}), ("least_slack", {"prompt_ms": 2, "output_ms": 5})]
)
def test_who_yields_is_whom_the_key_ranks_last_and_of_equals_the_newest(name: str, params: dict[str, float]) -> None:
    rng, policy = random.Random(1), make(name, params)
    assert isinstance(policy, Keyed)
    for _ in range(200):
        crowd = [in_mid_life(rng, number) for number in range(1, 8)]
        for request in crowd:
            request.key = policy.key_of(request, 0)
        rng.shuffle(crowd)
        expected = max(crowd, key=lambda request: (policy.key_of(request, 0), request.number))
        assert policy.victim(crowd, crowd[0]) is expected


def test_only_the_young_yield_to_less_work_and_only_to_less() -> None:
    rng = random.Random(2)
    for _ in range(60):
        policy, needy = Srtf(0.5, 0.5), asked(expected_output_tokens=rng.randrange(1, 12))
        crowd = [in_mid_life(rng, number) for number in range(1, 8)]
        longer = [request for request in crowd if policy.key_of(request, 0) > policy.key_of(needy, 0)]
        young = [request for request in longer if request.output_tokens < 0.5 * request.output_estimate]
        expected = max(young, key=lambda request: (policy.key_of(request, 0), request.number), default=None)
        assert policy.victim(crowd, needy) is expected


# ---- who looks again, and when


@pytest.mark.parametrize(("steps", "yields"), [(-0.001, True), (0.0, False), (0.5, False)])
def test_who_is_worse_by_just_enough_yields_and_who_is_as_bad_does_not(steps: float, yields: bool) -> None:
    here, needy = make_request(), make_request()
    here.slot = 0
    found = Standoff().yields(needy, [here], lambda running: (0.0, running[0]), lambda *_: steps)
    assert found is (here if yields else None)


def test_levels_hold_nobody_back_who_lacks_a_block_and_the_lowest_one_displaces_nobody() -> None:
    policy = SkipJoinMlfq(quantum=1, levels=3)
    runs, other, waits = (make_request(prompt=4, max_tokens=90) for _ in range(3))
    for number, request in enumerate((runs, other, waits), 1):
        request.number = number
        policy.enqueue(request, 0)
        request.slot = number - 1
        request.tokens.extend([1] * 40)
    waits.slot = -1
    assert policy.victim([runs, other], waits) is None, "all are on the lowest level"
    policy._displaceable = 0.5
    waits.tokens = waits.tokens[:4]
    assert policy.level_of(waits) == 0 and policy.victim([runs, other], waits) is None, "a few at once were displaced"
    assert policy.victim([runs, other], runs) is other
    policy._displaceable = 1
    policy.tick((), True)
    assert policy.victim([runs, other], waits) is other
