"""Earliest deadline first."""

from __future__ import annotations

from scheduler.core.policies.base import PREEMPT, Keyed, Param, PolicyInfo
from scheduler.core.request import Request

MS = 1_000_000


class Edf(Keyed):
    """The earliest deadline first; who names none is due `default_ms` after arrival.

    Formula: key = deadline_at, or received_at + default_ms. With `preempt`, a waiting request takes the place of the
    running one that is due last, if that is later than its own deadline.
    Source: Liu & Layland, 1973; Jackson's rule for requests that are all there.
    Guarantee: for requests that are all there, served one at a time, the largest lateness is the least possible: if any
    order meets all deadlines, this one does. Past capacity it is no better than first come, first served (the domino),
    unless hopeless work is turned away.
    """

    def __init__(self, default_ms: float = 60_000.0, preempt: int = 0) -> None:
        super().__init__()
        self.preempts = bool(preempt)
        self._default = int(default_ms * MS)

    def key_of(self, request: Request, now: int) -> int:
        """When it is due, ns."""
        return self._due(request)

    def urgent(self, waiting: Request, running: Request) -> bool:
        """Only an earlier deadline displaces; an equal one does not."""
        return self._due(waiting) < self._due(running)

    def _due(self, request: Request) -> int:
        return request.received_at + self._default if request.deadline_at is None else request.deadline_at


INFO = PolicyInfo(
    name="edf",
    help="earliest deadline first",
    params=(
        Param("default_ms", 60_000.0, 1.0, 86_400_000.0, "deadline of a request that names none, ms after arrival"),
        PREEMPT,
    ),
    source="Liu & Layland, 1973; Jackson's rule",
    guarantee="For requests that are all there, served one at a time, the largest lateness is the least possible. Past "
    "capacity it is no better than fcfs.",
    make=lambda params, pool: Edf(params["default_ms"], int(params["preempt"])),
)
