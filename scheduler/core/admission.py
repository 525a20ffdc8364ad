"""The front door: may a request enter the queue at all? Answers with a refusal's detail; changes nothing.

Never silence, never a queue that a hopeless request blocks: what cannot ever run is refused at once. Details:
  duplicate_id     a live request has this id
  empty_prompt     no token to compute
  max_tokens       fewer than one output token was asked for
  context_length   the prompt leaves no room for one output token within max_model_len
  kv_capacity      the prompt alone is larger than the whole KV cache
  queue_full       max_num_queued_reqs or max_num_queued_tokens is reached; this passes by itself
  shed             with admission=shed: its first token would come after its bound; so does this
The bound is the request's deadline, else ttft_slo_ms after it was received; the estimate is drain.py's.
A request whose prompt fits but which would outgrow the model or the cache is accepted; it ends by length.
"""

from __future__ import annotations

from collections.abc import Container

from scheduler.core.blocks import BlockPool
from scheduler.core.drain import Pressure
from scheduler.core.limits import Limits
from scheduler.core.request import Request

MS = 1_000_000


def refusal(
    request: Request,
    live: Container[str],
    limits: Limits,
    pool: BlockPool,
    waiting: int,
    waiting_tokens: int,
    now: int = 0,
    pressure: Pressure | None = None,
) -> str | None:
    """Why `request` may not enter, or None. `waiting_tokens`: prompt tokens of all who wait; `pressure`: only to shed."""
    if request.id in live:
        return "duplicate_id"
    hopeless = _never(request, limits, pool) or _queue_full(request, limits, waiting, waiting_tokens)
    return hopeless or _shed(request, limits, now, pressure)


def _never(request: Request, limits: Limits, pool: BlockPool) -> str | None:
    """Why `request` could not run even alone."""
    if not request.prompt_tokens:
        return "empty_prompt"
    if request.params.max_tokens < 1:
        return "max_tokens"
    if request.prompt_tokens + 1 > limits.max_model_len:
        return "context_length"
    if pool.blocks_for(request.prompt_tokens) > pool.total:
        return "kv_capacity"
    return None


def _queue_full(request: Request, limits: Limits, waiting: int, waiting_tokens: int) -> str | None:
    """A full queue refuses. What was accepted in an engine's earlier life was accepted; one prompt may always wait."""
    if request.resubmitted or not waiting:
        return None
    bound = limits.max_num_queued_tokens
    if waiting >= limits.max_num_queued_reqs or (bound and waiting_tokens + request.prompt_tokens > bound):
        return "queue_full"
    return None


def _shed(request: Request, limits: Limits, now: int, pressure: Pressure | None) -> str | None:
    """Better refused at once than served too late. What was accepted in an earlier life was accepted."""
    if pressure is None or request.resubmitted:
        return None
    due_at = request.deadline_at if request.deadline_at is not None else request.received_at + limits.ttft_slo_ms * MS
    return "shed" if pressure.misses(due_at, now, request.prompt_tokens) else None
