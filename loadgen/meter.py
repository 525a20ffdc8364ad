"""The generator's own health: how late its loop wakes and how much of a core it uses. Knows no requests.

A load generator that cannot keep up blames the server; these figures tell the two apart.
"""

from __future__ import annotations

import time

import gevent

TICK_S = 0.05


class LoopMeter:
    """`lag_ms` and `cpu` since the last `read`."""

    def __init__(self) -> None:
        self._lag = 0.0
        self._wall = time.perf_counter()
        self._cpu = time.process_time()
        self._greenlet: gevent.Greenlet | None = None

    def start(self) -> None:
        self._greenlet = gevent.spawn(self._watch)

    def stop(self) -> None:
        if self._greenlet is not None:
            self._greenlet.kill()

    def read(self) -> dict[str, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        spent = (cpu - self._cpu) / max(wall - self._wall, 1e-9)
        lag, self._lag, self._wall, self._cpu = self._lag, 0.0, wall, cpu
        return {"lag_ms": round(lag * 1e3, 1), "cpu": round(spent, 3)}

    def _watch(self) -> None:
        while True:
            before = time.perf_counter()
            gevent.sleep(TICK_S)
            self._lag = max(self._lag, time.perf_counter() - before - TICK_S)
