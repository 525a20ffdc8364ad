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

from app import callers, gate, keys, opening, run_ledger
from app.acceptance import Acceptance
from app.api import outcomes
from app.api.errors import ApiError
from app.counters import Counters
from app.event_feed import EventFeed
from app.extensions import Parts, socketio
from app.factory import create_app
from app.live import Pusher
from app.live_state import LiveState
from app.rates import Rates
from app.retention import Retention
from app.serving import threads
from app.serving.connections import Connections, room_for_local
from app.serving.handler import Server as HttpServer
from app.serving.in_flight import InFlight
from app.serving.overload import Overload
from app.settings import ServerSettings
from app.store.errors import StoreBusy, StoreFailed
from app.store.queries import Queries
from app.store.writer import Writer
from app.summaries import Summaries
from app.supervisor.engine_life import EngineLife
from app.supervisor.engine_ties import Listeners, MakeClient
from app.supervisor.load_runs import LoadRuns
from app.supervisor.run_ties import Surroundings
from app.version import VERSION
from scheduler.core.events import Event
from scheduler.engine.client import EngineClient
from scheduler.engine.messages import Events, Ready, StepDone
from scheduler.errors import in_words
from scheduler.text import bundle

READERS = 3
WORKERS = 4
BACKLOG = 1024
LOADGEN = "loadgen"  # whose key our own load generators have
OVERFLOW_S = 0.02  # between two looks whether the records have caught up
ENGINE_STOP_S = 5.0  # for the engine to end what runs; then it is ended


