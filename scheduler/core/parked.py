"""Parked: who waits outside the policy's queue, each for a cause of its own. Knows no policy and no time; decides nothing.

Invariant: a request is here exactly while its `parked` names a cause.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.core.request import NO_WAITS, Request, WaitReason
from scheduler.core.waits import alone, together


class Parked:
    """The parked ones. `by`: how many, by WaitReason; `tokens`: prompt tokens of them."""

    __slots__ = ("by", "tokens", "_requests")

    def __init__(self) -> None:
        self.by: tuple[int, ...] = NO_WAITS
        self.tokens = 0
        self._requests: dict[int, Request] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        """In the order in which they were parked."""
        return iter(self._requests.values())

    def add(self, r: Request, cause: WaitReason) -> None:
        """`r` is parked for `cause`."""
        assert r.parked is None, f"{r} is parked already"
        r.parked = cause
        self._requests[r.number] = r
        self.by = together(self.by, alone(cause, 1))
        self.tokens += r.prompt_tokens

    def remove(self, r: Request) -> WaitReason:
        """`r` is parked no longer; returns for what it was."""
        cause, r.parked = r.parked, None
        assert cause is not None, f"{r} is not parked"
        del self._requests[r.number]
        self.by = together(self.by, alone(cause, -1))
        self.tokens -= r.prompt_tokens
        return cause
