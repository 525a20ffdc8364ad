"""The front door's answers."""

from __future__ import annotations

from typing import Any

import pytest
from builders import make_limits, make_request

from scheduler.core.admission import refusal
from scheduler.core.blocks import BlockPool
from scheduler.core.request import Request


def ask(request: Request, waiting: int = 0, waiting_tokens: int = 0, **limits: Any) -> str | None:
    return refusal(request, {"live"}, make_limits(**limits), BlockPool(10, 4), waiting, waiting_tokens)


@pytest.mark.parametrize(
    ("request_", "detail"),
    [
        (make_request(prompt=8), None),
        (make_request("live"), "duplicate_id"),
        (make_request(prompt=0), "empty_prompt"),
        (make_request(max_tokens=0), "max_tokens"),
        (make_request(prompt=41), "kv_capacity"),
        (make_request(prompt=40, max_tokens=999), None),
        (make_request(prompt=1024), "context_length"),
    ],
)
def test_what_can_never_run_is_named_and_what_outgrows_the_pool_later_is_let_in(request_: Request, detail: str | None) -> None:
    assert ask(request_) == detail


def test_one_prompt_may_always_wait() -> None:
    assert ask(make_request(prompt=30), max_num_queued_tokens=10) is None
    assert ask(make_request(prompt=3), waiting=1, waiting_tokens=30, max_num_queued_tokens=10) == "queue_full"
    assert ask(make_request(prompt=3), waiting=1, waiting_tokens=7, max_num_queued_tokens=10) is None


def test_queue_bound_counts_requests() -> None:
    assert ask(make_request(), waiting=5, max_num_queued_reqs=5) == "queue_full"
    assert ask(make_request(), waiting=4, max_num_queued_reqs=5) is None
    assert ask(make_request(resubmitted=True), waiting=5, max_num_queued_reqs=5) is None
