"""What a step takes, learned from steps."""

from __future__ import annotations

import math
import random

import pytest

from scheduler.core.learned_cost import EVERY, REACH, RENEWED, LearnedCost, features, solve


def true_ms(decodes: int, context: int, tokens: int) -> float:
    return 8 + 0.05 * decodes + 0.0001 * context + 0.02 * tokens


def learn(cost: LearnedCost, decodes: int, context: int, tokens: int, factor: float = 1.0) -> None:
    cost.observe(decodes, context, tokens, int(factor * true_ms(decodes, context, tokens) * 1e6))


def trained(steps: int = 200, seed: int = 1, noise: float = 0.0) -> LearnedCost:
    rng, cost = random.Random(seed), LearnedCost()
    for _ in range(steps):
        decodes = rng.randrange(64)
        learn(cost, decodes, decodes * rng.randrange(200, 3000), rng.randrange(1, 1024), 1 + noise * rng.uniform(-1, 1))
    return cost


def test_affine_cost_is_found() -> None:
    cost = trained()
    for decodes, context, tokens in ((0, 0, 900), (40, 40_000, 100), (64, 120_000, 1), (10, 9_000, 600)):
        guess = cost.step_ns(decodes, context, [(tokens, 0)]) / 1e6
        assert guess == pytest.approx(true_ms(decodes, context, tokens), rel=0.02)


def test_noise_makes_it_cautious() -> None:
    """The estimate is raised by its own mean error, so that most steps end before it."""
    cost, rng = trained(noise=0.2), random.Random(7)
    late = 0
    for _ in range(200):
        tokens = rng.randrange(1, 1024)
        took = true_ms(20, 30_000, tokens) * (1 + 0.2 * rng.uniform(-1, 1))
        late += took * 1e6 > cost.step_ns(20, 30_000, [(tokens, 0)])
    assert late < 60


def test_cold_engine_feels_its_way_up() -> None:
    cost = LearnedCost()
    reach = []
    for _ in range(4):
        known = max(tokens for tokens in range(1, 2000) if cost.step_ns(0, 0, [(tokens, 0)]) < math.inf)
        reach.append(known)
        learn(cost, 0, 0, known)
    assert reach == [REACH, 2 * REACH, 4 * REACH, 8 * REACH]


def test_long_calm_does_not_forget_what_a_prefill_costs() -> None:
    cost = trained()
    before = cost.step_ns(30, 30_000, [(800, 0)])
    for step in range(20_000):
        learn(cost, 30, 30_000 + 30 * (step % 100), 0)
    assert cost.step_ns(30, 30_000, [(800, 0)]) == pytest.approx(before, rel=0.03)
    learn(cost, 30, 30_000, 100, factor=2)
    assert cost.step_ns(30, 30_000, [(800, 0)]) < 1.25 * before, "nor is the first one after it all that is known"


def test_changed_engine_is_learned_anew() -> None:
    cost, rng = trained(), random.Random(3)
    for _ in range(300):
        learn(cost, 20, 20_000, rng.randrange(1, 1024), factor=3)
    assert cost.step_ns(20, 20_000, [(500, 0)]) / 1e6 == pytest.approx(3 * true_ms(20, 20_000, 500), rel=0.05)


def test_one_step_that_took_a_second_does_not_upset_it() -> None:
    cost = trained()
    before = cost.step_ns(20, 20_000, [(500, 0)])
    cost.observe(20, 20_000, 500, 10**9)
    assert cost.step_ns(20, 20_000, [(500, 0)]) < 1.6 * before


def test_no_coefficient_is_negative_so_more_never_costs_less() -> None:
    cost = LearnedCost()
    for tokens in (1000, 800, 600, 400, 200) * 10:  # the more, the faster
        cost.observe(4, 4000, tokens, (20_000 - 10 * tokens) * 1000)
    costs = [cost.step_ns(4, 4000, [(tokens, 0)]) for tokens in range(1, 2000, 100)]
    assert costs == sorted(costs) and costs[0] > 0


def test_decodes_alone_are_taken_one_in_eight_and_change_the_estimate_rarely() -> None:
    cost = trained()
    version = cost.version
    for _ in range(RENEWED - 1):
        learn(cost, 20, 20_000, 0)
    assert cost.version == version and RENEWED % EVERY == 0
    learn(cost, 20, 20_000, 0)
    assert cost.version == version + 1
    learn(cost, 20, 20_000, 10)
    assert cost.version == version + 2


def test_same_steps_give_the_same_estimates_bit_by_bit() -> None:
    assert trained(seed=5).step_ns(9, 999, [(99, 0)]) == trained(seed=5).step_ns(9, 999, [(99, 0)])


def test_solve_leaves_out_who_is_not_used() -> None:
    rng = random.Random(2)
    x = [[rng.uniform(-1, 1) for _ in range(4)] for _ in range(9)]
    xx = [[sum(row[i] * row[j] for row in x) for j in range(4)] for i in range(4)]
    for used in ([0, 1, 2, 3], [0, 2, 3], [3], []):
        wanted = [2.0 * (i + 1) if i in used else 0.0 for i in range(4)]
        xy = [sum(xx[i][j] * wanted[j] for j in range(4)) for i in range(4)]
        assert solve(xx, xy, used) == pytest.approx(wanted)


def test_of_an_engine_that_nobody_has_seen_nothing_is_said_but_how_far_it_is_trusted() -> None:
    cost = LearnedCost()
    assert cost.step_ns(9, 999, [(REACH, 0)]) == 0
    assert cost.step_ns(9, 999, [(REACH, 0), (1, 0)]) == math.inf


def test_variables_of_a_full_step_are_of_one_size() -> None:
    assert features(64, 65_536, 1024) == (1, 1, 1, 1)
    assert features(1, 1, 1) == (1, 1 / 64, 1 / 65_536, 1 / 1024)


def test_steps_of_decodes_alone_teach_what_a_decode_costs() -> None:
    cost, rng = LearnedCost(), random.Random(4)
    learn(cost, 1, 500, 8)
    for _ in range(40 * RENEWED):
        decodes = rng.randrange(1, 64)
        learn(cost, decodes, decodes * rng.randrange(200, 3000), 0)
    spread = [
        cost.step_ns(decodes, context, []) / true_ms(decodes, context, 0) for decodes, context in ((2, 900), (60, 60_000))
    ]
    assert max(spread) < 1.1 * min(spread), "the same error at both ends"


def test_what_steps_do_not_tell_keeps_the_value_that_it_had() -> None:
    cost, rng = trained(), random.Random(6)
    for _ in range(3000):
        learn(cost, 10, 10_000, rng.randrange(1, 1024))  # always the same decodes: nothing is told of others
    assert cost.step_ns(50, 90_000, [(100, 0)]) == pytest.approx(true_ms(50, 90_000, 100) * 1e6, rel=0.1)
