"""Policy (ORDER): the protocol, what people see of a policy, and the base of orders by a key. Knows no budget and no step.

A policy says who is next and who yields; whether and how much is not its business. It owns its queue and the fields
`key` and `queue_data` of the requests in it, and changes nothing else.
Invariant: a request that was enqueued and not dequeued is in the queue, once; `head` is one of them whenever there is
one, and is the same until something changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from scheduler.core.blocks import Key as Key
from scheduler.core.blocks import Observer
from scheduler.core.blocks import Place as Place
from scheduler.core.blocks import content as content
from scheduler.core.policies.queues import SortedQueue
from scheduler.core.request import Request


class Departure(Enum):
    """Why a request leaves the queue."""

    ADMITTED = "admitted"  # it is the head, and runs
    GONE = "gone"  # it ended, from anywhere in the queue
    PARKED = "parked"  # it waits for a cause of its own, from anywhere; it is enqueued again, or ends, without another dequeue


class Policy(Protocol):
    """All that the mechanism asks. Ties are broken by `number`, the order in which requests were added."""

    preempts: bool
    """May a waiting request displace a running one?"""

    def enqueue(self, request: Request, now: int) -> None:
        """`request` waits: it is new, or back after a preemption (`request.preemptions` > 0).

        Or back after it was parked (`request.parked` still names the cause): then it had been next before it left, and
        keeps its key, or its place before those that were not.
        """

    def head(self, now: int) -> Request | None:
        """Who is next; None only when nobody waits."""

    def dequeue(self, request: Request, why: Departure) -> None:
        """`request` waits no longer."""

    def served(self, request: Request, prefill: int) -> None:
        """A prefill of so many tokens was planned for `request`."""

    def tick(self, decodes: Sequence[Request], changed: bool) -> None:
        """Once a step: each of `decodes` got one token. changed: they are not the same as last time."""

    def victim(self, running: Sequence[Request], needy: Request) -> Request | None:
        """Who of `running` yields to `needy`; None: nobody.

        A running `needy` is itself one of `running` and lacks a block; a waiting one lacks a place.
        """

    def adopt(self, waiting: Iterable[Request], running: Sequence[Request], now: int) -> None:
        """Take over from another policy: `waiting` in the order in which they were added, and who runs."""


class Prefixes(Protocol):
    """What an order may ask of the block pool: which prefixes can be hit, and to hear when that changes.

    A place says where a prefix ends; blocks.py says what it is made of. `observe` is called by whoever takes requests
    (`enqueue` or `adopt`), never by a constructor: a policy that was only tried on hears nothing.
    """

    size: int
    caching: bool

    def root(self, tenant: str) -> Place:
        """Where the prefixes of `tenant` begin."""

    def after(self, place: Place, tokens: bytes) -> Place | None:
        """Where the prefix ends that goes on from `place` with a block of `tokens`; None when no block holds them."""

    def observe(self, observer: Observer | None) -> None:
        """`observer` hears of each block that is cached or evicted from now on, instead of who heard before."""


@dataclass(frozen=True, slots=True)
class Param:
    """A number that a policy takes. A whole-number default means that only whole numbers are taken.

    A name that ends in `.*` stands for any number of them, `weight.ann` and `weight.bob` for `weight.*`; the default is
    then the value of those that are not named.
    """

    name: str
    default: float
    low: float
    high: float
    help: str

    @property
    def whole(self) -> bool:
        """Are only whole numbers taken?"""
        return isinstance(self.default, int)

    @property
    def family(self) -> str | None:
        """`weight.` of `weight.*`: what the names of all its members begin with."""
        return self.name[:-1] if self.name.endswith(".*") else None

    def takes(self, name: str) -> bool:
        """Is `name` this parameter, or one of its family?"""
        if self.family is None:
            return name == self.name
        return name.startswith(self.family) and name != self.family


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """A policy as people see it. make: from all of `params` by name, and the pool's prefixes for orders that look at them."""

    name: str
    help: str
    params: tuple[Param, ...]
    source: str
    guarantee: str
    make: Callable[[Mapping[str, float], Prefixes | None], Policy]


