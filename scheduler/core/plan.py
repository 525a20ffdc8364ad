"""StepPlan and StepOutput: what one step will do, and what it did. Values only; neither side holds the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.core.events import Event, value
from scheduler.core.holders import Blockers
from scheduler.core.request import Request, WaitReason


@value
class Chunk:
    """Prompt (or recomputed) tokens [start, start + tokens) of one request; `last`: its next token is sampled."""

    request: Request
    start: int
    tokens: int
    last: bool


@dataclass(slots=True)
class StepPlan:
    """One forward pass to be.

    decodes   requests whose newest token is computed and whose next one is sampled; one token each. The list is shared
              with the scheduler and never mutated: it is rebuilt when membership changes
    chunks    prefill slices in admission order
    context   tokens in the KV cache of the decodes, for a cost model
    events    what planning did: RequestScheduled, RequestPreempted, RequestParked, RequestFinished (time-outs), …
    head      bound by kv_blocks: number of the request that is next; needed: free blocks that it would
              take; kept: blocks that admission would leave to the running, free or not
    blockers  who holds what the binding constraint is about; None: as in the last step that said so
    The sampling rows of the step are `decodes` in order, then the chunks with `last`, in order.
    """

    step: int
    started_at: int
    decodes: Sequence[Request]
    decode_numbers: tuple[int, ...]
    chunks: list[Chunk] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    context: int = 0
    token_budget: int = 0
    binding: WaitReason = WaitReason.STEP
    waiting_by_reason: tuple[int, ...] = ()
    running: int = 0
    preempted: int = 0
    changed: bool = False
    head: int = 0
    needed: int = 0
    kept: int = 0
    blockers: Blockers | None = None

    @property
    def empty(self) -> bool:
        """True when there is nothing to run."""
        return not self.decodes and not self.chunks

    @property
    def prefill_tokens(self) -> int:
        """Tokens of all chunks."""
        return sum([chunk.tokens for chunk in self.chunks])

    @property
    def sampling(self) -> list[Request]:
        """The requests that get a token, in the order of StepOutput.tokens."""
        return [*self.decodes, *(chunk.request for chunk in self.chunks if chunk.last)]


@dataclass(slots=True)
class StepOutput:
    """What a step did. tokens: one id for each sampling row, in order; elapsed: ns.

    errors   row index → detail ("nan_logits", "oom", "internal"); that row's token is ignored
    stopped  row index → the stop string that its text has reached; the request ends as `stop`
    texts    row index aligned pieces of output text, filled by the engine's text stage ("" while held back)
    """

    tokens: list[int]
    elapsed: int
    errors: Mapping[int, str] = field(default_factory=dict)
    stopped: Mapping[int, str] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
