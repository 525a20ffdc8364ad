"""Priority classes that age."""

from __future__ import annotations

from scheduler.core.policies.base import Keyed, Param, PolicyInfo
from scheduler.core.request import Request

MS = 1_000_000


class PriorityAging(Keyed):
    """A class is a head start of `gap_ms`; waiting makes up for it.

    Formula: score = gap · priority - waiting time. All ages grow alike, so the order is that of the constant key
    gap · priority + received_at: nothing is ever re-sorted.
    Source: linear ageing (Kleinrock's time-dependent priorities), in its constant form.
    Guarantee: nobody is overtaken by a request that arrived more than gap_ms · (difference of their classes) later.
    A large gap nears static classes, a gap of 0 is first come, first served.
    """

    def __init__(self, gap_ms: float = 5000.0) -> None:
        super().__init__()
        self._gap = int(gap_ms * MS)

    def key_of(self, request: Request, now: int) -> int:
        """The time at which a request of class 0 would have had to arrive to be equal to this one, ns."""
        return self._gap * request.priority + request.received_at


INFO = PolicyInfo(
    name="priority_aging",
    help="classes as a head start that waiting makes up for",
    params=(Param("gap_ms", 5000.0, 0.0, 86_400_000.0, "head start of a class over the next one, ms"),),
    source="linear ageing (Kleinrock's time-dependent priorities) as a constant key",
    guarantee="Nobody is overtaken by a request that arrived more than gap_ms · (difference of their classes) later.",
    make=lambda params, pool: PriorityAging(params["gap_ms"]),
)
