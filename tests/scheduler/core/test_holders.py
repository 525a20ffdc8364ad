"""Who holds what, as people read it: by its reason, and no more than that is about."""

from __future__ import annotations

import pytest

from scheduler.core.holders import Blockers, Holding
from scheduler.core.request import WaitReason

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
