"""How many tokens of whom."""

from __future__ import annotations

import pytest
from builders import make_limits
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.batching import Batching


def test_chunked_prefill_takes_what_is_left() -> None:
    batching = Batching(make_limits(max_num_batched_tokens=64))
    assert batching.first_piece(missing=100, left=40, alone=False) == 40
    assert batching.next_piece(missing=10, left=40) == 10


def test_threshold_caps_each_piece() -> None:
    batching = Batching(make_limits(max_num_batched_tokens=64, long_prefill_token_threshold=16))
    assert batching.first_piece(100, 64, True) == 16 and batching.next_piece(100, 9) == 9


@pytest.mark.parametrize("whole", [{"enable_chunked_prefill": False}, {"batching": "static"}])
def test_whole_or_not_at_all(whole: dict[str, object]) -> None:
    batching = Batching(make_limits(max_num_batched_tokens=64, long_prefill_token_threshold=16, **whole))
    assert batching.first_piece(40, 39, True) == 0
    assert batching.first_piece(40, 40, False) == 40, "the threshold is a matter of chunking"
    assert batching.first_piece(100, 60, False) == 0, "what no step holds whole begins beside no other prefill"
    assert batching.first_piece(100, 60, True) == 60


def test_decodes_are_the_budget_while_a_lowered_limit_drains() -> None:
    assert Batching(make_limits(max_num_batched_tokens=8)).step_budget(20) == 20


def test_ceiling_lowers_the_budget_only() -> None:
    assert Batching(make_limits(max_num_batched_tokens=64), 32).budget == 32
    assert Batching(make_limits(max_num_batched_tokens=64), 320).budget == 64


@given(
    missing=st.integers(1, 200),
    left=st.integers(1, 64),
    alone=st.booleans(),
    chunked=st.booleans(),
    static=st.booleans(),
    cap=st.integers(0, 20),
)
def test_piece_is_never_more_than_is_left_or_missing(
    missing: int, left: int, alone: bool, chunked: bool, static: bool, cap: int
) -> None:
    limits = make_limits(
        enable_chunked_prefill=chunked, long_prefill_token_threshold=cap, batching="static" if static else "continuous"
    )
    batching = Batching(limits)
    assert 0 <= batching.first_piece(missing, left, alone) <= min(missing, left)
    assert 0 < batching.next_piece(missing, left) <= min(missing, left)
    assert batching.first_piece(missing, batching.budget, True) > 0, "alone in a step, everybody gets on"
