"""Victims: who must yield so that somebody else fits. Chooses before anything changes, and changes nothing.

The policy says who of those that may yield; this says who may, and how many it takes.
Invariant: nobody is named who would be preempted twice without a token in between, or in the step that admitted him.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.allocation import Allocation
from scheduler.core.lifecycle import Lifecycle
from scheduler.core.request import Request

URGENT_PER_STEP = 4


def may_yield(life: Lifecycle) -> list[Request]:
    """Everybody who runs, but for those who have just come, or have just come back: they prefill, who decodes has a token."""
    begun = [r for r in life.prefilling.values() if (r.progressed or not r.preemptions) and r.number not in life.in_step]
    return [*life.group.everyone(), *begun]


def for_waiting(
    life: Lifecycle,
    allocation: Allocation,
    candidates: Sequence[Request],
    head: Request,
    hits: list[int],
    wanted: int,
    spare: int,
) -> list[Request]:
    """Who of `candidates` must yield for `head` to fit, beside `spare` blocks; nobody if it fits, or cannot be made to fit."""
    victims = list[Request]()
    while life.running - len(victims) >= life.slots.limit or not _fits(allocation, victims, hits, wanted, spare):
        if len(victims) == URGENT_PER_STEP:
            return []
        victim = life.policy.victim([r for r in candidates if r not in victims] if victims else candidates, head)
        if victim is None:
            return []
        victims.append(victim)
    return victims


def _fits(allocation: Allocation, victims: list[Request], hits: list[int], wanted: int, spare: int) -> bool:
    """What is free is asked first: to count what the victims would give back takes a look at each of their blocks."""
    if allocation.fits_after(wanted, hits, (), spare):
        return True
    return bool(victims) and allocation.fits_after(wanted, hits, [victim.blocks for victim in victims], spare)
