"""Sampler: the right distribution, from one number a row, whoever else is in the batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from scheduler.core.request import Request, SamplingParams
from scheduler.runners.torch_runner.sampler import choose, uniform

VOCABULARY = 700  # more than the candidates of the fast path, and no multiple of its blocks


def row(seed: int = 1, spread: float = 2.0, size: int = VOCABULARY) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) * spread


def asked(seed: int = 0, **params: float) -> Request:
    return Request(f"r{seed}", [1], SamplingParams(seed=seed, **params))  # type: ignore[arg-type]


def draws(logits: Tensor, count: int, **params: float) -> list[int]:
    return choose(logits.repeat(count, 1), [asked(seed, **params) for seed in range(count)]).tokens


def allowed(logits: Tensor, temperature: float, top_p: float, top_k: int) -> set[int]:
    """The law, said slowly: the top_k best, then the fewest of them whose mass reaches top_p of theirs."""
    probabilities = torch.softmax(logits.double() / temperature, 0)
    order = probabilities.sort(descending=True, stable=True).indices.tolist()[: top_k or None]
    mass, kept = sum(probabilities[order].tolist()), 0.0
    chosen = set()
    for token in order:
        if chosen and kept >= top_p * mass:
            break
        chosen.add(token)
        kept += float(probabilities[token])
    return chosen


def test_temperature_zero_takes_the_best_and_the_first_of_equals() -> None:
    logits = torch.zeros(2, 10)
    logits[0, 7] = 1
    assert choose(logits, [asked(temperature=0), asked(temperature=0)]).tokens == [7, 0]


@pytest.mark.parametrize("params", [
    {"temperature": 1.0},
    {"temperature": 1.7},
    {"temperature": 1.0, "top_k": 12},
    {"temperature": 1.5, "top_p": 0.8},
    {"temperature": 3.0, "top_p": 0.9, "top_k": 300},
])  # fmt: skip
def test_frequencies_are_the_probabilities(params: dict[str, float]) -> None:
    logits, count = row(), 6_000
    kept = sorted(allowed(logits, params["temperature"], params.get("top_p", 1.0), int(params.get("top_k", 0))))
    probabilities = torch.softmax(logits[kept].double() / params["temperature"], 0).tolist()
    seen = Counter(draws(logits, count, **params))
    assert set(seen) <= set(kept)
    squares = [(seen[token] - count * p) ** 2 / (count * p) for token, p in zip(kept, probabilities, strict=True)]
    assert sum(squares) < len(kept) + 6 * (2 * len(kept)) ** 0.5  # six standard deviations of chi-squared


@given(st.integers(0, 50), st.floats(0.05, 5), st.floats(0.01, 1), st.integers(0, VOCABULARY + 5), st.integers(0, 2**64 - 1))
@settings(max_examples=150, deadline=None)
def test_no_token_outside_top_k_and_top_p_is_ever_chosen(
    seed: int, temperature: float, top_p: float, top_k: int, request_seed: int
) -> None:
    logits = row(seed)
    choice = choose(logits[None].clone(), [asked(request_seed, temperature=temperature, top_p=top_p, top_k=top_k)])
    slack = allowed(logits, temperature, min(1.0, top_p + 1e-5), top_k)
    assert choice.tokens[0] in slack
    assert choice.errors == {}


@given(st.permutations(range(8)), st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_order_and_company_change_nothing(order: list[int], many: int) -> None:
    kinds = [
        {"temperature": 0.0}, {"temperature": 0.7}, {"temperature": 5.0}, {"temperature": 1.0, "top_p": 0.5},
        {"temperature": 9.0, "top_p": 0.99}, {"temperature": 1.0, "top_k": 3}, {"temperature": 2.0, "top_k": 400},
        {"temperature": 1.0, "top_k": 5, "top_p": 0.3},
    ]  # fmt: skip
    rows = [(row(i), asked(i, **kind)) for i, kind in enumerate(kinds)]
    single = [choose(logits[None].clone(), [request]).tokens[0] for logits, request in rows]
    chosen = order[:many]
    together = choose(torch.stack([rows[i][0] for i in chosen]), [rows[i][1] for i in chosen]).tokens
    assert together == [single[i] for i in chosen]


def test_the_next_position_draws_another_number() -> None:
    request, tokens = asked(temperature=4.0), []
    for _ in range(20):
        tokens += choose(row()[None], [request]).tokens
        request.tokens.append(tokens[-1])
    assert len(set(tokens)) > 10


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_row_that_is_not_finite_is_an_error_and_the_others_are_as_without_it(bad: float) -> None:
    requests = [asked(0, temperature=1.0), asked(1, temperature=1.0, top_p=0.9), asked(2, temperature=0.0)]
    healthy = choose(torch.stack([row(1), row(2), row(3)]), requests).tokens
    for broken in range(3):
        logits = torch.stack([row(1), row(2), row(3)])
        logits[broken, 5] = bad
        choice = choose(logits, requests)
        assert choice.errors == {broken: "nan_logits"}
        assert [t for i, t in enumerate(choice.tokens) if i != broken] == [t for i, t in enumerate(healthy) if i != broken]


@pytest.mark.parametrize("temperature", [1e-40, 1e-6, 1e6])
@pytest.mark.parametrize("filters", [{}, {"top_p": 1e-9}, {"top_k": 1}])
def test_extreme_temperatures_are_numbers_too(temperature: float, filters: dict[str, float]) -> None:
    choice = choose(row()[None] * 1e4, [asked(3, temperature=temperature, **filters)])
    assert choice.errors == {}
    if temperature < 1 or filters:
        assert choice.tokens == [int(row().argmax())]


def test_tokens_without_probability_are_never_drawn() -> None:
    logits = torch.full((VOCABULARY,), -1e9)
    logits[[0, 300, VOCABULARY - 1]] = 0.0
    seen = Counter(draws(logits, 3000, temperature=1.0))
    assert set(seen) == {0, 300, VOCABULARY - 1}
    assert min(seen.values()) > 850


def test_early_stops_are_forbidden_until_min_tokens() -> None:
    best = int(row().argmax())
    params = SamplingParams(temperature=0, min_tokens=1, stop_token_ids=(best, VOCABULARY + 9))
    request = Request("a", [1], params)
    assert choose(row()[None], [request]).tokens != [best]
    request.tokens.append(5)
    assert choose(row()[None], [request]).tokens == [best]
    assert choose(row()[None], [Request("b", [1], replace(params, min_tokens=0))]).tokens == [best]


def test_uniforms_are_uniform_and_differ_by_seed_and_position() -> None:
    numbers = [uniform(seed, position) for seed in range(100) for position in range(100)]
    assert len(set(numbers)) == len(numbers)
    assert all(0 <= number < 1 for number in numbers)
    tenths = Counter(int(number * 10) for number in numbers)
    assert sum((tenths[i] - 1000) ** 2 / 1000 for i in range(10)) < 30
    assert uniform(2**64 + 5, 0) == uniform(5, 0)


def test_bfloat16_logits_are_chosen_from_as_float32() -> None:
    logits = torch.stack([row(), row(2)]).bfloat16()
    requests = [asked(0, temperature=0), asked(1, temperature=1.0)]
    assert choose(logits.clone(), requests) == choose(logits.float(), requests)
