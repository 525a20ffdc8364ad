"""The front door's answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import MS, make_limits, make_request

from scheduler.core.admission import refusal
from scheduler.core.blocks import BlockPool
from scheduler.core.drain import Pressure
from scheduler.core.request import Request


def ask(
    request: Request, waiting: int = 0, waiting_tokens: int = 0, pressure: Pressure | None = None, **limits: Any
) -> str | None:
    return refusal(request, {"live"}, make_limits(**limits), BlockPool(10, 4), waiting, waiting_tokens, 0, pressure)


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


def test_shed_refuses_what_would_miss_its_bound_and_nothing_on_an_idle_engine() -> None:
    slow = Pressure(busy=True, tokens=100, token_ns=MS, places=0, place_ns=0, step_ns=0, safety=1.0)
    assert ask(make_request(prompt=20), ttft_slo_ms=120, pressure=slow) is None
    assert ask(make_request(prompt=21), ttft_slo_ms=120, pressure=slow) == "shed"
    assert ask(make_request(prompt=21), ttft_slo_ms=120, pressure=replace(slow, busy=False)) is None
    assert ask(make_request(prompt=21), ttft_slo_ms=120, pressure=None) is None


def test_a_deadline_goes_before_the_setting_and_what_was_accepted_before_stays_accepted() -> None:
    slow = Pressure(busy=True, tokens=100, token_ns=MS, places=0, place_ns=0, step_ns=0, safety=1.0)
    assert ask(make_request(prompt=20, deadline_at=119 * MS), ttft_slo_ms=5000, pressure=slow) == "shed"
    assert ask(make_request(prompt=20, deadline_at=120 * MS), ttft_slo_ms=1, pressure=slow) is None
    assert ask(make_request(prompt=20, resubmitted=True), ttft_slo_ms=1, pressure=slow) is None


def test_what_can_never_run_is_told_so_rather_than_to_come_back() -> None:
    slow = Pressure(busy=True, tokens=100, token_ns=MS, places=0, place_ns=0, step_ns=0, safety=1.0)
    assert ask(make_request(prompt=41), ttft_slo_ms=1, pressure=slow) == "kv_capacity"


def test_prompts_that_wait_may_be_as_many_tokens_as_the_setting_says_and_one_prompt_may_always_wait() -> None:
    bound = {"max_num_queued_tokens": 20}
    assert ask(make_request(prompt=8), waiting=1, waiting_tokens=12, **bound) is None
    assert ask(make_request(prompt=9), waiting=1, waiting_tokens=12, **bound) == "queue_full"
    assert ask(make_request(prompt=30), waiting=0, waiting_tokens=0, **bound) is None
