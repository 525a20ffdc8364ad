"""PrefixWatch: how much of each waiting request can be hit, kept up to date by what the pool tells. Knows no order.

Who asked to be told (`moved`) decides what a longer or shorter prefix is worth. A block that is cached or evicted costs
one look-up; those whom it concerns are looked at later, at most WAKE_UPS a step, so that no step is long however many
share a prefix. Invariant: when no news is left, what is known of each request is what a match from its root would find.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import islice

from scheduler.core.policies.base import Key, Param, Place, Prefixes, content
from scheduler.core.request import Request

WAKE_UPS = 64
CHECKS = 8  # looks at heads, while there is news that was not looked at
NO_MORE = b""  # the next block of who can hit all that he may

MS = 1_000_000
HEAD_START = (
    Param("worth_ms", 50.0, 0.0, 86_400_000.0, "what a token that can be hit is worth, as ms of earlier arrival"),
    Param(
        "bound_ms", 60_000.0, 0.0, 86_400_000.0, "most that a prefix is worth: nobody is overtaken by one who came later still"
    ),
)

Spot = tuple[Place, int]
Way = tuple[Place, "array[int]", Place, int]  # from a place, over these tokens, to a place so many blocks from the root


class PrefixWatch:
    """`moved(request, tokens)` hears how many tokens of a waiting request can be hit, whenever that changes.

    A request's `queue_data` is its spot: the place where the longest prefix ends that can be hit, and of how many blocks.
    """

    def __init__(self, prefixes: Prefixes | None, moved: Callable[[Request, int], None]) -> None:
        self._prefixes = prefixes if prefixes is not None and prefixes.caching else None
        self._moved = moved
        self._observing = False
        self._at: dict[Place, dict[bytes, dict[int, Request]]] = {}  # place → next block → who is there and needs it, by number
        self._news: dict[tuple[Place, bytes | None], None] = {}  # (place, its next block that is cached), (place evicted, None)
        self._settled = False
        self._ways: list[Way] = []  # the last way that somebody was followed on, while nothing can change

    def add(self, request: Request) -> int:
        """`request` waits; how many tokens of it can be hit."""
        prefixes = self._prefixes
        if prefixes is None:
            return 0
        if not self._observing:
            self._observing = True
            prefixes.observe(self)
        spot = self._walk(prefixes, request, prefixes.root(request.tenant), 0)
        self._put(prefixes, request, spot)
        return spot[1] * prefixes.size

    def remove(self, request: Request) -> None:
        """`request` waits no longer."""
        if self._prefixes is not None:
            self._take(self._prefixes, request)

    def step(self) -> None:
        """A step has passed."""
        self._settled = False

    def settle(self) -> None:
        """Look at those whom the news concerns: a bounded number, once a step."""
        prefixes = self._prefixes
        if not self._news or prefixes is None or self._settled:
            return
        self._settled = True
        for request, from_root in islice(self._concerned(prefixes), WAKE_UPS):
            place, blocks = self._spot(request)
            if from_root:
                place, blocks = prefixes.root(request.tenant), 0
            self._follow(prefixes, request, place, blocks, self._ways)
        self._ways.clear()

    def still(self, request: Request) -> bool:
        """Is what is known of `request` still so? If not, `moved` has heard."""
        prefixes = self._prefixes
        return not self._news or prefixes is None or not self._follow(prefixes, request, prefixes.root(request.tenant), 0)

    # ---- told by the pool

    def block_cached(self, key: Key, place: Place) -> None:
        """Those who need just this block can hit more."""
        there = self._at.get(key[0])
        if there is not None and key[1] in there:
            self._news[key] = None

    def block_evicted(self, key: Key, place: Place) -> None:
        """Those whose prefix ends with it can hit less; those who could hit more were told before, since tails go first."""
        if place in self._at:
            self._news[(place, None)] = None

    # ---- inside

    def _concerned(self, prefixes: Prefixes) -> Iterator[tuple[Request, bool]]:
        """Whom the news concerns, oldest first, and whether to begin at the root. Each is expected to move before the next."""
        while self._news:
            news = next(iter(self._news))
            place, block = news
            there = self._at.get(place, {})
            if block is None:
                group = next(iter(there.values()), None)
            else:
                group = there.get(block) if prefixes.after(place, block) is not None else None
            if group:
                yield next(iter(group.values())), block is None
            else:
                del self._news[news]

    def _follow(self, prefixes: Prefixes, request: Request, place: Place, blocks: int, ways: list[Way] | None = None) -> bool:
        """Go on from a place; can more or less be hit than was known?"""
        known, spot = self._spot(request), self._walk(prefixes, request, place, blocks, ways)
        if spot == known:
            return False
        self._take(prefixes, request)
        self._put(prefixes, request, spot)
        if spot[1] == known[1]:
            return False  # the same blocks, computed anew meanwhile
        self._moved(request, spot[1] * prefixes.size)
        return True

    def _walk(self, prefixes: Prefixes, request: Request, place: Place, blocks: int, ways: list[Way] | None = None) -> Spot:
        """As far as blocks can be hit; `ways` saves those who share a prefix most of the steps."""
        tokens, size, most, first, begin = request.tokens, prefixes.size, _most(prefixes, request), place, blocks
        for start, over, end, so_far in ways or ():
            if start == place and blocks < so_far <= most and tokens[blocks * size : so_far * size] == over:
                place, blocks = end, so_far
        while blocks < most:
            after = prefixes.after(place, content(tokens, size, blocks))
            if after is None:
                break
            place, blocks = after, blocks + 1
        if ways is not None and blocks > begin:
            ways[:] = [(first, tokens[begin * size : blocks * size], place, blocks)]
        return place, blocks

    def _put(self, prefixes: Prefixes, request: Request, spot: Spot) -> None:
        request.queue_data = spot
        there = self._at.setdefault(spot[0], {})
        there.setdefault(_next_block(prefixes, request, spot[1]), {})[request.number] = request

    def _take(self, prefixes: Prefixes, request: Request) -> None:
        place, blocks = self._spot(request)
        there, block = self._at[place], _next_block(prefixes, request, blocks)
        del there[block][request.number]
        if not there[block]:
            del there[block]
            if not there:
                del self._at[place]

    def _spot(self, request: Request) -> Spot:
        spot = request.queue_data
        assert isinstance(spot, tuple), f"{request} has no spot"
        return spot


def head_start(worth_ms: float, bound_ms: float) -> tuple[int, int]:
    """Both of HEAD_START in ns."""
    return int(worth_ms * MS), int(bound_ms * MS)


def _most(prefixes: Prefixes, request: Request) -> int:
    """Blocks that may be hit: the last token is always computed, as in Lifecycle.hits."""
    return (len(request.tokens) - 1) // prefixes.size


def _next_block(prefixes: Prefixes, request: Request, blocks: int) -> bytes:
    return content(request.tokens, prefixes.size, blocks) if blocks < _most(prefixes, request) else NO_MORE
