"""A cost model fitted to steps: what is known is found again, what is too little is refused."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import pytest

from scheduler.core.plan import StepOutput, StepPlan
from scheduler.errors import SettingsError
from scheduler.runners import cost_model
from scheduler.runners.cost_model import CostModel, Fit, Sample, StepShape
from scheduler.runners.simulated import SimulatedRunner
from scheduler.simulate import Ask, Requests, Simulation, Trace, settings_on

SECOND = 1_000_000_000


class Watched(SimulatedRunner):
    """Keeps the shape and the time of each step."""

    def __init__(self, cost: CostModel) -> None:
        super().__init__(cost, silent=True)
        self.samples: list[Sample] = []

    def run(self, plan: StepPlan) -> StepOutput:
        output = super().run(plan)
        self.samples.append(Sample(StepShape.of(plan), output.elapsed / 1e6))
        return output


@cache
def recorded(name: str, requests: int = 200) -> list[Sample]:
    """The steps of a run with quiet and busy times."""
    runner, rng, at, asks = Watched(cost_model.load(name)), random.Random(3), 0.0, []
    for n in range(requests):
        at += rng.expovariate(40 if n % 50 < 25 else 0.5)
        lengths = (max(1, int(rng.lognormvariate(mean, spread))) for mean, spread in ((5.5, 1.2), (3.5, 1.0)))
        asks.append(Ask(int(at * SECOND), *lengths))
    settings = settings_on(runner.cost, {"max_num_batched_tokens": 2048})
    Simulation(settings, runner, Trace(Requests("run").all_of(asks)), lambda events: None).run()
    return runner.samples


def fitted(samples: list[Sample]) -> Fit:
    return cost_model.fit(samples, kv_capacity_tokens=1000, id="again", gpu="g", model="m")


@pytest.mark.parametrize("name", cost_model.available())
def test_a_model_that_made_the_steps_is_found_again(name: str) -> None:
    for regime, error in fitted(recorded(name)).errors.items():
        assert error.mape is not None and error.mape < 0.03, regime


def test_it_tells_the_steps_of_another_run_too() -> None:
    name = cost_model.DEFAULT_HARDWARE
    found, known = fitted(recorded(name)).model, cost_model.load(name)
    for shape in (StepShape(5, 2000, (), 0), StepShape(0, 0, ((400, 0),), 1), StepShape(9, 4000, ((300, 200),), 1)):
        assert found.step_ms(shape) == pytest.approx(known.step_ms(shape), rel=0.05)


def test_the_error_is_that_of_steps_held_out() -> None:
    samples = recorded(cost_model.DEFAULT_HARDWARE)
    errors = fitted(samples).errors
    for regime, error in errors.items():
        n = sum(cost_model.regime_of(sample.shape) == regime for sample in samples)
        assert error.held_out == n // 5 and error.fitted <= n - error.held_out
    noisy = [sample._replace(ms=sample.ms * (2 if n % 5 == 4 else 1)) for n, sample in enumerate(samples)]
    assert fitted([s for s in noisy if not s.shape.chunks] + [s for s in noisy if s.shape.chunks]).errors["decode"].mape


def test_noise_is_told_as_noise() -> None:
    rng = random.Random(5)
    samples = [s._replace(ms=s.ms * rng.uniform(0.8, 1.2)) for s in recorded(cost_model.DEFAULT_HARDWARE)]
    error = fitted(samples).errors["decode"]
    assert error.mape is not None and 0.07 < error.mape < 0.13  # a tenth is what uniform noise of a fifth comes to


def test_a_fit_is_a_file_that_simulations_read(tmp_path: Path) -> None:
    found, path = fitted(recorded(cost_model.DEFAULT_HARDWARE)), tmp_path / "found.json"
    path.write_text(json.dumps(found.as_json()))
    assert cost_model.load(str(path)) == found.model
    assert json.loads(path.read_text())["fit"]["decode"]["held_out"] == found.errors["decode"].held_out


def test_no_coefficient_is_negative_and_the_body_never_falls() -> None:
    rng = random.Random(7)
    samples = [s._replace(ms=rng.uniform(1, 9)) for s in recorded(cost_model.DEFAULT_HARDWARE)]
    found = fitted(samples).model
    assert all(value >= 0 for row in found.attention.values() for value in row)
    assert list(found.body.ms) == sorted(found.body.ms)


@pytest.mark.parametrize(
    ("keep", "says"),
    [
        (lambda samples: samples[:20], "too few"),
        (lambda samples: [Sample(StepShape(3, 99, (), 0), 5.0)] * 500, "1 different steps"),
        (lambda samples: [s for s in samples if not s.shape.chunks], "prefills"),
        (lambda samples: [s for s in samples if s.shape.chunks] * 3, "decodes alone"),
        (lambda samples: [s._replace(ms=0.0) for s in samples], "0 different steps"),
    ],
)
def test_too_little_is_refused_and_says_what_is_lacking(keep, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SettingsError, match=says):
        fitted(keep(recorded(cost_model.DEFAULT_HARDWARE)))


def test_a_run_whose_memory_is_unknown_is_refused() -> None:
    with pytest.raises(SettingsError, match="KV memory"):
        cost_model.fit(recorded(cost_model.DEFAULT_HARDWARE), kv_capacity_tokens=0, id="x", gpu="g", model="m")
