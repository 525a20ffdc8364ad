"""The spine's vocabulary: what happened, as frozen values. No behaviour beyond derived views.

Every event carries `(boot, seq, at)`: `boot` numbers the engine's lives, `seq` ascends by one within a boot, `at` is
integer monotonic ns. The log is sufficient: every figure that Batchscope shows can be rebuilt from it alone.
`number` is a request's short name within a boot: the `seq` of its RequestQueued.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar, dataclass_transform

from scheduler.core.holders import Blockers
from scheduler.core.request import FinishReason, WaitReason

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(kind: type[T]) -> type[T]:
    """A frozen dataclass with slots: frozen for the type checker, which sees every line of ours.

    At run time it is not: that would cost 85 ns a field (CPython 3.11), more than a step does in which nothing changes.
    """
    return dataclass(slots=True, unsafe_hash=True)(kind)


class SliceRow(NamedTuple):
    """The tokens of one request in one step. kind: "prefill" or "decode"; emitted: output tokens gained (0 or 1)."""

    request: int
    tokens: int
    kind: str
    emitted: int


class Parts(NamedTuple):
    """Where a request's time went, integer ns. sum(waits) + the other four = finished_at - received_at, exactly.

    waits      by WaitReason, until the first admission
    prefill    in steps that computed prompt (or recomputed) tokens of it
    decode     from its first caught-up token to its end, but for preemptions
    stalled    running but not in the step: its prefill was not given tokens
    preempted  between losing its blocks and running again
    """

    waits: tuple[int, ...]
    prefill: int
    decode: int
    stalled: int
    preempted: int

    @property
    def total(self) -> int:
        """E2E in ns."""
        return sum(self.waits) + self.prefill + self.decode + self.stalled + self.preempted


@value
class Event:
    """Base of all events; (boot, seq) is the key everywhere."""

    boot: int
    seq: int
    at: int


@value
class EngineStarted(Event):
    """An engine life began. `wall` and `mono` are one instant on both clocks, ns. `settings`: (name, value) pairs."""

    wall: int
    mono: int
    settings: tuple[tuple[str, object], ...]
    blocks_total: int
    block_size: int
    runner: str
    hardware: str | None
    model: str


@value
class RequestQueued(Event):
    """A request was accepted into the queue; `seq` is its number from here on."""

    id: str
    received_at: int
    prompt_tokens: int
    max_tokens: int
    tenant: str
    kind: str
    priority: int
    deadline_at: int | None
    run: str | None


@value
class RequestScheduled(Event):
    """A request was admitted and holds `slot`; `cached_tokens` of it were found in the prefix cache.

    overtaken: requests that arrived later and were admitted before its first admission.
    """

    number: int
    slot: int
    cached_tokens: int
    resumed: bool
    overtaken: int = 0


@value
class RequestParked(Event):
    """A request left the open queue for a cause of its own. blockers: who holds what it lacks, where that is known."""

    number: int
    cause: WaitReason
    blockers: Blockers | None = None


@value
class RequestUnparked(Event):
    """A parked request is back in the open queue."""

    number: int


@value
class RequestPreempted(Event):
    """Blocks were taken back. `urgency`: for a waiting request, not for want of memory."""

    number: int
    slot: int
    blocks_freed: int
    computed_tokens_lost: int
    urgency: bool


@value
class FirstToken(Event):
    """The first output token of a request exists."""

    number: int


@value
class RequestFinished(Event):
    """The one terminal event of a request. `number` is 0 when it was rejected before it was queued.

    overtaken: as in RequestScheduled; of one that never ran, until its end.
    """

    number: int
    id: str
    slot: int
    reason: FinishReason
    detail: str | None
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    preemptions: int
    parts: Parts
    overtaken: int = 0


@value
class StepCompleted(Event):
    """One forward pass: who was in it, what bound it, who waited meanwhile.

    binding            the constraint that ended admission, as a WaitReason; STEP when nobody was left waiting
    waiting_by_reason  requests waiting after the step's planning, by WaitReason
    running            requests holding a slot after planning; preempted: evicted by this step
    blocks_free        free KV blocks after the step
    decodes            numbers of the requests that got one token by decode; chunks: (number, tokens, emitted)
    failed             numbers of decodes that erred and emitted nothing
    blockers           who held what the binding constraint is about; None: in substance as in the last step that named
                       some, or nobody was left waiting
    """

    step: int
    started_at: int
    ended_at: int
    token_budget: int
    binding: WaitReason
    waiting_by_reason: tuple[int, ...]
    running: int
    preempted: int
    blocks_free: int
    decodes: tuple[int, ...]
    chunks: tuple[tuple[int, int, int], ...]
    failed: tuple[int, ...] = ()
    blockers: Blockers | None = None

    @property
    def slices(self) -> list[SliceRow]:
        """Every slice of the step: the step stands by itself."""
        failed = frozenset(self.failed)
        rows = [SliceRow(n, 1, "decode", 0 if n in failed else 1) for n in self.decodes]
        rows += [SliceRow(n, tokens, "prefill", emitted) for n, tokens, emitted in self.chunks]
        return rows

    @property
    def prefill_tokens(self) -> int:
        """Prompt (or recomputed) tokens in the step."""
        return sum(tokens for _, tokens, _ in self.chunks)


@value
class SettingsChanged(Event):
    """Settings changed between two steps; `changes`: (name, value) pairs; `version` after the change."""

    version: int
    changes: tuple[tuple[str, object], ...]


EVENT_TYPES: tuple[type[Event], ...] = (
    EngineStarted,
    RequestQueued,
    RequestScheduled,
    RequestParked,
    RequestUnparked,
    RequestPreempted,
    FirstToken,
    RequestFinished,
    StepCompleted,
    SettingsChanged,
)
