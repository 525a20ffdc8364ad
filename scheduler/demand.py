"""Demand: who asks a simulation for what, and when. Asks in, requests out. Knows no file, no scheduler and no hardware.

Two sources: `Trace` (simulate.py) for those who come on a clock, `Users` for those who wait for their answers;
`Together` joins several. Token ids mean nothing here but whether two prompts share a prefix, so a stretch of a prompt
is one id, over and over: a number of its own, or that of whatever is shared. (A block is found by all that comes before
it, too, so equal ids within a stretch make no false hit.)
Invariant: no two prompts share a token but in a prefix that both of their asks name.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Protocol

from scheduler.core.events import RequestFinished
from scheduler.core.request import FinishReason, Request, SamplingParams

MS = 1_000_000
SECOND = 1_000_000_000
AFTER_REFUSAL_NS = SECOND // 4  # who was turned away does not ask again in the same instant
SHARED = 0x8000_0000  # ids at or above it are those of shared stretches


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to be. `at`: ns since the start; nothing for users, who ask when they are free.

    shared: (identity, tokens) of the stretches that its prompt begins with, the same as in whichever ask names them.
    """

    at: int
    prompt_tokens: int
    output_tokens: int
    tenant: str = "default"
    kind: str = "interactive"
    priority: int = 0
    deadline_ms: float | None = None
    timeout_ms: float | None = None
    expected_output_tokens: int | None = None
    shared: tuple[tuple[int, int], ...] = ()


class Source(Protocol):
    """Where requests come from: a trace, or users who wait for their answers."""

    def next_at(self) -> int | None:
        """When the next request arrives, ns; None while nobody will come by himself (or at all)."""

    def take(self) -> Request:
        """The request that is due; its `received_at` is the instant named by `next_at`."""

    def finished(self, event: RequestFinished) -> None:
        """One of its requests ended: a user may ask again."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An ask with its instant and its request's id. due: it came on a clock, not when a user was free."""

    id: str
    at: int
    ask: Ask
    due: bool


class Requests:
    """Makes requests of asks. `run`: their ids begin with it; `timeout_ms`: of an ask that names none; `told` hears of each.

    A request is made just before its turn: the last one told of may never arrive.
    """

    def __init__(self, run: str, timeout_ms: float | None = None, told: Callable[[Asked], object] = lambda asked: None) -> None:
        self._run = run
        self._timeout_ms = timeout_ms
        self._told = told
        self._serial = count()

    def of(self, ask: Ask, at: int, *, due: bool = False) -> Request:
        """The ask, received at `at`."""
        n = next(self._serial)
        timeout_ms = self._timeout_ms if ask.timeout_ms is None else ask.timeout_ms
        asked = Asked(f"{self._run}-{n}", at, ask, due)
        self._told(asked)
        return Request(
            asked.id,
            prompt_ids(n, ask.prompt_tokens, ask.shared),
            SamplingParams(max_tokens=ask.output_tokens, ignore_eos=True),
            received_at=at,
            tenant=ask.tenant,
            kind=ask.kind,
            priority=ask.priority,
            deadline_at=_after(at, ask.deadline_ms),
            timeout_at=_after(at, timeout_ms),
            expected_output_tokens=ask.expected_output_tokens,
            run=self._run,
        )

    def all_of(self, asks: Iterable[Ask]) -> Iterator[Request]:
        """Each ask at its own instant: what a Trace wants."""
        return (self.of(ask, ask.at, due=True) for ask in asks)


def prompt_ids(serial: int, tokens: int, shared: Sequence[tuple[int, int]] = ()) -> array[int]:
    """Token ids of the prompt of request `serial`: the shared stretches, as far as it goes, then its own id."""
    ids = array("I")
    for identity, length in shared:
        ids += array("I", [SHARED + identity % SHARED]) * min(length, tokens - len(ids))
    return ids + array("I", [serial % SHARED]) * (tokens - len(ids))


class Users:
    """A closed loop: `users` people, each asking the next of `asks` when the answer is there and `think_s` have passed.

    They come one after the other, `spawn_rate` a second, and ask nothing more at or after `stop` (ns).
    """

    def __init__(
        self, asks: Iterator[Ask], requests: Requests, users: int, *, spawn_rate: float, think_s: float, start: int, stop: int
    ) -> None:
        self._asks = asks
        self._requests = requests
        self._think = round(think_s * SECOND)
        self._stop = stop
        self._free = [start + round(user / spawn_rate * SECOND) for user in range(users)]
        heapify(self._free)
        self._asking: set[str] = set()

    def next_at(self) -> int | None:
        """When the next of them asks."""
        return self._free[0] if self._free and self._free[0] < self._stop else None

    def take(self) -> Request:
        """What he asks."""
        request = self._requests.of(next(self._asks), heappop(self._free))
        self._asking.add(request.id)
        return request

    def finished(self, event: RequestFinished) -> None:
        """He has his answer, or was turned away."""
        if event.id in self._asking:
            self._asking.remove(event.id)
            rest = AFTER_REFUSAL_NS if event.reason is FinishReason.REJECTED else 0
            heappush(self._free, event.at + max(self._think, rest))


class Together:
    """Several sources as one. Who comes at the same instant, comes in the order of the sources."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources

    def next_at(self) -> int | None:
        """The earliest of all."""
        return min((at for source in self._sources if (at := source.next_at()) is not None), default=None)

    def take(self) -> Request:
        """His request."""
        at = self.next_at()
        return next(source for source in self._sources if source.next_at() == at).take()

    def finished(self, event: RequestFinished) -> None:
        """Each knows its own."""
        for source in self._sources:
            source.finished(event)


def _after(at: int, ms: float | None) -> int | None:
    return None if ms is None else at + round(ms * MS)
