"""Request: one sequence and its life. Knows no policy, no queue and no block pool.

Invariant: `state` only moves along LAWFUL; `tokens` is the prompt followed by the output.
Terms: a client's POST may hold several sequences (`n`, lists of prompts); the core schedules each one as a Request
whose id is `<post id>/<index>`, or the bare post id when there is just one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class RequestState(StrEnum):
    """Where a request is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


LAWFUL: dict[RequestState, tuple[RequestState, ...]] = {
    RequestState.WAITING: (RequestState.RUNNING, RequestState.FINISHED),
    RequestState.RUNNING: (RequestState.PREEMPTED, RequestState.FINISHED),
    RequestState.PREEMPTED: (RequestState.RUNNING, RequestState.FINISHED),
    RequestState.FINISHED: (),
}


class FinishReason(StrEnum):
    """Why a request ended; exactly one for each request that was ever added."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    TIMEOUT = "timeout"
    REJECTED = "rejected"
    ERROR = "error"


class WaitReason(IntEnum):
    """What a waiting request waits for; the value is its index in every tuple of wait clocks.

    STEP        it arrived while a step ran (or while its message travelled); nothing held it back
    SLOTS       all `max_num_seqs` places among the running are taken
    TOKEN_BUDGET the step's tokens were spent on others
    KV_BLOCKS   its blocks do not fit into the free KV memory
    PREFILL_CAP what an ITL target leaves to the prefills of one step was spent
    QUOTA       its tenant's quota is used up
    STATIC_BATCH static batching: a batch is open, nobody joins
    ENGINE_DOWN the engine died and the request was submitted again
    PAUSED      an operator holds the engine
    """

    STEP = 0
    SLOTS = 1
    TOKEN_BUDGET = 2
    KV_BLOCKS = 3
    PREFILL_CAP = 4
    QUOTA = 5
    STATIC_BATCH = 6
    ENGINE_DOWN = 7
    PAUSED = 8


NO_WAITS: tuple[int, ...] = (0,) * len(WaitReason)


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How output tokens are chosen and when they end.

    temperature     0 is greedy; otherwise > 0
    top_p           (0, 1]; mass of the nucleus
    top_k           0 is off; otherwise only the k most likely tokens
    seed            64-bit; None lets the engine derive one from the request id
    max_tokens      most output tokens, >= 1
    min_tokens      no stop is taken before this many output tokens
    stop            strings that end the output; they are not part of it
    stop_token_ids  token ids that end the output (the end-of-text ids are added by the engine unless ignore_eos)
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    max_tokens: int = 16
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False


class Request:
    """One sequence: its tokens, its blocks, its place in time. Only Scheduler writes to it.

    Arguments: `prompt` token ids (stored as 4-byte unsigned integers); `received_at` integer ns, the instant the
    request arrived at the front door, which every metric counts from; `deadline_at` a wish (deadline policies),
    `timeout_at` hard, both integer ns or None; `priority` lower runs first; `expected_output_tokens` a hint.
    """

    __slots__ = (
        "id",
        "number",
        "received_at",
        "tokens",
        "prompt_tokens",
        "params",
        "tenant",
        "kind",
        "priority",
        "deadline_at",
        "timeout_at",
        "expected_output_tokens",
        "run",
        "resubmitted",
        "state",
        "computed",
        "cached_tokens",
        "blocks",
        "place",
        "slot",
        "preemptions",
        "key",
        "queue_data",
        "phase",
        "ends_at",
        "parked",
        "passed",
        "arrival",
        "overtaken",
        "wait_mark",
        "waits",
        "since",
        "prefill_ns",
        "decode_ns",
        "stalled_ns",
        "preempted_ns",
        "first_token_at",
        "progressed",
    )

    def __init__(
        self,
        id: str,
        prompt: Iterable[int],
        params: SamplingParams | None = None,
        *,
        received_at: int = 0,
        tenant: str = "default",
        kind: str = "interactive",
        priority: int = 0,
        deadline_at: int | None = None,
        timeout_at: int | None = None,
        expected_output_tokens: int | None = None,
        run: str | None = None,
        resubmitted: bool = False,
    ) -> None:
        self.id = id
        self.number = 0  # the seq of its RequestQueued: short, unique in a boot, ascending by submission
        self.received_at = received_at
        self.tokens = array("I", prompt)
        self.prompt_tokens = len(self.tokens)
        self.params = params or SamplingParams()
        self.tenant = tenant
        self.kind = kind
        self.priority = priority
        self.deadline_at = deadline_at
        self.timeout_at = timeout_at
        self.expected_output_tokens = expected_output_tokens
        self.run = run
        self.resubmitted = resubmitted

        self.state = RequestState.WAITING
        self.computed = 0  # tokens whose keys and values are in the cache; not written while it decodes: len(tokens) - 1 then
        self.cached_tokens = 0  # tokens that a prefix hit gave at the first admission: what the sender saved
        self.blocks: list[int] = []
        self.place: int | str = ""  # block pool: where the prefix ends that its published blocks hold
        self.slot = -1
        self.preemptions = 0
        self.key: object = None  # the policy's sort key
        self.queue_data: object = None  # the policy's own, whatever it needs
        self.phase = 0  # decode group: turn modulo block size at which it needs a block
        self.ends_at = 0  # decode group: turn in which it ends by length
        self.parked: WaitReason | None = None  # the cause, while it waits outside the policy's queue
        self.passed = 0  # how often others were admitted while it stood aside for want of KV blocks
        self.arrival = 0  # its place in the order of arrival
        self.overtaken = 0  # requests that arrived later and were admitted before its first admission, or its end
        self.wait_mark: tuple[int, ...] = NO_WAITS  # the wait clocks when this wait began
        self.waits: tuple[int, ...] = NO_WAITS  # ns by WaitReason before the first admission
        self.since = received_at  # start of the phase it is in
        self.prefill_ns = 0
        self.decode_ns = 0
        self.stalled_ns = 0
        self.preempted_ns = 0
        self.first_token_at: int | None = None
        self.progressed = False  # a token since the last admission (nobody is preempted twice without one)

    @property
    def output_tokens(self) -> int:
        """Tokens generated so far."""
        return len(self.tokens) - self.prompt_tokens

    @property
    def output_estimate(self) -> int:
        """Output tokens that it is expected to take in all: the hint, never more than max_tokens."""
        return min(self.expected_output_tokens or self.params.max_tokens, self.params.max_tokens)

    @property
    def missing(self) -> int:
        """Tokens not yet computed."""
        return len(self.tokens) - self.computed

    def __repr__(self) -> str:
        return f"Request({self.id!r}, {self.state.value}, {self.computed}/{len(self.tokens)} computed)"
