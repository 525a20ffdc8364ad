"""One process's part of a load run: sends each request when it is due and records how it went. Knows no Locust.

An open loop never waits for the server: each due arrival gets a greenlet of its own, and its latency counts from the
instant it was due. Closed-loop users call `turn`. The rate may be changed on the way (`change_rate`).
Invariant: every request that was begun is recorded exactly once, those still in flight when the run stops as `incomplete`.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice

import gevent
import gevent.event
import orjson

from loadgen.arrivals import curve, masses, measured_masses
from loadgen.call import Call, encode, perform
from loadgen.connection import Pool
from loadgen.curve import Curve, Rates
from loadgen.pace import Pace, users_at
from loadgen.probe import Probe
from loadgen.results import Record, Recorder
from loadgen.scenario import OPEN, Scenario, Stream
from loadgen.target import Model, Target
from loadgen.workload import Ask, body_of, draw, draw_any, path_of, works

CUT_S = 2.0
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of the run is this process's: every `count`-th request from `index` on."""

    index: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class Job:
    """What a session needs to know. `started`: perf_counter seconds of the run's instant 0."""

    scenario: Scenario
    run: str
    seed: int
    nonce: str
    model: Model
    share: Share
    started: float


class Session:
    """start → turn … → drain → cut. `on_record` hears of each finished request."""

    def __init__(self, job: Job, target: Target, recorder: Recorder, on_record: Callable[[Record], None] | None = None) -> None:
        self.job = job
        self.recorder = recorder
        self.stopping = gevent.event.Event()
        self.pool = Pool(f"http://{target.authority}{target.prefix}")
        self.capacity: float | None = None
        self._on_record = on_record
        self._path = target.prefix + path_of(job.scenario)
        self._host = target.authority
        self._headers = {**target.headers, "X-Batchscope-Run": job.run}
        self._nonce = job.nonce if job.scenario.nonce else ""
        self._dispatchers: list[gevent.Greenlet] = []
        self._flying: set[gevent.Greenlet] = set()
        self._closed_k = job.share.index
        self._asking = 0  # users of the closed loop that wait for an answer
        self._changes: list[tuple[float, float]] = []  # (seconds of the run, factor), oldest first
        self._paces: list[tuple[Pace, float]] = []  # (pace, second of the run at which its stream began)
        self._news = gevent.event.Event()  # for who sleeps until an arrival: the run stops, or its rate has changed
        self._until_drained = float("inf")

    def start(self) -> None:
        """Begin the open-loop streams; closed ones wait for users."""
        for stream in self.job.scenario.streams:
            if stream.arrivals.loop == OPEN:
                run = self._measure_and_dispatch if stream.arrivals.process == "measured" else self._dispatch_all
                self._dispatchers.append(gevent.spawn(run, stream))

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.job.started

    @property
    def exhausted(self) -> bool:
        """Nothing more will be sent: all arrivals are out, or the time of closed loops is over."""
        if any(not greenlet.dead for greenlet in self._dispatchers):
            return False
        closed = self.job.scenario.closed
        return closed is None or self.elapsed >= closed.stop_s

    def turn(self, on: Stream) -> Record | None:
        """One request of a closed-loop user; None if the stream is not alive now."""
        if self.stopping.is_set() or not on.start_s <= self.elapsed < on.stop_s or self._asking >= self._allowed(on):
            return None
        k = self._closed_k
        self._closed_k += self.job.share.count
        self._asking += 1
        try:
            return self._send(self._ask(on, k), None)
        finally:
            self._asking -= 1

    def change_rate(self, at_s: float, factor: float) -> None:
        """From that second of the run on: arrivals `factor` times as dense, closed loops of so many times the users."""
        self._changes.append((at_s, factor))
        for pace, begin_s in self._paces:
            pace.change(at_s - begin_s, factor)
        self._wake()

    def _allowed(self, on: Stream) -> float:
        """This process's share of the users who may ask; as many as there are, until the rate is changed."""
        factor = next((factor for at_s, factor in reversed(self._changes) if at_s <= self.elapsed), None)
        if factor is None:
            return math.inf
        share, users = self.job.share, users_at(on.arrivals.users, factor)
        return users // share.count + (share.index < users % share.count)

    def stop(self) -> None:
        """No new request from here on."""
        self.stopping.set()
        self._wake()

    def drain(self, seconds: float) -> bool:
        """Stop sending and wait for what is in flight, so long at most; True if nothing is left.

        A second call while the first waits can only shorten it.
        """
        self.stop()
        self._until_drained = min(self._until_drained, time.perf_counter() + seconds)
        gevent.joinall(self._dispatchers, timeout=seconds)
        while self._flying and time.perf_counter() < self._until_drained:
            gevent.sleep(POLL_S)
        return not self._flying

    def cut(self) -> None:
        """Give up what is still in flight; it is recorded as incomplete."""
        self.stop()
        gevent.killall(self._dispatchers, timeout=CUT_S)
        gevent.killall(list(self._flying), timeout=CUT_S)
        self.pool.close()

    def _dispatch_all(self, stream: Stream) -> None:
        rng = random.Random(f"{self.job.seed}/{stream.name}/arrivals")
        share = self.job.share
        mine = islice(enumerate(masses(stream.arrivals, rng)), share.index, None, share.count)
        self._dispatch(stream, mine, curve(stream.arrivals), stream.start_s)

    def _measure_and_dispatch(self, stream: Stream) -> None:
        """A saturating closed loop first; then arrivals at `load` times the capacity that it showed."""
        if self._until(self.job.started + stream.start_s):
            return
        share = self.job.share
        arrivals = stream.arrivals
        probe = Probe(self._probe_turn(stream), self.stopping, arrivals, share.count)
        self.capacity = probe.run()
        begin_s = self.elapsed
        if self.stopping.is_set():
            return
        if self.capacity is None:
            print("loadgen: no token came while capacity was measured; nothing more is sent", file=sys.stderr, flush=True)
            return
        mean = sum(islice(works(stream), 1000)) / 1000
        power = min(arrivals.load * self.capacity, mean * arrivals.max_rate / share.count)
        rng = random.Random(f"{self.job.seed}/{stream.name}/arrivals/{share.index}")
        mine = islice(works(stream), share.index, None, share.count)
        numbered = zip(count(share.index, share.count), measured_masses(mine, rng), strict=False)
        self._dispatch(stream, numbered, Rates([(0.0, power)]), begin_s)

    def _probe_turn(self, stream: Stream) -> Callable[[int, Callable[[bool, Ask], None]], None]:
        def turn(k: int, on_token: Callable[[bool, Ask], None]) -> None:
            mine = k * self.job.share.count + self.job.share.index
            ask = draw_any(stream, mine, self.job.seed, self._nonce, self.job.model.limits)
            self._send(ask, None, lambda first: on_token(first, ask))

        return turn

    def _dispatch(self, stream: Stream, numbered: Iterator[tuple[int, float]], along: Curve, begin_s: float) -> None:
        """Send each (k, mass) when it is due, whatever the server does. Prompts are written ahead of time."""
        pace = Pace(along)
        for change in self._changes:
            pace.change(change[0] - begin_s, change[1])
        self._paces.append((pace, begin_s))
        for k, mass in numbered:
            ask = self._ask(stream, k)
            due_s = self._due(pace, mass, begin_s, stream.stop_s)
            if due_s is None:
                return
            gevent.spawn(self._send, ask, self.job.started + due_s)

    def _due(self, pace: Pace, mass: float, begin_s: float, stop_s: float) -> float | None:
        """Sleep until the mass has come; its second of the run, or None if the stream or the run ends before."""
        while not self.stopping.is_set():
            due_s = begin_s + pace.instant(mass)
            now = self.elapsed
            if due_s <= now and due_s < stop_s:
                return due_s
            if now >= stop_s or pace.over(now - begin_s):
                return None
            self._news.wait(min(due_s, stop_s) - now)
        return None

    def _wake(self) -> None:
        news, self._news = self._news, gevent.event.Event()
        news.set()

    def _until(self, instant: float) -> bool:
        """Sleep until the instant; True if the run stops before."""
        wait = instant - time.perf_counter()
        return bool(self.stopping.wait(wait) if wait > 0 else self.stopping.is_set())

    def _ask(self, stream: Stream, k: int) -> Ask:
        return draw(stream, k, self.job.seed, self._nonce, self.job.model.limits)

    def _send(self, ask: Ask, due: float | None, on_token: Callable[[bool], None] | None = None) -> Record:
        greenlet = gevent.getcurrent()
        n = self.recorder.began() * self.job.share.count + self.job.share.index
        self._flying.add(greenlet)
        try:
            record = perform(self._call(ask, n, due), self.pool, on_token)
            self.recorder.record(record)
        finally:
            self._flying.discard(greenlet)
        if self._on_record is not None:
            self._on_record(record)
        return record

    def _call(self, ask: Ask, n: int, due: float | None) -> Call:
        body = orjson.dumps(body_of(self.job.scenario, ask, self.job.model.id))
        name = f"{self.job.run}-{n}"
        return Call(
            id=name,
            n=n,
            tenant=ask.tenant,
            kind=ask.kind,
            data=encode(self._path, self._host, body, {**self._headers, "X-Request-Id": name}),
            due=due,
            timeout_s=self.job.scenario.timeout_s,
            cancel_after_s=None if ask.cancel_after_ms is None else ask.cancel_after_ms / 1e3,
            started=self.job.started,
        )
