"""Measuring a server's capacity: a closed loop of so many users that some always wait, for a few seconds.

Work is counted in decode tokens (a prompt counts, at its weight, when its first token comes), so that the figure does
not wait for whole requests to end. Knows no socket. Invariant: users are added until a tenth of them wait for a first
token, since a server that makes nobody wait has not shown what it can do.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import gevent
import gevent.event

from loadgen.scenario import Arrivals
from loadgen.workload import Ask

Turn = Callable[[int, Callable[[bool, Ask], None]], None]
GROW_EVERY_S = 0.5
MOST_USERS = 512
PATIENCE = 4.0  # times probe_s that a server may take to answer anything at all


class Probe:
    """`turn(k, on_token)` makes the k-th request and returns at its end."""

    def __init__(self, turn: Turn, stopping: gevent.event.Event, arrivals: Arrivals, processes: int = 1) -> None:
        self.users = 0
        self._turn = turn
        self._stopping = stopping
        self._arrivals = arrivals
        self._first = max(1, arrivals.probe_users // processes)
        self._work = 0.0
        self._without_token = 0
        self._k = 0
        self._over = False

    def run(self) -> float | None:
        """Units of work a second, or None if no token came (or the run stops)."""
        began = since = time.perf_counter()
        mark = self._work
        self._grow(self._first)
        while not self._stopping.wait(GROW_EVERY_S):
            now = time.perf_counter()
            if self._is_over(now - began):
                break
            if now - began < 0.6 * self._arrivals.probe_s and self._nobody_waits() and self.users < MOST_USERS:
                self._grow(self.users)
                since, mark = now, self._work
        self._over = True
        work = self._work - mark
        return work / (time.perf_counter() - since) if work > 0 else None

    def _is_over(self, elapsed: float) -> bool:
        enough = self._arrivals.probe_s if self._work else self._arrivals.probe_s * PATIENCE
        return elapsed >= enough - GROW_EVERY_S / 2

    def _nobody_waits(self) -> bool:
        return self._work > 0 and self._without_token * 10 < self.users

    def _grow(self, more: int) -> None:
        self.users += more
        for _ in range(more):
            gevent.spawn(self._user)

    def _user(self) -> None:
        while not self._over and not self._stopping.is_set():
            k = self._k
            self._k += 1
            waits = _Once(self)
            self._turn(k, waits.on_token)
            waits.end()

    def arrived(self, change: int) -> None:
        self._without_token += change

    def credit(self, work: float) -> None:
        self._work += work

    @property
    def prefill_weight(self) -> float:
        return self._arrivals.prefill_weight


class _Once:
    """One request's part in the count of those that still wait for their first token."""

    __slots__ = ("_probe", "_waits")

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._waits = True
        probe.arrived(1)

    def on_token(self, first: bool, ask: Ask) -> None:
        if first:
            self._probe.credit(self._probe.prefill_weight * ask.prompt_tokens)
            self.end()
        self._probe.credit(1.0)

    def end(self) -> None:
        if self._waits:
            self._waits = False
            self._probe.arrived(-1)
