"""The simulated runner's tokens: reproducible by seed, and zero is a seed."""

from __future__ import annotations

from builders import MS, make_request, make_scheduler

from scheduler.core.request import Request, SamplingParams
from scheduler.runners import cost_model
from scheduler.runners.simulated import SILENT_TOKEN, SimulatedRunner, sentence_tokens


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


def test_silent_it_takes_as_long_and_says_nothing() -> None:
    cost = cost_model.load(cost_model.DEFAULT_HARDWARE)
    scheduler, spoken, silent = make_scheduler(), SimulatedRunner(cost), SimulatedRunner(cost, silent=True)
    now = 0
    for serial in range(3):
        scheduler.add(make_request(f"r{serial}", max_tokens=3), now)
    for _ in range(3):
        plan = scheduler.schedule(now)
        assert silent.run(plan).elapsed == spoken.run(plan).elapsed == round(cost.step_ms(cost_model.StepShape.of(plan)) * 1e6)
        output = silent.run(plan)
        assert set(output.tokens) <= {SILENT_TOKEN} and len(output.tokens) >= len(plan.sampling)
        now += output.elapsed
        scheduler.commit(plan, output, now)
