"""Wiring: the one place where the parts of the web process meet. Starts them in order, stops them in reverse.

data directory → migrations → writer → engine life → application → server. Knows every part and decides nothing for any.
Invariant: `stop` leaves no child, no thread and no open row behind, as far as the drain allows.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import gevent

from app import gate, run_ledger
from app.acceptance import Acceptance
from app.api import outcomes
from app.counters import Counters
from app.event_feed import EventFeed
from app.extensions import Parts, socketio
from app.factory import create_app
from app.live import Pusher
from app.live_state import LiveState
from app.serving import threads
from app.serving.handler import Server as HttpServer
from app.serving.in_flight import InFlight
from app.settings import ServerSettings
from app.store import migrate
from app.store.errors import SchemaError
from app.store.queries import Queries
from app.store.writer import Writer
from app.supervisor.engine_life import EngineLife, Listeners, MakeClient
from app.supervisor.load_runs import LoadRuns, Surroundings
from app.version import VERSION
from scheduler.core.events import Event
from scheduler.engine.client import EngineClient
from scheduler.engine.messages import Ready, StepDone
from scheduler.errors import BatchscopeError
from scheduler.text import bundle

READERS = 3
WORKERS = 4
BACKLOG = 1024


class AnotherVersion(BatchscopeError):
    """The database belongs to another version of the code."""


class Server:
    """A server on its way up, up, or on its way down."""

    def __init__(self, settings: ServerSettings, listener: socket.socket, *, make_client: MakeClient = EngineClient) -> None:
        self.settings = settings
        self.draining = False
        self.text: bundle.Text | None = None
        self._listener = listener
        self._loadgen_key = secrets.token_urlsafe(32)
        self._inbox = threads.Inbox()
        self._workers = threads.Pool(WORKERS + READERS)
        self.url = _url(settings.host, listener.getsockname()[1])
        url = database_url(settings)
        _migrate(url)
        self.writer = Writer(url, spawn=threads.spawn, notify=self._inbox.post, new_queue=threads.new_queue)
        self.in_flight = InFlight()
        self.live = LiveState(time.monotonic_ns, version=VERSION)
        self.counters = Counters()
        self.feed = EventFeed(self.in_flight.step, breathe=partial(gevent.sleep, 0))
        self.pusher = Pusher(socketio, self.live, spawn=gevent.spawn, sleep=gevent.sleep, now=time.monotonic_ns)
        self.acceptance = Acceptance(
            self.writer, self.in_flight, storage_problem=outcomes.storage, crash_problem=outcomes.crashed
        )
        self.engine = self._make_engine(make_client)
        self.acceptance.engine = self.engine
        queries = Queries(url)
        job = self._job
        self.load_runs = LoadRuns(
            Surroundings(
                directory=settings.directory / "runs",
                url=lambda: self.url,
                key=self._loadgen_key if settings.api_key_file else "",
                versions={"batchscope": VERSION},
                on_change=self.pusher.run_changed,
            ),
            run_ledger.RunLedger(job, queries, self._workers.run),
            self.engine,
        )
        self.parts = Parts(
            settings=settings,
            version=VERSION,
            engine=self.engine,
            in_flight=self.in_flight,
            acceptance=self.acceptance,
            writer=self.writer,
            queries=queries,
            feed=self.feed,
            counters=self.counters,
            live=self.live,
            load_runs=self.load_runs,
            run_native=self._workers.run,
            job=job,
            text=lambda: self.text,
            draining=lambda: self.draining,
            hash_key=_hash_key(settings.directory),
            started_wall=time.time_ns(),
        )

    def start(self) -> None:
        """Begin to serve; the engine goes on loading meanwhile."""
        self.writer.start()
        self._subscribe()
        hosts = gate.allowed_hosts(self.settings.host, self._listener.getsockname()[1], self.settings.allow_host)
        origins = gate.allowed_origins(hosts)
        app = create_app(self.parts, origins)
        application = gate.Gate(app.wsgi_app, gate.Rules(hosts, origins, self._keys()))
        self.http = HttpServer(self._listener, application)
        self.http.start()
        self.pusher.start()
        self.engine.start()

    def stop(self) -> None:
        """Refuse, drain, abort, close."""
        self.draining = True
        self.load_runs.shutdown()
        end = time.monotonic() + self.settings.drain
        while self.in_flight.sequences and self.engine.up and time.monotonic() < end:
            gevent.sleep(0.05)
        self.engine.stop()
        self._end_rest()
        gevent.sleep(0.05)
        self.http.stop(timeout=1.0)
        self.pusher.stop()
        self._workers.run(self.writer.close)
        self.parts.queries.close()

    # ---- the engine's word, handed on

    def _make_engine(self, make_client: MakeClient) -> EngineLife:
        listeners = Listeners(
            on_events=self.feed.take,
            on_status=self.live.engine_status,
            on_ready=self._ready,
            on_gone=self.acceptance.engine_gone,
            work=lambda: self.in_flight.sequences,
        )
        model = asdict(self.settings.model_settings)
        return EngineLife(make_client, self.settings.scheduler, model, self.writer.next_boot, listeners)

    def _ready(self, ready: Ready) -> None:
        """The model's files are there now: load its tokenizer, once."""
        capacity = ready.capacity
        self.live.describe(
            device=capacity["device"], dtype=capacity["dtype"], simulated=capacity["simulated"], settings_version=ready.version
        )
        if self.text is None:
            self.text = self._workers.run(bundle.load, self.settings.model_settings)

    def _subscribe(self) -> None:
        """Streams first, then records, then what people look at."""

        def streams(events: list[Event], step: StepDone | None) -> None:
            for event in events:
                self.in_flight.event(event)

        def records(events: list[Event], step: StepDone | None) -> None:
            self.writer.events(events, 0 if step is None else step.host_late_ns)

        def live(events: list[Event], step: StepDone | None) -> None:
            for event in events:
                self.live.apply(event)
            if step is not None:
                self.live.step_cost(step.observe_ns, step.host_late_ns)

        def counters(events: list[Event], step: StepDone | None) -> None:
            for event in events:
                self.counters.apply(event)

        for name, listener in (("in flight", streams), ("records", records), ("live", live), ("counters", counters)):
            self.feed.subscribe(name, listener)

    # ---- pieces

    def _job(self, work: Callable[[Any], Any]) -> Any:
        return threads.wait_for(partial(self.writer.job, work))

    def _keys(self) -> dict[bytes, str] | None:
        if not self.settings.api_key_file:
            return None
        keys = gate.read_keys(Path(self.settings.api_key_file).read_text("utf-8"))
        keys.update(gate.read_keys(f"loadgen {self._loadgen_key}"))
        return keys

    def _end_rest(self) -> None:
        """What the engine did not end: its process was gone."""
        for answer in self.in_flight.answers():
            answer.fail(outcomes.shutting_down())
            self.acceptance.end_by_web(answer, "abort", "shutdown")


def database_url(settings: ServerSettings) -> str:
    """The records' place."""
    return settings.database_url or f"sqlite:///{settings.directory / 'batchscope.db'}"


def _migrate(url: str) -> None:
    try:
        migrate.upgrade(url)
    except SchemaError as error:
        raise AnotherVersion(error.message, error.param) from error


def _hash_key(directory: Path) -> bytes:
    path = directory / "hash.key"
    if not path.exists():
        path.touch(0o600)
        path.write_bytes(secrets.token_bytes(32))
    return path.read_bytes()


def _url(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"
