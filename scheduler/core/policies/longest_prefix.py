"""Longest cached prefix first, with a bound on how long that may go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduler.core.policies.base import Books, Departure, Policy, PolicyInfo, Prefixes
from scheduler.core.policies.prefixes import CHECKS, HEAD_START, PrefixWatch, head_start
from scheduler.core.policies.queues import SortedQueue
from scheduler.core.request import Request


class LongestPrefix(Books):
    """Who can hit the longest prefix is next, but for those who came long before.

    Formula: key = received_at - min(worth_ms · tokens that can be hit, bound_ms), least first. The block pool tells which
    prefixes can be hit as that changes; at most 64 waiting requests are moved a step, and the head is looked at again
    before it is named, so a step costs the same however many wait. For memory, the newest yields.
    Source: SGLang's lpm (Zheng et al., NeurIPS'24); ageing as a head start, so that a cold prefix is not starved.
    Guarantee: nobody is overtaken by a request that arrived more than bound_ms later. Of requests that arrived together,
    the one that can hit most is next (up to bound_ms / worth_ms tokens).
    """

    def __init__(self, prefixes: Prefixes | None, worth_ms: float = 50.0, bound_ms: float = 60_000.0) -> None:
        self._worth, self._bound = head_start(worth_ms, bound_ms)
        self._watch = PrefixWatch(prefixes, self._move)
        self._queue = SortedQueue()

    def _key(self, request: Request, tokens: int) -> int:
        return request.received_at - min(self._worth * tokens, self._bound)

    def _move(self, request: Request, tokens: int) -> None:
        self._queue.remove(request)
        request.key = self._key(request, tokens)
        self._queue.push(request)

    def enqueue(self, request: Request, now: int) -> None:
        """In its place by what it can hit now."""
        request.key = self._key(request, self._watch.add(request))
        self._queue.push(request)

    def head(self, now: int) -> Request | None:
        """The least key; should it have lost its prefix unheard, the next one, a few times."""
        self._watch.settle()
        first = self._queue.first()
        for _ in range(CHECKS):
            if first is None or self._watch.still(first):
                break
            first = self._queue.first()
        return first

    def dequeue(self, request: Request, why: Departure) -> None:
        """Out of its place."""
        self._queue.remove(request)
        self._watch.remove(request)

    def tick(self, decodes: Sequence[Request], changed: bool) -> None:
        """What the pool told meanwhile is looked at before the next head is named."""
        self._watch.step()

    def victim(self, running: Sequence[Request], needy: Request) -> Request | None:
        """The newest of the running; nobody for a waiting request."""
        if needy.slot < 0:
            return None
        return max(running, key=lambda request: request.number, default=None)

    def adopt(self, waiting: Iterable[Request], running: Sequence[Request], now: int) -> None:
        """Each in its place by what it can hit now."""
        for request in waiting:
            self.enqueue(request, now)


def make(params: Mapping[str, float], prefixes: Prefixes | None) -> Policy:
    """With a pool, or without one: then nobody can hit anything, and the order is that of arrival."""
    return LongestPrefix(prefixes, params["worth_ms"], params["bound_ms"])


INFO = PolicyInfo(
    name="longest_prefix",
    help="longest cached prefix first, with a bound on overtaking",
    params=HEAD_START,
    source="SGLang's lpm (Zheng et al., NeurIPS'24), with ageing as a head start",
    guarantee="Nobody is overtaken by a request that arrived more than bound_ms later; of those that arrived together, the "
    "one that can hit most is next.",
    make=make,
)
