"""QuotaGate: who passes from the policy's queue to admission, as far as the tenants' quotas go. Keeps no books.

Who is next by policy and has no room in its tenant's quota, or ranks behind somebody of its tenant who has none, is
parked: it leaves the policy's queue and waits for QUOTA alone, by the policy's rank among those of its tenant. Newcomers
to whom that applies are parked as they come, so that nobody is looked at twice. When one of the tenant ends, as many come
back as there is room for, in time for the next step.
Invariant: a step parks and brings back a bounded number.
"""

from __future__ import annotations

from scheduler.core.events import Event, RequestParked
from scheduler.core.lifecycle import Lifecycle
from scheduler.core.request import Request, WaitReason

MOVED_PER_STEP = 256


class QuotaGate:
    """The gate of one engine life."""

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self._left = MOVED_PER_STEP

    def arrived(self, r: Request, now: int) -> list[Event]:
        """A newcomer is parked at once where it would be parked as the next one."""
        return [] if self._life.quotas.admits(r) else [self._park(r, now)]

    def open(self, now: int, events: list[Event]) -> None:
        """A step begins: those come back for whom there is room now; `events` is told."""
        self._left = MOVED_PER_STEP
        if self._life.quotas.due:
            self._bring_back(now, events)

    def head(self, now: int, events: list[Event]) -> Request | None:
        """Who is next and may run, after others were parked, which `events` is told; None: nobody, or not in this step.

        Who is parked gives its claim up, so somebody of its tenant that ranks before it may have room at once.
        """
        life = self._life
        head = life.policy.head(now)
        while head is not None and not life.quotas.admits(head):
            if not self._left:
                return None
            events.append(self._park(head, now))
            self._left -= 1
            self._bring_back(now, events)
            head = life.policy.head(now)
        return head

    def _bring_back(self, now: int, events: list[Event]) -> None:
        life = self._life
        while life.quotas.due and self._left and (r := life.quotas.next_back()) is not None:
            events.append(life.unpark(r, now))
            self._left -= 1

    def _park(self, r: Request, now: int) -> RequestParked:
        return self._life.park(r, WaitReason.QUOTA, now, self._life.quotas.blockers(r))
