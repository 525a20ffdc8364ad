"""Trials of a policy: many requests through the core, without the checks of a Bench, so that a guarantee costs milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from builders import MS, FakeRunner, make_scheduler

from scheduler.core.blocks import BlockPool
from scheduler.core.events import Event, RequestFinished, RequestPreempted, RequestQueued, RequestScheduled
from scheduler.core.policies.base import Policy
from scheduler.core.policies.catalog import CATALOG, make
from scheduler.core.request import Request
from scheduler.core.scheduler import Scheduler

STEP = 10 * MS


def made(name: str, wanted: Mapping[str, float] | None = None, pool: BlockPool | None = None) -> Policy:
    """The policy `name` with those of the wanted parameters that it takes."""
    takes = CATALOG[name].params
    return make(name, {key: value for key, value in (wanted or {}).items() if any(param.takes(key) for param in takes)}, pool)


def trial(
    policy: Policy, requests: Iterable[Request], *, until: int | None = None, runner: FakeRunner | None = None, **limits: Any
) -> list[Event]:
    """Each request is added when the first step at or after its `received_at` begins; until `until`, ns, or nothing is left."""
    return drive(make_scheduler(policy, **{"caching": False, **limits}), requests, until=until, runner=runner)


def drive(
    scheduler: Scheduler, requests: Iterable[Request], *, until: int | None = None, runner: FakeRunner | None = None
) -> list[Event]:
    """A trial of a scheduler of the caller's own."""
    runner = runner or FakeRunner(elapsed=STEP)
    coming = sorted(requests, key=lambda request: request.received_at, reverse=True)
    now, events = 0, list[Event]()
    while (coming or not scheduler.idle) and (until is None or now < until):
        if scheduler.idle:
            now = max(now, coming[-1].received_at)
        while coming and coming[-1].received_at <= now:
            events += scheduler.add(coming.pop(), now)
        plan = scheduler.schedule(now)
        events += plan.events
        if plan.empty:
            now += STEP
            continue
        output = runner.run(plan)
        now += output.elapsed
        events += scheduler.commit(plan, output, now)
    return events


def admissions(
    events: Iterable[Event],
) -> Iterator[tuple[RequestScheduled, RequestQueued, dict[int, tuple[int, RequestQueued]]]]:
    """At each admission: the event, who it is, and all who are left waiting, by number, with the instant since when."""
    known: dict[int, RequestQueued] = {}
    waiting: dict[int, tuple[int, RequestQueued]] = {}
    for event in events:
        match event:
            case RequestQueued():
                known[event.seq] = event
                waiting[event.seq] = (event.at, event)
            case RequestPreempted():
                waiting[event.number] = (event.at, known[event.number])
            case RequestScheduled():
                del waiting[event.number]
                yield event, known[event.number], waiting
            case RequestFinished():
                waiting.pop(event.number, None)


def responses(events: Iterable[Event]) -> dict[str, int]:
    """Arrival to end, ns, by id."""
    return {event.id: event.parts.total for event in events if isinstance(event, RequestFinished)}
