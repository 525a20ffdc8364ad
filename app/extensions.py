"""What views reach: the Socket.IO object, and the parts of the running server. Holds, starts and decides nothing.

Invariant: `parts()` inside a request is the Parts that create_app was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from flask import current_app
from flask_socketio import SocketIO

from app.acceptance import Acceptance
from app.counters import Counters
from app.event_feed import EventFeed
from app.rates import Rates
from app.serving.in_flight import InFlight
from app.serving.overload import Overload
from app.settings import ServerSettings
from app.store.queries import Queries
from app.store.writer import Writer
from app.summaries import Summaries
from app.supervisor.engine_life import EngineLife
from app.supervisor.load_runs import LoadRuns
from scheduler.text.bundle import Text

socketio = SocketIO()


class Snapshots(Protocol):
    """The live state, as /api/live shows it."""

    def snapshot(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """The running server.

    queries                      reads of the records; each call blocks, so hand it to `run_native`
    run_native(function, *args)  the call on a native thread, for what would hold the hub; the greenlet waits
    job(work)                    work(connection) on the writer's thread, in a transaction; waits for its result
    text()                       the tokenizer; None until the engine is ready
    draining()                   the server is stopping: no new work
    hash_key                     of this data directory: equal prompts can be seen, none can be guessed without the file
    """

    settings: ServerSettings
    version: str
    engine: EngineLife
    in_flight: InFlight
    overload: Overload
    rates: Rates
    acceptance: Acceptance
    writer: Writer
    queries: Queries
    feed: EventFeed
    counters: Counters
    live: Snapshots
    load_runs: LoadRuns
    summaries: Summaries
    run_native: Callable[..., Any]
    job: Callable[..., Any]
    text: Callable[[], Text | None]
    draining: Callable[[], bool]
    hash_key: bytes
    started_wall: int

    def queue_place(self, request_id: str) -> dict[str, Any] | None:
        """Where a live request stands in the queue, in the order of arrival; None when it does not wait.

        exact: that is the order in which they will be admitted; else the position and the start are estimates.
        """
        place = self.in_flight.place_of(request_id)
        if place is None:
            return None
        exact = in_order_of_arrival(self.engine.status.settings)
        return {"position": place.position, "exact": exact, "estimated_start_ms": place.start_ms}


def in_order_of_arrival(settings: Mapping[str, Any]) -> bool:
    """Are requests admitted in the order in which they come? Not where a quota or a skip lets others pass."""
    passes = ("tenant_max_running", "tenant_max_tokens", "max_head_skips")
    return settings.get("policy") == "fcfs" and not any(settings.get(name) for name in passes)


def parts() -> Parts:
    """The parts of the application that serves the current request."""
    return cast(Parts, current_app.extensions["batchscope"])
