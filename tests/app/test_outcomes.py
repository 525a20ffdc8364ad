"""How an end is told outside: statuses, codes and parameters."""

from __future__ import annotations

import pytest
from web_builders import finished

from app.api import outcomes
from app.api.openai_parse import CHAT, COMPLETIONS
from app.store.errors import StoreBusy, StoreFailed, StoreFull, StoreLocked
from scheduler.core.request import FinishReason


@pytest.mark.parametrize(
    ("reason", "detail", "status", "param", "code"),
    [
        (FinishReason.REJECTED, "queue_full", 503, None, "server_overloaded"),
        (FinishReason.REJECTED, "context_length", 400, "messages", "context_length_exceeded"),
        (FinishReason.REJECTED, "kv_capacity", 400, "messages", "exceeds_kv_capacity"),
        (FinishReason.REJECTED, "max_tokens", 400, "max_tokens", "integer_below_min_value"),
        (FinishReason.TIMEOUT, None, 504, "timeout_ms", "timeout"),
        (FinishReason.ABORT, "shutdown", 503, None, "server_shutting_down"),
        (FinishReason.ABORT, "operator", 409, None, "cancelled"),
        (FinishReason.ABORT, "client_gone", 499, None, "client_gone"),
        (FinishReason.ERROR, "nan_logits", 500, None, "nan_logits"),
    ],
)
def test_an_end_has_a_status_and_a_code(
    reason: FinishReason, detail: str | None, status: int, param: str | None, code: str
) -> None:
    problem = outcomes.explainer(CHAT)(finished(reason=reason, detail=detail))
    assert (problem.status, problem.param, problem.code) == (status, param, code)
    retry = problem.headers.get("Retry-After")
    assert (retry is not None and retry.isdigit()) == (status == 503)


def test_the_field_at_fault_is_the_endpoints_own() -> None:
    event = finished(reason=FinishReason.REJECTED, detail="kv_capacity")
    assert outcomes.explainer(COMPLETIONS)(event).param == "prompt"


def test_the_records_refusal_is_a_503_that_can_pass() -> None:
    codes = {StoreBusy: "storage_busy", StoreLocked: "storage_busy", StoreFull: "storage_full", StoreFailed: "storage_failed"}
    assert {kind: outcomes.storage(kind("x")).code for kind in codes} == codes
    assert outcomes.storage(StoreFailed("x")).headers["Retry-After"] == "5"


def test_what_passes_by_itself_says_when_to_come_again() -> None:
    explain = outcomes.explainer(CHAT, lambda: 17)
    for detail, word in (("queue_full", "queue is full"), ("shed", "after its bound")):
        problem = explain(finished(reason=FinishReason.REJECTED, detail=detail))
        assert (problem.status, problem.code, problem.type) == (503, "server_overloaded", "server_error")
        assert problem.headers["Retry-After"] == "17" and word in problem.message
