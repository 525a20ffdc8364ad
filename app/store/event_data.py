"""The `data` of a row of `request_events`: an event's own fields as JSON's text. Knows no table and no request.

What boot, seq, at and id say has columns of its own. These few kinds are nearly all that is ever written, so each has its
line here: fields read by name and handed to orjson at once, or, where every value is an int or a bool, an f-string, which
takes a quarter of its time.
Invariant: the text is what orjson makes of the fields in their order; a kind with a new field fails its test.
"""

from __future__ import annotations

from orjson import dumps

from scheduler.core.events import (
    FirstToken,
    RequestFinished,
    RequestParked,
    RequestPreempted,
    RequestQueued,
    RequestScheduled,
    RequestUnparked,
)
from scheduler.metrics import WAIT_REASONS

_BOOL = ("false", "true")


def queued(event: RequestQueued) -> str:
    """Who asked for how much."""
    return dumps(
        {
            "received_at": event.received_at,
            "prompt_tokens": event.prompt_tokens,
            "max_tokens": event.max_tokens,
            "tenant": event.tenant,
            "kind": event.kind,
            "priority": event.priority,
            "deadline_at": event.deadline_at,
            "run": event.run,
        }
    ).decode()


def scheduled(event: RequestScheduled) -> str:
    """Which slot, and what of it was cached."""
    return (
        f'{{"number":{event.number},"slot":{event.slot},"cached_tokens":{event.cached_tokens},'
        f'"resumed":{_BOOL[event.resumed]},"overtaken":{event.overtaken}}}'
    )


def parked(event: RequestParked) -> str:
    """The cause by its name, and who holds what is lacking."""
    blockers = None if event.blockers is None else event.blockers.named(event.cause)
    return dumps({"number": event.number, "cause": WAIT_REASONS[event.cause], "blockers": blockers}).decode()


def numbered(event: RequestUnparked | FirstToken) -> str:
    """Nothing but whose it is."""
    return f'{{"number":{event.number}}}'


def preempted(event: RequestPreempted) -> str:
    """What it lost, and why."""
    return (
        f'{{"number":{event.number},"slot":{event.slot},"blocks_freed":{event.blocks_freed},'
        f'"computed_tokens_lost":{event.computed_tokens_lost},"urgency":{_BOOL[event.urgency]}}}'
    )


def finished(event: RequestFinished) -> str:
    """How it ended, and where its time went."""
    waits, prefill, decode, stalled, preempted = event.parts
    return dumps(
        {
            "number": event.number,
            "slot": event.slot,
            "reason": event.reason,
            "detail": event.detail,
            "prompt_tokens": event.prompt_tokens,
            "cached_tokens": event.cached_tokens,
            "output_tokens": event.output_tokens,
            "preemptions": event.preemptions,
            "parts": {"waits": waits, "prefill": prefill, "decode": decode, "stalled": stalled, "preempted": preempted},
            "overtaken": event.overtaken,
        }
    ).decode()
