"""The largest step that ends in time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from builders import MS, make_request
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.budget import FLOOR, GRAIN, Budget
from scheduler.core.plan import Chunk, StepPlan
from scheduler.runners.cost_model import DEFAULT_HARDWARE, load


class Affine:
    """10 ms, 1 µs a context token, 20 µs a prefill token and 1 µs for each token before it; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def step_ns(self, decodes: int, context: int, chunks: Sequence[tuple[int, int]]) -> float:
        self.asked += 1
        return 10 * MS + 1000 * context + sum(20_000 * tokens + 1000 * prior for tokens, prior in chunks)


def budget(target_ms: float, cost: Affine | None = None) -> Budget:
    made = Budget(cost or Affine())
    made.aim(target_ms)
    return made


def test_without_a_target_the_budget_is_the_settings() -> None:
    assert budget(0).of(8192, 100, 10**6) == 8192
    assert budget(0).fit(100, 10**6, [(8000, 9000)], 9000, 500) == 500


def test_budget_is_the_decodes_and_the_largest_prefill_that_ends_in_time() -> None:
    assert budget(20).of(8192, 0, 0) == 500
    ahead = 4 * GRAIN  # charged in advance for the four decodes
    assert budget(20).of(8192, 4, 0) == 4 + (10_000 - ahead) // 20


def test_budget_is_never_more_than_the_settings() -> None:
    assert budget(20).of(300, 0, 0) == 300 and budget(20).of(300, 300, 0) == 300


def test_decodes_are_never_throttled_and_prefill_always_has_its_floor() -> None:
    assert budget(5).of(8192, 100, 10**6) == 100 + FLOOR
    assert budget(5).of(105, 100, 10**6) == 105
    assert budget(5).fit(100, 10**6, [], 10**6, 500) == FLOOR
    assert budget(5).fit(100, 10**6, [], 10**6, 3) == 3
    assert budget(5).fit(100, 10**6, [(FLOOR, 0)], 10**6, 500) == 0, "the floor is the step's, not each slice's"


def test_what_was_computed_before_is_paid_for() -> None:
    assert budget(20).fit(0, 0, [], 4000, 500) == 300
    assert budget(20).fit(0, 0, [(100, 2000)], 4000, 500) == 100


def test_steady_step_does_not_ask_what_a_step_costs() -> None:
    cost = Affine()
    steady = budget(20, cost)
    before = steady.of(8192, 8, 4000)
    asked = cost.asked
    tokens = [steady.of(8192, 8, 4000 + 8 * step) for step in range(10 * GRAIN)]
    assert cost.asked - asked <= 11 * 14, "one inversion for GRAIN tokens of each decode"
    last = 4000 + 8 * (10 * GRAIN - 1)
    assert before >= tokens[0] > tokens[-1]
    assert 0 <= 8 + (10_000 - last) // 20 - tokens[-1] <= 8 * GRAIN // 20 + 1, "at most that much is charged in advance"


def test_new_target_holds_at_once() -> None:
    one = budget(20)
    assert one.of(8192, 0, 0) == 500
    one.aim(12)
    assert one.of(8192, 0, 0) == 100


@given(
    decodes=st.integers(0, 300), each=st.integers(1, 4000), prior=st.integers(0, 30_000), target=st.floats(5, 200),
    most=st.integers(0, 8192),
)  # fmt: skip
def test_on_every_shape_one_token_more_would_be_late(decodes: int, each: int, prior: int, target: float, most: int) -> None:
    cost, context = load(DEFAULT_HARDWARE), decodes * each
    one = Budget(cost)
    one.aim(target)
    tokens = one.fit(decodes, context, [], prior, most)
    assert 0 <= tokens <= most
    if tokens > min(FLOOR, most):
        assert cost.step_ns(decodes, context, [(tokens, prior)]) <= one.target_ns
    if tokens < most:
        assert cost.step_ns(decodes, context, [(tokens + 1, prior)]) > one.target_ns


def test_e17_h100_with_32_decodes_and_25_ms_has_room_for_about_900_tokens() -> None:
    one = Budget(load(DEFAULT_HARDWARE))
    one.aim(25)
    assert one.of(8192, 32, 32 * 1100) == pytest.approx(897, rel=0.25), "papers.md E17"
    assert one.fit(32, 32 * 1100, [], 3200, 8192) < one.of(8192, 32, 32 * 1100) - 32


def test_without_a_cost_it_is_learned_from_committed_steps() -> None:
    one, cost = Budget(), Affine()
    one.aim(20)
    first = one.of(8192, 0, 0)
    for step in range(60):
        tokens = one.of(8192, 0, 0)
        one.observe(_plan(step, tokens), int(cost.step_ns(0, 0, [(tokens, 0)])))
    assert first < one.of(8192, 0, 0) and one.of(8192, 0, 0) == pytest.approx(500, rel=0.03)


def _plan(step: int, tokens: int) -> StepPlan:
    return StepPlan(step, 0, (), (), [Chunk(make_request(prompt=1), 0, tokens, False)])


def test_more_decodes_than_the_setting_are_the_budget_and_no_token_beside_them() -> None:
    assert budget(20).of(8, 9, 0) == 9 and budget(20).of(8, 8, 0) == 8


def test_a_target_is_taken_to_the_nanosecond() -> None:
    assert budget(12.5).target_ns == 12_500_000
