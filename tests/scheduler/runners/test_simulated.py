"""The simulated runner's tokens: reproducible by seed, and zero is a seed."""

from __future__ import annotations

from builders import MS, make_request, make_scheduler

from scheduler.core.request import Request, SamplingParams
from scheduler.runners.simulated import sentence_tokens


def first_token(id: str, seed: int | None) -> int:
    scheduler = make_scheduler()
    scheduler.add(Request(id, [1, 2, 3], SamplingParams(max_tokens=4, seed=seed)), 0)
    (token,) = sentence_tokens(scheduler.schedule(MS))
    return token


def test_the_seed_alone_decides_also_when_it_is_zero() -> None:
    for seed in (0, 1, 40):
        assert first_token("a", seed) == first_token("another", seed)
    assert len({first_token("a", seed) for seed in range(20)}) > 5


def test_without_a_seed_the_id_decides() -> None:
    assert first_token("a", None) == first_token("a", None)
    assert len({first_token(f"r{n}", None) for n in range(20)}) > 5
    assert make_request("r").params.seed is None
