"""How many tokens of whom."""

from __future__ import annotations

from typing import Any

import pytest
from builders import make_limits
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.batching import MOST_DECODES, SERVED_RATIO, Batching, Portions


def portions(requests: int = 2, **limits: Any) -> Portions:
    batching = Batching(make_limits(**limits))
    return batching.portions(batching.budget, requests)


def test_chunked_prefill_takes_what_is_left() -> None:
    rules = portions(max_num_batched_tokens=64)
    assert rules.first_piece(missing=100, left=40, alone=False) == 40
    assert rules.next_piece(missing=10, left=40) == 10


def test_threshold_caps_each_piece() -> None:
    rules = portions(max_num_batched_tokens=64, long_prefill_token_threshold=16)
    assert rules.first_piece(100, 64, True) == 16 and rules.next_piece(100, 9) == 9


def test_request_that_is_alone_in_the_engine_is_not_capped() -> None:
    rules = portions(1, max_num_batched_tokens=64, long_prefill_token_threshold=16)
    assert rules.first_piece(100, 64, True) == 64 and rules.next_piece(100, 64) == 64


def test_adaptive_threshold_is_at_least_a_fair_share_of_the_budget() -> None:
    batching = Batching(
        make_limits(max_num_batched_tokens=64, long_prefill_token_threshold=16, long_prefill_token_threshold_adaptive=True)
    )
    assert [batching.cap(n) for n in (0, 1, 2, 3, 4, 5, 1000)] == [0, 0, 32, 21, 16, 16, 16]
    off = make_limits(max_num_batched_tokens=64, long_prefill_token_threshold_adaptive=True)
    assert Batching(off).cap(2) == 0, "a threshold of 0 is no cap, adaptive or not"


@pytest.mark.parametrize("whole", [{"enable_chunked_prefill": False}, {"batching": "static"}, {"batching": "merge"}])
def test_whole_or_not_at_all(whole: dict[str, object]) -> None:
    rules = portions(max_num_batched_tokens=64, long_prefill_token_threshold=16, **whole)
    assert rules.first_piece(40, 39, True) == 0
    assert rules.first_piece(40, 40, False) == 40, "the threshold is a matter of chunking"
    assert rules.first_piece(100, 60, False) == 0, "what no step holds whole begins beside no other prefill"
    assert rules.first_piece(100, 60, True) == 60


def test_ceiling_lowers_the_budget_only() -> None:
    assert Batching(make_limits(max_num_batched_tokens=64), 32).budget == 32
    assert Batching(make_limits(max_num_batched_tokens=64), 320).budget == 64


def test_newcomers_interrupt_a_merged_batch_when_they_are_many_or_have_waited_long_and_never_twice_in_a_row() -> None:
    batching = Batching(make_limits(batching="merge"))
    enough = int(SERVED_RATIO * 100)
    assert batching.interrupts(waiting=enough, decodes=100, decoded=1)
    assert not batching.interrupts(enough - 1, 100, 1)
    assert batching.interrupts(1, 100, MOST_DECODES) and not batching.interrupts(1, 100, MOST_DECODES - 1)
    assert not batching.interrupts(1000, 100, 0), "between two prefills the batch decodes"


@given(
    missing=st.integers(1, 200),
    left=st.integers(1, 64),
    alone=st.booleans(),
    chunked=st.booleans(),
    mode=st.sampled_from(["continuous", "merge", "static"]),
    cap=st.integers(0, 20),
    adaptive=st.booleans(),
    requests=st.integers(1, 300),
)
def test_piece_is_never_more_than_is_left_or_missing(
    missing: int, left: int, alone: bool, chunked: bool, mode: str, cap: int, adaptive: bool, requests: int
) -> None:
    rules = portions(
        requests,
        enable_chunked_prefill=chunked,
        long_prefill_token_threshold=cap,
        long_prefill_token_threshold_adaptive=adaptive,
        batching=mode,
    )
    assert 0 <= rules.first_piece(missing, left, alone) <= min(missing, left)
    assert 0 < rules.next_piece(missing, left) <= min(missing, left)
    assert rules.first_piece(missing, rules.budget, True) > 0, "alone in a step, everybody gets on"


def test_a_prompt_that_a_step_could_hold_whole_waits_for_one_that_does() -> None:
    rules = Portions(8, True, 0)
    assert rules.first_piece(8, 8, True) == 8 and rules.first_piece(8, 7, True) == 0
    assert rules.first_piece(9, 7, True) == 7 and rules.first_piece(9, 7, False) == 0
