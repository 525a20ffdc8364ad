"""Waste and slowdown: ratios over steps, tokens computed twice, E2E against E2E alone."""

from __future__ import annotations

import random

import pytest
from builders import MS, Bench, make_request, make_scheduler

from scheduler import metrics
from scheduler.core.events import RequestFinished, RequestScheduled, StepCompleted
from scheduler.core.request import Request, SamplingParams
from scheduler.metrics import Memory, StepLoad, extremes_ratio, idle_share, isolated_ms
from scheduler.runners.cost_model import StepShape, load
from scheduler.runners.simulated import SimulatedRunner
from scheduler.settings import SchedulerSettings
from scheduler.simulate import Simulation, Trace


def loaded(boot: int, seq: int, start: int, end: int, tokens: int, used: int | None = None) -> StepLoad:
    return StepLoad(boot, seq, start * MS, end * MS, 100, tokens, 0, used, None if used is None else 10)


STEPS = [loaded(1, 1, 0, 10, 100, 2), loaded(1, 2, 20, 50, 50, 6), loaded(2, 1, 500, 510, 30)]


def test_shares_of_steps_by_hand() -> None:
    assert metrics.budget_used(STEPS) == 180 / 300
    assert metrics.memory(STEPS) == Memory((10 * 0.2 + 30 * 0.6) / 40, 0.6)
    assert idle_share(STEPS) == 1 - 50 / 60, "a gap between two lives of the engine is nobody's idle time"
    assert metrics.budget_used([]) is metrics.memory(STEPS[2:]) is idle_share([]) is None


def test_the_order_of_steps_does_not_matter() -> None:
    for seed in range(5):
        steps = random.Random(seed).sample(STEPS, len(STEPS))
        assert (metrics.budget_used(steps), idle_share(steps)) == (metrics.budget_used(STEPS), idle_share(STEPS))
        assert metrics.memory(steps) == metrics.memory(STEPS)


def test_a_ratio_of_nothing_is_undefined() -> None:
    assert metrics.ratio(0, 0) is None and metrics.ratio(0, 3) == 0 and metrics.ratio(1, 4) == 0.25


def test_recomputed_tokens_are_those_computed_beyond_the_first_time() -> None:
    bench = Bench(make_scheduler(blocks=9, max_num_seqs=3, max_num_batched_tokens=16))
    bench.add(*(make_request(f"r{i}", 8, 9) for i in range(3)))
    bench.run_to_idle()
    ended = bench.of(RequestFinished)
    assert any(event.preemptions for event in ended)
    computed = sum(step.prefill_tokens + len(step.decodes) for step in bench.of(StepCompleted))
    once = sum(event.prompt_tokens - event.cached_tokens + event.output_tokens - 1 for event in ended)
    resumed = [event for event in bench.of(RequestScheduled) if event.resumed]
    # a return computes again what it lost, and the token that it had not computed yet as prefill instead of decode
    assert metrics.recomputed(metrics.relapses(bench.events)) == computed - once > 0 and resumed


def test_who_never_ran_again_computed_nothing_twice() -> None:
    assert metrics.recomputed([]) == 0 and metrics.recomputed([(10, 4), (3, 8)]) == 6


@pytest.mark.parametrize(("prompt", "output", "budget"), [(40, 1, 64), (300, 20, 128), (64, 2, 64), (16, 900, 64)])
def test_alone_on_simulated_hardware_a_request_is_not_slowed(prompt: int, output: int, budget: int) -> None:
    model = load("h100-llama-3.1-8b-tp1-bf16")
    settings = SchedulerSettings(max_num_batched_tokens=budget, max_num_seqs=8, max_model_len=1024, kv_cache_tokens=4096)
    ended: list[object] = []
    request = Request("r", list(range(prompt)), SamplingParams(max_tokens=output, ignore_eos=True))
    Simulation(settings, SimulatedRunner(model), Trace([request]), ended.extend).run()
    (last,) = [event for event in ended if isinstance(event, RequestFinished)]
    alone = isolated_ms(lambda *sums: model.step_ms(StepShape(*sums)), prompt, 0, output, budget)
    assert last.parts.total / 1e6 == pytest.approx(alone, rel=1e-5)


def test_a_ratio_of_extremes_needs_two() -> None:
    assert extremes_ratio([2.0, None, 5.0]) == 2.5
    assert extremes_ratio([2.0, None]) is None and extremes_ratio([0.0, 1.0]) is None
