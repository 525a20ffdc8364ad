"""How a request's end is told outside: RequestFinished, storage errors and crashes → problems. Pure.

Invariant: what can pass by itself is 503 with Retry-After; what cannot carries x-should-retry: false.
"""

from __future__ import annotations

from collections.abc import Callable

from app.api.errors import NO_RETRY, Problem
from app.api.openai_parse import CHAT
from app.store.errors import StoreBusy, StoreFull, StoreLocked
from scheduler.core.events import RequestFinished
from scheduler.core.request import FinishReason

GONE = Problem(499, "the client closed the connection", None, "client_gone")


def explainer(endpoint: str, retry_after_s: Callable[[], int] = lambda: 1) -> Callable[[RequestFinished], Problem]:
    """What an end that is not `stop` or `length` means to the client of `endpoint`; when a refused one may come again."""
    param = "messages" if endpoint == CHAT else "prompt"

    def explain(event: RequestFinished) -> Problem:
        detail = event.detail or "internal"
        if event.reason is FinishReason.REJECTED:
            return _rejected(event, detail, param, retry_after_s)
        if event.reason is FinishReason.TIMEOUT:
            return timed_out()
        if event.reason is FinishReason.ABORT:
            return _aborted(detail)
        return Problem(500, f"the request failed in the engine: {detail}", None, detail)

    return explain


def queue_full(retry_after_s: int) -> Problem:
    """As many wait as may."""
    return _overloaded("the queue is full", retry_after_s)


def too_often(key_name: str, retry_after_s: int) -> Problem:
    """One API key has sent as many as it may."""
    message = f"the API key {key_name!r} has sent as many requests as it may for now (max_requests_per_minute)"
    return Problem(429, message, None, "rate_limit_exceeded", {"Retry-After": str(retry_after_s)})


def shed(retry_after_s: int) -> Problem:
    """It would have been served too late to be of use: better told at once."""
    return _overloaded(
        "so much is waiting that the first token would come after its bound (deadline_ms, ttft_slo_ms)", retry_after_s
    )


def _overloaded(message: str, retry_after_s: int) -> Problem:
    return Problem(503, message, None, "server_overloaded", {"Retry-After": str(retry_after_s)})


def storage(error: Exception) -> Problem:
    """The row could not be made durable, so the request was not accepted."""
    code = "storage_failed"
    if isinstance(error, StoreFull):
        code = "storage_full"
    elif isinstance(error, (StoreBusy, StoreLocked)):
        code = "storage_busy"
    return Problem(503, "the request could not be recorded, so it was not accepted", None, code, {"Retry-After": "5"})


def timed_out() -> Problem:
    """Its own time-out passed."""
    return Problem(504, "the request's time-out passed before it was finished", "timeout_ms", "timeout", NO_RETRY)


def crashed(detail: str = "engine_crash") -> Problem:
    """The engine died, or hung and was ended, under a request that had begun to answer."""
    what = "took no step for too long and was ended" if detail == "step_hang" else "died"
    return Problem(500, f"the engine {what}; what was generated so far is lost", None, detail)


def poison() -> Problem:
    """The engine died of this very request, twice."""
    message = "the engine died twice while it worked on this request; the same request is refused for ten minutes"
    return Problem(422, message, None, "poison_request", NO_RETRY)


def shutting_down() -> Problem:
    """The server is on its way down."""
    return Problem(503, "the server is shutting down", None, "server_shutting_down", {"Retry-After": "5"})


def _rejected(event: RequestFinished, detail: str, param: str, retry_after_s: Callable[[], int]) -> Problem:
    tokens = event.prompt_tokens
    refusals = {
        "context_length": Problem(
            400, f"the prompt ({tokens} tokens) does not fit the context", param, "context_length_exceeded"
        ),
        "kv_capacity": Problem(400, f"the prompt ({tokens} tokens) can never fit the KV cache", param, "exceeds_kv_capacity"),
        "empty_prompt": Problem(400, "the prompt has no token", param, "invalid_value"),
        "max_tokens": Problem(400, "max_tokens must be at least 1", "max_tokens", "integer_below_min_value"),
    }
    if detail in refusals:
        return refusals[detail]
    return shed(retry_after_s()) if detail == "shed" else queue_full(retry_after_s())


def _aborted(detail: str) -> Problem:
    if detail == "shutdown":
        return shutting_down()
    if detail in ("client_gone", "slow_client"):
        return GONE
    return Problem(409, "the request was cancelled by an operator", None, "cancelled", NO_RETRY)
