"""Events tell all that a reader needs, each in one way."""

from __future__ import annotations

import pytest

from scheduler.core.events import FirstToken, SliceRow, StepCompleted
from scheduler.core.holders import Blockers, Holding
from scheduler.core.request import NO_WAITS, WaitReason

SET = Blockers(limit=9, holders=(Holding("ann", 5, 3), Holding("bob", 2)), rest=2, needed=4, head=7, free=3, kept=1,
               tokens=80, max_tokens=90)  # fmt: skip
PLAIN = [{"tenant": "ann", "amount": 5}, {"tenant": "bob", "amount": 2}]
OF_TOKENS = [{"tenant": "ann", "amount": 5, "prefill": 3}, {"tenant": "bob", "amount": 2, "prefill": 0}]


@pytest.mark.parametrize(
    ("reason", "unit", "holders", "more"),
    [
        (WaitReason.SLOTS, "slots", PLAIN, {}),
        (WaitReason.STATIC_BATCH, "slots", PLAIN, {}),
        (WaitReason.TOKEN_BUDGET, "tokens", OF_TOKENS, {}),
        (WaitReason.PREFILL_CAP, "tokens", OF_TOKENS, {}),
        (WaitReason.KV_BLOCKS, "blocks", PLAIN, {"needed": 4, "head": 7, "free": 3, "kept": 1}),
        (WaitReason.QUOTA, "requests", PLAIN, {"needed": 4, "tokens": 80, "max_tokens": 90}),
    ],
)
def test_a_set_is_told_with_what_its_reason_is_about_and_no_more(
    reason: WaitReason, unit: str, holders: list[dict[str, object]], more: dict[str, object]
) -> None:
    told = {"reason": reason.name.lower(), "unit": unit, "limit": 9, "holders": holders, "rest": 2}
    assert SET.named(reason) == told | more


def test_of_memory_that_ran_out_for_the_running_no_head_is_told() -> None:
    assert SET._replace(head=0).named(WaitReason.KV_BLOCKS)["head"] is None


def test_a_step_has_a_slice_for_each_row_and_who_failed_gained_nothing() -> None:
    step = StepCompleted(1, 9, 0, 1, 0, 0, 64, WaitReason.STEP, NO_WAITS, 4, 0, 0, (11, 12), ((13, 5, 0), (14, 6, 1)), (12,))
    assert step.slices == [
        SliceRow(11, 1, "decode", 1),
        SliceRow(12, 1, "decode", 0),
        SliceRow(13, 5, "prefill", 0),
        SliceRow(14, 6, "prefill", 1),
    ]
    assert step.prefill_tokens == 11


def test_an_event_can_be_a_key_and_carries_its_fields_alone() -> None:
    one, same = (FirstToken(1, 9, 0, 4) for _ in range(2))
    assert {one: "told"}[same] == "told" and not hasattr(one, "__dict__")