PREEMPT = Param("preempt", 0, 0, 1, "1: a waiting request may take the place of a running one that sorts behind it")
WEIGHTS = Param("weight.*", 1.0, 0.001, 1000.0, "share of the tenant named instead of *, relative to the other tenants' shares")


def tenant_weights(params: Mapping[str, float]) -> dict[str, float]:
    """Tenant → weight, of those named by `weight.<tenant>`; everybody else's is 1."""
    family = WEIGHTS.family
    assert family is not None, "the weights are a family"
    return {name.removeprefix(family): value for name, value in params.items() if name.startswith(family)}


class Books:
    """A policy that keeps no books: it need not know who was served how much."""

    preempts = False

    def served(self, request: Request, prefill: int) -> None:
        """Nothing to note."""

    def tick(self, decodes: Sequence[Request], changed: bool) -> None:
        """Nothing to note."""


class Keyed(Books, ABC):
    """Order by a key that is fixed while a request waits, the same one after a preemption; the largest key yields.

    A subclass says `key_of`. With `preempts`, `urgent` says whether a waiting request may displace a running one.
    """

    def __init__(self) -> None:
        self._queue = SortedQueue()

    @abstractmethod
    def key_of(self, request: Request, now: int) -> Any:
        """The sort key; smaller runs first."""

    def urgent(self, waiting: Request, running: Request) -> bool:
        """May `waiting` take the place of `running`? By default: whenever it sorts before it."""
        return bool((waiting.key, waiting.number) < (running.key, running.number))

    def enqueue(self, request: Request, now: int) -> None:
        """A new request gets its key; one that was preempted keeps it, and so its rank."""
        if request.key is None:
            request.key = self.key_of(request, now)
        self._queue.push(request)

    def head(self, now: int) -> Request | None:
        """The least key."""
        return self._queue.first()

    def dequeue(self, request: Request, why: Departure) -> None:
        """Out of its place."""
        self._queue.remove(request)

    def victim(self, running: Sequence[Request], needy: Request) -> Request | None:
        """The largest key among the running; for a waiting request, only if it may displace that one."""
        worst = max(running, key=lambda request: (request.key, request.number), default=None)
        if worst is None or needy.slot >= 0 or self.urgent(needy, worst):
            return worst
        return None

    def adopt(self, waiting: Iterable[Request], running: Sequence[Request], now: int) -> None:
        """Everybody gets a key of this policy's own."""
        for request in running:
            request.key = self.key_of(request, now)
        for request in waiting:
            request.key = self.key_of(request, now)
            self._queue.push(request)


Worst = Callable[[Sequence[Request]], tuple[float, Request | None]]


class Standoff:
    """Remembers that nobody yields to the head, so that the running are not looked at again while that cannot change.

    It can when another one is the head, when more or fewer run, when somebody joins or leaves the decodes, or when the
    steps have passed for which the policy says that it holds.
    """

    __slots__ = ("_head", "_running", "_steps")

    def __init__(self) -> None:
        self._head = self._running = -1
        self._steps = 0.0

    def holds(self, head: Request, running: Sequence[Request]) -> bool:
        """Was it found, and has nothing changed since?"""
        return head.number == self._head and len(running) == self._running and self._steps > 0

    def begin(self, head: Request, running: Sequence[Request], steps: float) -> None:
        """It was found, for this many steps."""
        self._head, self._running, self._steps = head.number, len(running), steps

    def yields(
        self, needy: Request, running: Sequence[Request], worst: Worst, reprieve: Callable[[Request, float], float]
    ) -> Request | None:
        """The worst of `running`, if it yields to `needy`: always to one that runs and lacks a block.

        worst: a measure of the worst, and who it is. reprieve(needy, measure): for how many steps it need not yield to one
        that waits; negative: it must now.
        """
        waits = needy.slot < 0
        if waits and self.holds(needy, running):
            return None
        measure, found = worst(running)
        if found is None or not waits:
            return found
        steps = reprieve(needy, measure)
        if steps < 0:
            return found
        self.begin(needy, running, steps)
        return None

    def step(self, changed: bool) -> None:
        """A step has passed. changed: somebody joined or left the decodes."""
        self._steps = 0.0 if changed else self._steps - 1
