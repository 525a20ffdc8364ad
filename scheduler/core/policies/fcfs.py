"""First come, first served."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.core.policies.base import Books, Departure, PolicyInfo
from scheduler.core.policies.queues import Fifo
from scheduler.core.request import Request


class Fcfs(Books):
    """First come, first served, decided anew in every step.

    Formula: key = order of arrival in the scheduler. A preempted request goes back to the front; the newest yields.
    Source: Orca (Yu et al., OSDI'22), iteration-level scheduling; vLLM's `fcfs`.
    Guarantee: requests are first admitted in the order in which they came, so nobody starves. The price is
    head-of-line blocking: whoever does not fit holds back all behind, also those that would fit.
    """

    def __init__(self) -> None:
        self._queue = Fifo()

    def enqueue(self, request: Request, now: int) -> None:
        """To the end; back to the front after a preemption, and in its place after it was parked."""
        if request.preemptions and request.parked is None:
            self._queue.push_front(request)
        else:
            self._queue.push(request)

    def head(self, now: int) -> Request | None:
        """The oldest."""
        return self._queue.first()

    def dequeue(self, request: Request, why: Departure) -> None:
        """Out, from wherever it is."""
        self._queue.remove(request)

    def victim(self, running: Sequence[Request], needy: Request) -> Request | None:
        """The newest of the running; nobody for a waiting request."""
        if needy.slot < 0:
            return None
        return max(running, key=lambda request: request.number, default=None)

    def adopt(self, waiting: Iterable[Request], running: Sequence[Request], now: int) -> None:
        """In the order in which they were added."""
        for request in waiting:
            self._queue.push(request)


INFO = PolicyInfo(
    name="fcfs",
    help="first come, first served",
    params=(),
    source="Orca (Yu et al., OSDI'22); vLLM's fcfs",
    guarantee="Requests are first admitted in the order in which they came; nobody starves. Whoever does not fit holds "
    "back all behind.",
    make=lambda params, pool: Fcfs(),
)
