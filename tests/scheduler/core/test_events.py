"""Events tell all that a reader needs, each in one way."""

from __future__ import annotations

from scheduler.core.events import FirstToken, SliceRow, StepCompleted
from scheduler.core.request import NO_WAITS, WaitReason


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
