"""Priority inversions: admissions of a request while one of a better class was held back. Knows no policy.

A lower priority number is the better class. Whether an inversion is a fault depends on the policy: fcfs and fair shares
invert on purpose, `priority` only where the better one did not fit.
Invariant: admissions of one instant never invert one another: they are of one plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from operator import attrgetter, itemgetter
from typing import NamedTuple

from scheduler.metrics.lives import Life


class Spell(NamedTuple):
    """One stretch of waiting, ns: known to the core at `since`, over at `until`, by admission or by an end."""

    priority: int
    since: int
    until: int
    admitted: bool


@dataclass(frozen=True, slots=True)
class Inversions:
    """Of so many admissions, so many took a worse class while a better one was held back."""

    admissions: int
    inverted: int


def inversions(waited: Sequence[Spell]) -> Inversions | None:
    """Count them; None unless two classes asked. O(n log n)."""
    if len({spell.priority for spell in waited}) < 2:
        return None
    coming = sorted(waited, key=attrgetter("since"), reverse=True)
    held: list[tuple[int, int]] = []  # (priority, until): the best class on top; who has left is found out there
    admissions = inverted = 0
    for priority, at in sorted([(spell.priority, spell.until) for spell in waited if spell.admitted], key=itemgetter(1)):
        while coming and coming[-1].since < at:
            known = coming.pop()
            heappush(held, (known.priority, known.until))
        while held and held[0][1] <= at:
            heappop(held)
        admissions += 1
        inverted += bool(held) and held[0][0] < priority
    return Inversions(admissions, inverted)


def spells(found: Iterable[Life]) -> list[Spell]:
    """All waiting of a log's sequences, after preemptions too, from when the core knew of each."""
    made = []
    for life in found:
        if life.queued_at is None:
            continue  # refused at the door: it never waited
        for index, (since, until) in enumerate(life.spans):
            known = max(since, life.queued_at)
            last = index == len(life.spans) - 1
            never_ran_again = last and until == life.finished_at and life.scheduled_at != until
            made.append(Spell(life.priority, min(known, until), until, not never_ran_again))
    return made
