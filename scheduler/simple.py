"""SimpleScheduler: the tutorial's interface, served by the real core in static-batching mode.

One batch at a time: `build_batch` forms it, `complete_batch` closes it. It knows no model and no thread but its lock.
Here, and only here, priority is *higher first*; the core's is lower first. `max_tokens` bounds the PROMPT tokens of a
batch. Invariant: every request that was added is served, in order of priority, then of arrival; one that could never
fit is refused when it is added, so that it blocks nobody.

`tokenize` turns a prompt into tokens (anything with a length and an order). The default, `word_pieces`, needs no model:
words in pieces of at most four letters, single digits, punctuation marks and line breaks, which is near the counts of
common English tokenizers. Pass your model's own to count exactly.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from enum import Enum
from threading import RLock
from typing import Any

from scheduler.core.blocks import BlockPool
from scheduler.core.events import Event, RequestFinished
from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.policies.base import Keyed
from scheduler.core.request import Request as CoreRequest
from scheduler.core.request import SamplingParams
from scheduler.core.scheduler import Scheduler
from scheduler.errors import BatchscopeError, CapacityError

BLOCK_SIZE = 16
_PIECE = re.compile(r"[^\W\d_]{1,4}|\d|[^\w\s]|_|\n")


def word_pieces(prompt: str) -> list[str]:
    """The default tokenizer; never empty for a prompt that is not: what has no piece counts as one."""
    return _PIECE.findall(prompt) or ([prompt] if prompt else [])


class RequestStatus(Enum):
    """Where a request is."""

    WAITING = "waiting"
    EXECUTING = "executing"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(eq=False)
class Request:
    """A request as its sender sees it; `prompt_tokens` is its size for the budget."""

    id: str
    prompt: str
    params: Mapping[str, Any]
    priority: float
    prompt_tokens: int
    status: RequestStatus = RequestStatus.WAITING
    result: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class _StaticLimits:
    """The core's limits for one batch at a time."""

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    enable_chunked_prefill: bool = False
    long_prefill_token_threshold: int = 0
    batching: str = "static"
    allocation: str = "on_demand"
    watermark: float = 0.0
    enable_prefix_caching: bool = False
    max_num_queued_reqs: int = 1 << 62
    max_num_queued_tokens: int = 0
    admission: str = "bounded"
    ttft_slo_ms: int = 1
    shed_safety: float = 1.0
    tenant_max_running: int = 0
    tenant_max_tokens: int = 0
    long_prefill_token_threshold_adaptive: bool = False
    itl_target_ms: float = 0.0
    max_head_skips: int = 0


class _HigherFirst(Keyed):
    """The tutorial's order: the higher priority first, then by arrival."""

    def __init__(self) -> None:
        super().__init__()
        self.priorities: dict[str, float] = {}

    def key_of(self, request: CoreRequest, now: int) -> float:
        """Negative, since the least key runs first; ties are broken by arrival."""
        return -self.priorities[request.id]


