"""Static priority classes."""

from __future__ import annotations

from scheduler.core.policies.base import PREEMPT, Keyed, PolicyInfo
from scheduler.core.request import Request


class Priority(Keyed):
    """Strict classes: the lowest priority number first, by arrival within a class.

    Formula: key = (priority, received_at). With `preempt`, a waiting request takes the place of a running one of a
    worse class; the worst class, newest first, yields.
    Source: Cobham's priority queue; vLLM's `priority` (lower runs first), which never preempts for urgency.
    Guarantee: nobody is admitted while a better class waits, so a class never waits for a worse one (but for the
    requests that already run, without `preempt`). No bound for the lower classes: a steady better class starves them.
    Once admitted, everybody gets one token a step: priority does not speed up a running request.
    """

    def __init__(self, preempt: int = 0) -> None:
        super().__init__()
        self.preempts = bool(preempt)

    def key_of(self, request: Request, now: int) -> tuple[int, int]:
        """Class, then arrival."""
        return (request.priority, request.received_at)

    def urgent(self, waiting: Request, running: Request) -> bool:
        """Only a better class displaces; within a class nobody does."""
        return waiting.priority < running.priority


INFO = PolicyInfo(
    name="priority",
    help="strict classes, the lowest priority number first",
    params=(PREEMPT,),
    source="Cobham's priority queue; vLLM's priority",
    guarantee="Nobody is admitted while a better class waits. No bound for the lower classes: they can starve.",
    make=lambda params, pool: Priority(int(params["preempt"])),
)
