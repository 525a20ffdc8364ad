"""Last come, first served: a teaching example."""

from __future__ import annotations

from scheduler.core.policies.base import Keyed, PolicyInfo
from scheduler.core.request import Request


class Lifo(Keyed):
    """The newest first. It is here to be compared with, not to be used: it starves whoever is not served at once.

    Formula: key = -received_at. The oldest of the running yields.
    Source: the textbook stack.
    Guarantee: none; while requests come faster than they are served, those that once waited wait for ever. What it
    shows: past capacity, whoever is served is served at once, and so meets an SLO that under fcfs everybody misses.
    """

    def key_of(self, request: Request, now: int) -> int:
        """The later it came, the sooner it runs."""
        return -request.received_at


INFO = PolicyInfo(
    name="lifo",
    help="last come, first served: a teaching example, it starves",
    params=(),
    source="the textbook stack",
    guarantee="None: past capacity those that once waited wait for ever. To compare with, not to use.",
    make=lambda params, pool: Lifo(),
)