class SimpleScheduler:
    """Batches of at most `max_batch_size` requests and `max_tokens` prompt tokens. Safe to use from several threads."""

    def __init__(self, max_batch_size: int = 4, max_tokens: int = 2048, tokenize: Callable[[str], Sized] = word_pieces) -> None:
        if max_batch_size < 1 or max_tokens < 1:
            raise ValueError("max_batch_size and max_tokens must be at least 1")
        self.max_batch_size = max_batch_size
        self.max_tokens = max_tokens
        self._tokenize = tokenize
        self._lock = RLock()
        self._items: dict[str, Request] = {}
        self._order = _HigherFirst()
        limits = _StaticLimits(max_batch_size, max_tokens, max_model_len=max_tokens + 1)
        pool = BlockPool(max_tokens // BLOCK_SIZE + max_batch_size, BLOCK_SIZE, caching=False)
        self._core = Scheduler(limits, pool, self._order)
        self._plan: StepPlan | None = None
        self.current_batch: list[Request] = []

    @property
    def waiting(self) -> int:
        """Requests that no batch has taken yet."""
        with self._lock:
            return self._core.waiting

    def add_request(self, request_id: str, prompt: str, params: Mapping[str, Any], priority: float = 1.0) -> Request:
        """Queue a request; raises CapacityError when it can never fit, BatchscopeError when it cannot be taken."""
        if priority != priority:
            raise BatchscopeError("priority must be a number, not NaN", "priority")
        size = len(self._tokenize(prompt))
        item = Request(request_id, prompt, params, priority, size)
        with self._lock:
            if request_id in self._items:
                raise BatchscopeError(f"a request {request_id!r} is already waiting or executing", "request_id")
            now = time.monotonic_ns()
            # The core's request has one output token: it ends with the step that is its batch.
            request = CoreRequest(request_id, range(size), SamplingParams(max_tokens=1), received_at=now)
            self._order.priorities[request_id] = priority
            self._refuse(item, self._core.add(request, now))
            self._items[request_id] = item
        return item

    def _refuse(self, item: Request, events: Sequence[Event]) -> None:
        refused = [event for event in events if isinstance(event, RequestFinished)]
        if not refused:
            return
        del self._order.priorities[item.id]
        if refused[0].detail == "empty_prompt":
            raise BatchscopeError(f"the prompt of request {item.id!r} has no token", "prompt")
        raise CapacityError(
            f"request {item.id!r} can never fit: its prompt has {item.prompt_tokens} tokens, a batch holds {self.max_tokens}",
            "prompt",
        )

    def can_add_to_batch(self, request: Request) -> bool:
        """Would `request` fit beside the current batch: a place, and prompt tokens left? Changes nothing."""
        with self._lock:
            used = sum(item.prompt_tokens for item in self.current_batch)
            return len(self.current_batch) < self.max_batch_size and used + request.prompt_tokens <= self.max_tokens

    def build_batch(self) -> list[Request]:
        """The next batch, highest priority first; [] while a batch is open or when nobody waits."""
        with self._lock:
            if self._plan is not None:
                return []
            plan = self._core.schedule(time.monotonic_ns())
            if plan.empty:
                return []
            self._plan = plan
            self.current_batch = [self._items[chunk.request.id] for chunk in plan.chunks]
            for item in self.current_batch:
                item.status = RequestStatus.EXECUTING
            return list(self.current_batch)

    def complete_batch(self, batch: Sequence[Request], results: Sequence[str | BaseException]) -> None:
        """Close the open batch with a result for each of its requests; an exception as a result marks it failed."""
        with self._lock:
            if self._plan is None or list(batch) != self.current_batch:
                raise BatchscopeError("this is not the open batch", "batch")
            if len(results) != len(batch):
                raise BatchscopeError(f"{len(batch)} requests need as many results, not {len(results)}", "results")
            errors = {row: "internal" for row, result in enumerate(results) if isinstance(result, BaseException)}
            output = StepOutput([0] * len(batch), 0, errors=errors)
            self._core.commit(self._plan, output, time.monotonic_ns())
            self._plan, self.current_batch = None, []
            for item, result in zip(batch, results, strict=True):
                self._close(item, result)

    def _close(self, item: Request, result: str | BaseException) -> None:
        if isinstance(result, BaseException):
            item.status, item.error = RequestStatus.FAILED, str(result) or type(result).__name__
        else:
            item.status, item.result = RequestStatus.COMPLETED, result
        del self._items[item.id], self._order.priorities[item.id]


DEMO: tuple[tuple[str, str, dict[str, Any], float], ...] = (
    ("req1", "Hello, how are you?", {"max_tokens": 50}, 1.0),
    ("req2", "What is artificial intelligence?", {"max_tokens": 100}, 2.0),
    ("req3", "Explain machine learning", {"max_tokens": 80}, 1.5),
    ("req4", "Tell me about deep learning", {"max_tokens": 90}, 1.8),
    ("req5", "What is natural language processing?", {"max_tokens": 120}, 2.2),
)


def main() -> None:
    """The tutorial's demo: five requests, two a batch, the higher priority first."""
    scheduler = SimpleScheduler(max_batch_size=2, max_tokens=100)
    for request_id, prompt, params, priority in DEMO:
        item = scheduler.add_request(request_id, prompt, params, priority)
        print(f"queued {item.id}: priority {item.priority}, {item.prompt_tokens} prompt tokens")
    batches: list[str] = []
    while batch := scheduler.build_batch():
        names = ", ".join(item.id for item in batch)
        tokens = sum(item.prompt_tokens for item in batch)
        print(f"batch {len(batches) + 1}: [{names}] priorities {[item.priority for item in batch]}, {tokens} prompt tokens")
        scheduler.complete_batch(batch, [f"result for {item.id}: {item.prompt[:20]}…" for item in batch])
        batches.append(f"[{names}]")
    print(f"served {len(DEMO)} requests in {len(batches)} batches: {' '.join(batches)}")


if __name__ == "__main__":
    main()
