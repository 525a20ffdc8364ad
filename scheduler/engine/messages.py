"""What web and engine say to each other: every message, and core events as they stand in them. How that becomes bytes is in
framing.py. Knows no socket and no scheduler.

A message is a msgpack array `[tag, fields…]`. The first of each side carries PROTOCOL; another version is a ProtocolError. Core
events travel as `[kind, fields…]`, kind being the index in core.events.EVENT_TYPES.
Invariant: unpack_event(pack_event(e)) == e for every event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any

import msgspec

from scheduler.core.drain import Pressure as Pressure  # what Events and StepDone carry: part of the wire
from scheduler.core.events import EVENT_TYPES, Event, Parts
from scheduler.core.holders import Blockers, Holding
from scheduler.core.request import FinishReason, SamplingParams, WaitReason
from scheduler.errors import ProtocolError

PROTOCOL = 1


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all messages."""


# ---- web → engine


class Hello(Message, frozen=True, tag="hello"):
    """The first message: the engine's number of life and all that it needs to start.

    policies: the directory of the user's own, "" for none.
    """

    protocol: int
    boot: int
    scheduler: dict[str, Any]
    model: dict[str, Any]
    version: int = 1
    policies: str = ""


class Submit(Message, frozen=True, tag="submit"):
    """One sequence. prompt: token ids as little-endian uint32; times integer monotonic ns; see core.request.Request."""

    id: str
    prompt: bytes
    params: SamplingParams
    received_at: int
    tenant: str = "default"
    kind: str = "interactive"
    priority: int = 0
    deadline_at: int | None = None
    timeout_at: int | None = None
    expected_output_tokens: int | None = None
    run: str | None = None
    resubmitted: bool = False


class Abort(Message, frozen=True, tag="abort"):
    """End these sequences as `abort` with `detail`; unknown ids are ignored."""

    ids: list[str]
    detail: str


class Patch(Message, frozen=True, tag="patch"):
    """Change settings between two steps; answered by Reply(token). `expected`: the version the caller saw, or None."""

    token: int
    changes: dict[str, Any]
    expected: int | None = None


class Hold(Message, frozen=True, tag="hold"):
    """ "pause" stops stepping, "step" runs one step while paused, "resume" goes on; answered by Reply(token)."""

    token: int
    what: str


class Shutdown(Message, frozen=True, tag="shutdown"):
    """Stop after the current step; what is unfinished ends as `abort: shutdown`."""


# ---- engine → web


class Loading(Message, frozen=True, tag="loading"):
    """Start-up goes on: a sentence for people; done and total bytes where known, else 0."""

    text: str
    done: int = 0
    total: int = 0


class Ready(Message, frozen=True, tag="ready"):
    """The engine serves. settings as in effect (defaults of the device filled in); capacity as Runner.capacity().

    policies: the user's own, each with the hash of its file; see engine/own_policies.py.
    """

    protocol: int
    boot: int
    pid: int
    settings: dict[str, Any]
    version: int
    capacity: dict[str, Any]
    policies: list[dict[str, Any]] = []


class Failed(Message, frozen=True, tag="failed"):
    """The engine cannot go on; `param` names the setting or file at fault."""

    message: str
    param: str | None = None


class Events(Message, frozen=True, tag="events"):
    """Core events outside a step: queued, rejected, aborted, settings. pressure: what a newcomer meets, while shedding."""

    events: list[list[Any]]
    pressure: Pressure | None = None


class StepDone(Message, frozen=True, tag="step"):
    """All of one step: its events in order, and the text that it made.

    numbers and texts are aligned: one piece of output text for each request that emitted a token ("" while held back).
    observe_ns: what recording and sending cost the engine in the step before this one. pressure: as in Events.
    """

    events: list[list[Any]]
    numbers: list[int]
    texts: list[str]
    observe_ns: int = 0
    host_late_ns: int = 0
    pressure: Pressure | None = None


class Reply(Message, frozen=True, tag="reply"):
    """The answer to Patch and Hold. error: None, or "conflict", "invalid"."""

    token: int
    version: int
    settings: dict[str, Any]
    paused: bool
    error: str | None = None
    message: str = ""
    param: str | None = None


ToEngine = Hello | Submit | Abort | Patch | Hold | Shutdown
ToWeb = Loading | Ready | Failed | Events | StepDone | Reply


# ---- core events as lists

_KIND = {kind: index for index, kind in enumerate(EVENT_TYPES)}
_NAMES = tuple(tuple(spec.name for spec in fields(kind)) for kind in EVENT_TYPES)
_READ = tuple(attrgetter(*names) for names in _NAMES)  # every kind has several fields, so it gives a tuple


def pack_event(event: Event) -> list[Any]:
    """[kind, fields…]; enums become their values on the wire."""
    kind = _KIND[type(event)]
    return [kind, *_READ[kind](event)]


def unpack_event(row: list[Any]) -> Event:
    """The event again; raises ProtocolError when the row does not fit."""
    try:
        kind, values = EVENT_TYPES[row[0]], row[1:]
        for position, make in _MAKE[row[0]]:
            if values[position] is not None:
                values[position] = make(values[position])
        event: Event = kind(*values)
        return event
    except (IndexError, ValueError, TypeError) as error:
        raise ProtocolError(f"cannot read an event: {error}") from error


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _pairs(value: Any) -> tuple[tuple[str, object], ...]:
    return tuple((name, item) for name, item in value)


def _blockers(value: list[Any]) -> Blockers:
    limit, holders, *rest = value
    return Blockers(limit, tuple(Holding(*holder) for holder in holders), *rest)


_REVIVE: dict[str, Callable[[Any], Any]] = {
    "reason": FinishReason,
    "cause": WaitReason,
    "binding": WaitReason,
    "parts": lambda value: Parts(*_tuples(value)),
    "waiting_by_reason": tuple,
    "decodes": tuple,
    "chunks": _tuples,
    "failed": tuple,
    "blockers": _blockers,
    "settings": _pairs,
    "changes": _pairs,
}
_MAKE = tuple(tuple((names.index(name), make) for name, make in _REVIVE.items() if name in names) for names in _NAMES)