class Server:
    """A server on its way up, up, or on its way down."""

    def __init__(self, settings: ServerSettings, listener: socket.socket, *, make_client: MakeClient = EngineClient) -> None:
        self.settings = settings
        self.draining = False
        self.text: bundle.Text | None = None
        self._listener = listener
        self._loadgen_key = secrets.token_urlsafe(32)
        self._known_keys = self._keys()
        self._inbox = threads.Inbox()
        self._workers = threads.Pool(WORKERS + READERS)
        self.url = _url(settings.host, listener.getsockname()[1])
        url = opening.records(settings)
        self.writer = Writer(url, spawn=threads.spawn, notify=self._inbox.post, new_queue=threads.new_queue)
        self.in_flight = InFlight(when_recorded=self.writer.after)
        self.overload = Overload(self.in_flight, lambda: self.engine.status.settings)
        self.live = LiveState(time.monotonic_ns, version=VERSION, ring=settings.live_steps)
        self.counters = Counters()
        self.feed = EventFeed(
            self.in_flight.step,
            breathe=threads.Breath(),
            behind=lambda: self.writer.overflowing,
            rest=partial(gevent.sleep, OVERFLOW_S),
        )
        self.pusher = Pusher(socketio, self.live, spawn=gevent.spawn, sleep=gevent.sleep, now=time.monotonic_ns)
        self.acceptance = self._make_acceptance()
        self.engine = self._make_engine(make_client)
        self.acceptance.engine = self.engine
        queries = Queries(url)
        self.summaries = Summaries(url, queries, self._workers.run, self._job)
        self.load_runs = self._make_load_runs()
        self.parts = Parts(
            settings=settings,
            version=VERSION,
            engine=self.engine,
            in_flight=self.in_flight,
            overload=self.overload,
            rates=Rates(settings.max_requests_per_minute, exempt=(LOADGEN,)),
            acceptance=self.acceptance,
            writer=self.writer,
            queries=queries,
            feed=self.feed,
            counters=self.counters,
            live=self.live,
            load_runs=self.load_runs,
            summaries=self.summaries,
            run_native=self._workers.run,
            job=self._job,
            text=lambda: self.text,
            draining=lambda: self.draining,
            hash_key=opening.hash_key(settings.directory),
            started_wall=time.time_ns(),
        )

    def start(self) -> None:
        """Begin to serve; the engine goes on loading meanwhile. What a crash left open is ended before it listens."""
        self.writer.start()
        self._subscribe()
        hosts = callers.allowed_hosts(self.settings.host, self._listener.getsockname()[1], self.settings.allow_host)
        origins = callers.allowed_origins(hosts)
        app = create_app(self.parts, origins, plain_static=self.settings.plain_static)
        rules = gate.Rules(hosts, origins, self._known_keys, max_requests=self.settings.max_requests)
        door = gate.Gate(app.wsgi_app, rules)
        if door.ring is not None:
            door.ring.vouch(self._loadgen_key)
        self.http = HttpServer(self._listener, door, self._connections())
        self._listener.listen(BACKLOG)
        self.http.start()
        self.pusher.start()
        self.engine.start()
        gevent.spawn(app.extensions["static_files"].look)
        gevent.spawn(self._keep_time_outs)
        gevent.spawn(Retention(self.settings, self._job, sleep=gevent.sleep, over=lambda: self.draining).keep)

    def stop(self) -> None:
        """Refuse, drain, abort, close."""
        self.draining = True
        self.load_runs.shutdown()
        self.summaries.close()
        end = time.monotonic() + self.settings.drain
        while self.in_flight.sequences and self.engine.status.state != "failed" and time.monotonic() < end:
            gevent.sleep(0.05)
        self.end_all(ENGINE_STOP_S)
        gevent.sleep(0.05)
        self.http.stop(timeout=1.0)
        self.pusher.stop()
        self._workers.run(self.writer.close)
        self.parts.queries.close()

    def end_all(self, engine_s: float) -> None:
        """End what runs as `abort: shutdown`, in the engine's name if it answers within `engine_s` seconds, else in ours."""
        self.engine.stop(engine_s)
        self._end_rest()

    def _make_load_runs(self) -> LoadRuns:
        return LoadRuns(
            Surroundings(
                directory=self.settings.directory / "runs",
                url=lambda: self.url,
                key=self._loadgen_key if self.settings.api_key_file else "",
                versions=self._versions,
                on_change=self.pusher.run_changed,
            ),
            run_ledger.RunLedger(self._job, self.summaries, self._workers.run),
            self.engine,
        )

    def _make_acceptance(self) -> Acceptance:
        return Acceptance(
            self.writer,
            self.in_flight,
            storage_problem=outcomes.storage,
            crash_problem=outcomes.crashed,
            timeout_problem=outcomes.timed_out,
            poison_problem=outcomes.poison,
        )

    # ---- the engine's word, handed on

    def _make_engine(self, make_client: MakeClient) -> EngineLife:
        listeners = Listeners(
            on_events=self._hear,
            on_status=self.live.engine_status,
            on_ready=self._ready,
            on_gone=self.acceptance.engine_gone,
            resubmit=self.acceptance.resubmit,
            work=lambda: 0 if self.writer.overflowing else self.in_flight.sequences,
        )
        model = asdict(self.settings.model_settings)
        return EngineLife(
            make_client,
            self.settings.scheduler,
            model,
            self.writer.next_boot,
            listeners,
            policies=self.settings.policies,
            hang_s=self.settings.hang_s,
        )

    def _versions(self) -> dict[str, Any]:
        """What a run that begins now was made with."""
        own = self.engine.status.own_policy
        policy = {} if own is None else {"policy": {name: own[name] for name in ("name", "file", "sha256")}}
        return {"batchscope": VERSION, **policy}

    def _hear(self, message: Events | StepDone) -> None:
        self.overload.pressure = message.pressure
        self.feed.take(message)
        self.acceptance.go_on()

    def _ready(self, ready: Ready) -> None:
        """The model's files are there now: load its tokenizer, once."""
        capacity = ready.capacity
        self.live.describe(
            device=capacity["device"], dtype=capacity["dtype"], simulated=capacity["simulated"], settings_version=ready.version
        )
        if self.text is None:
            self.text = self._workers.run(bundle.load, self.settings.model_settings)

    def _subscribe(self) -> None:
        """Records first (an answer's end is told once it is durable), then streams, then what people look at."""

        def records(events: list[Event], step: StepDone | None) -> None:
            self.writer.events(events, 0 if step is None else step.host_late_ns)

        def live(events: list[Event], step: StepDone | None) -> None:
            for event in events:
                self.live.apply(event)
            if step is not None:
                self.live.step_cost(step.observe_ns, step.host_late_ns)

        self.feed.subscribe("records", records)
        self.feed.subscribe("in flight", _each(self.in_flight.event))
        self.feed.subscribe("live", live)
        self.feed.subscribe("counters", _each(self.counters.apply))

    # ---- pieces

    def _job(self, work: Callable[[Any], Any]) -> Any:
        try:
            return threads.wait_for(partial(self.writer.job, work))
        except (StoreBusy, StoreFailed) as error:
            raise ApiError(outcomes.storage(error)) from error

    def _keep_time_outs(self) -> None:
        """An engine keeps them itself; while there is none, somebody else must."""
        while not self.draining:
            gevent.sleep(1.0)
            self.acceptance.expire()

    def _keys(self) -> dict[bytes, keys.Holder] | None:
        if not self.settings.api_key_file:
            return None
        try:
            known = keys.read_keys(Path(self.settings.api_key_file).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"--api-key-file {self.settings.api_key_file}: {in_words(error)}") from error
        known.update(keys.read_keys(f"{LOADGEN} {self._loadgen_key} infer,load"))
        return known

    def _connections(self) -> Connections:
        return Connections(self.settings.max_connections, self.settings.max_connections_per_peer, room_for_local())

    def _end_rest(self) -> None:
        """What the engine did not end: its process was gone."""
        for answer in self.in_flight.answers():
            answer.fail(outcomes.shutting_down())
            self.acceptance.end_by_web(answer, "abort", "shutdown")


def _each(take: Callable[[Event], object]) -> Callable[[list[Event], StepDone | None], None]:
    """A listener that takes one event after another."""

    def listener(events: list[Event], _: StepDone | None) -> None:
        for event in events:
            take(event)

    return listener


def _url(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"
