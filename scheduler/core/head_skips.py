"""HeadSkips: who stands aside because it does not fit into the KV memory, so that others may pass. Parks nobody itself.

A head that lacks blocks may be passed by those behind it that fit, at most `most` times in all; then it is the head again
and everybody behind it waits, so that it is not starved in turn. It is looked at again only once so many blocks are free
that it fits if what it shares is still there, or when the engine is idle: nothing is rescanned.
At most ASIDE requests stand aside at once; the next head that does not fit binds. Invariant: a request is here once, and
only while it is parked for KV blocks; who ended meanwhile is dropped when it is met.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.request import Request, WaitReason

ASIDE = 8


class HeadSkips:
    """Who stands aside. `most`: how often one request may be passed; 0: nobody stands aside."""

    __slots__ = ("most", "aside")

    def __init__(self) -> None:
        self.most = 0
        self.aside: list[tuple[int, Request]] = []  # (free blocks at which it is looked at again, who)

    def __bool__(self) -> bool:
        return bool(self.aside)

    def limit(self, most: int) -> None:
        """Another bound; all are looked at again, since more may have changed than that."""
        self.most = most
        self.aside = [(0, request) for _, request in self.aside]

    def may_pass(self, head: Request) -> bool:
        """May others pass `head`?"""
        if len(self.aside) >= ASIDE:
            self.aside = [(enough, request) for enough, request in self.aside if _parked(request)]
        return head.passed < self.most and len(self.aside) < ASIDE

    def put(self, head: Request, free: int) -> None:
        """`head` stands aside until `free` blocks are free."""
        self.aside = [(enough, request) for enough, request in self.aside if request is not head]
        self.aside.append((free, head))

    def ready(self, free: int, idle: bool) -> list[Request]:
        """Who is to be looked at again, and stands aside no longer."""
        if not idle and all([free < enough for enough, _ in self.aside]):
            return []
        due = [request for enough, request in self.aside if (idle or free >= enough) and _parked(request)]
        self.aside = [(enough, request) for enough, request in self.aside if not idle and free < enough and _parked(request)]
        return due

    def passed(self) -> list[Request]:
        """Somebody was admitted; returns those that were passed for the last time, and stand aside no longer."""
        for _, request in self.aside:
            request.passed += 1
        done = [request for _, request in self.aside if request.passed >= self.most and _parked(request)]
        self.aside = [(enough, request) for enough, request in self.aside if request.passed < self.most and _parked(request)]
        return done

    def check(self, waiting: Iterable[Request]) -> None:
        """Assert the invariant; `waiting` are all who wait."""
        here = [request.number for _, request in self.aside if _parked(request)]
        assert sorted(here) == sorted(request.number for request in waiting if _parked(request)), "somebody is parked for ever"
        assert len(self.aside) <= ASIDE, "too many stand aside"


def _parked(request: Request) -> bool:
    return request.parked is WaitReason.KV_BLOCKS
