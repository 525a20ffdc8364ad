"""The tokens of the step that is being planned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from builders import MS, make_limits, make_request

from scheduler.core.batching import Batching
from scheduler.core.budget import GRAIN, Budget
from scheduler.core.decode_group import DecodeGroup
from scheduler.core.request import WaitReason
from scheduler.core.step_room import StepRoom

NOBODY = DecodeGroup(4, 1000)


class PerToken:
    """20 µs a prefill token and 1 µs for each one before it."""

    def step_ns(self, decodes: int, context: int, chunks: Sequence[tuple[int, int]]) -> float:
        return sum(20_000 * tokens + 1000 * prior for tokens, prior in chunks)


def room(target_ms: float, **limits: Any) -> StepRoom:
    budget = Budget(PerToken())
    budget.aim(target_ms)
    made = StepRoom(budget)
    made.open(Batching(make_limits(max_num_batched_tokens=1000, **limits)), NOBODY, 2, still=False)
    return made


def test_tokens_are_the_settings_without_a_target_and_what_was_taken_is_gone() -> None:
    one = room(0)
    assert one.left(NOBODY) == 1000
    one.take(one.first_piece(NOBODY, 700, 0), 0)
    assert one.left(NOBODY) == 300 and one.next_piece(NOBODY, 900, 10_000) == 300
    assert one.bound_by is WaitReason.TOKEN_BUDGET


def test_slice_that_does_not_end_in_time_is_cut_and_spends_the_step() -> None:
    one = room(10)
    assert one.tokens == 500
    pieces = one.next_piece(NOBODY, 400, 5000)
    assert pieces == 250
    one.take(pieces, 5000)
    assert one.tokens == 250 and one.left(NOBODY) == 0 and one.bound_by is WaitReason.PREFILL_CAP


def test_slices_that_end_in_time_leave_the_rest_of_the_step_to_others() -> None:
    one = room(10)
    for _ in range(5):
        one.take(one.first_piece(NOBODY, 100, 0), 0)
        assert one.tokens == 500
    assert one.left(NOBODY) == 0 and [tokens for tokens, _ in one._chunks] == [100] * 5


def test_slice_that_is_cut_beside_others_leaves_the_step_what_is_planned() -> None:
    one = room(10)
    one.take(one.next_piece(NOBODY, 100, 0), 0)
    one.take(one.next_piece(NOBODY, 400, 5000), 5000)
    assert one.tokens == 250 and one.left(NOBODY) == 0


def test_prompt_that_would_be_cut_waits_where_prompts_go_whole_unless_it_is_alone() -> None:
    beside, alone = room(10, enable_chunked_prefill=False), room(10, enable_chunked_prefill=False)
    beside.take(100, 0)
    assert beside.first_piece(NOBODY, 5300, 5000) == 0
    assert alone.first_piece(NOBODY, 5300, 5000) == 250
    chunked = room(10)
    chunked.take(100, 0)
    assert chunked.first_piece(NOBODY, 5300, 5000) == 150


def test_target_leaves_decodes_that_stand_still_out() -> None:
    one = room(10)
    one.open(Batching(make_limits(max_num_batched_tokens=1000)), NOBODY, 2, still=True)
    assert one.left(NOBODY) == 10 * MS // 20_000


class PerDecode:
    """1 ms a decode, 1 µs a token of their context, 20 µs a prefill token."""

    def step_ns(self, decodes: int, context: int, chunks: Sequence[tuple[int, int]]) -> float:
        return decodes * MS + 1000 * context + sum(20_000 * tokens for tokens, _ in chunks)


@pytest.mark.parametrize(("still", "tokens"), [(True, 500), (False, 3 + (7000 - 3 * GRAIN) // 20)])
def test_target_pays_for_the_decodes_and_their_context_only_if_they_are_in_the_step(still: bool, tokens: int) -> None:
    budget, group = Budget(PerDecode()), DecodeGroup(4, 1000)
    budget.aim(10)
    for number in range(3):
        request = make_request(prompt=9)
        request.number = number
        group.join(request, 1)
    one = StepRoom(budget)
    one.open(Batching(make_limits(max_num_batched_tokens=1000)), group, 3, still)
    left = tokens - (0 if still else len(group))
    assert one.tokens == tokens and one.left(group) == left
    assert one.next_piece(group, 1000, 0) == left and one.tokens == tokens, "to the token"
