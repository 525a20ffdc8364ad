"""This process's part of a run with its file and its courier: begin, deliver while it lasts, finish. Knows no Locust.

Invariant: `finish` returns after every request that was begun is in the file, however often it is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import gevent
import gevent.event

from loadgen.courier import Courier
from loadgen.meter import LoopMeter
from loadgen.plan import Plan
from loadgen.results import Record, Recorder
from loadgen.session import Job, Session
from loadgen.target import API_KEY, Target

DELIVER_EVERY_S = 0.25
DELIVER_LAST_S = 5.0


def target_of(url: str) -> Target:
    return Target(url, os.environ.get(API_KEY, ""))


class Part:
    """A session, its recorder and its courier."""

    def __init__(self, plan: Plan, job: Job, on_record: Callable[[Record], None]) -> None:
        target = target_of(plan.wishes.url)
        path = None if plan.wishes.out is None else Path(plan.wishes.out) / "requests.jsonl"
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self.courier = Courier(target, plan.run) if plan.known else None
        self.recorder = Recorder(path, self.courier.put if self.courier is not None else None)
        self.session = Session(job, target, self.recorder, on_record)
        self.meter = LoopMeter()
        self.finished = gevent.event.Event()
        self._finishing = False
        self._delivery: gevent.Greenlet | None = None

    def start(self) -> None:
        self.meter.start()
        self.session.start()
        if self.courier is not None:
            self._delivery = gevent.spawn(self._deliver, self.courier)

    @property
    def at_rest(self) -> bool:
        """All was sent and all has ended."""
        return self.session.exhausted and self.recorder.totals.in_flight == 0

    def finish(self, seconds: float) -> None:
        """Send no more, wait so long for what is in flight, give up the rest, hand over the records.

        A later call may shorten the wait; it returns when the first one is through.
        """
        if self._finishing:
            self.session.drain(seconds)
            self.finished.wait()
            return
        self._finishing = True
        try:
            self.session.drain(seconds)
            self.session.cut()
            self.meter.stop()
            self.recorder.close()
            if self.courier is not None:
                self.courier.finish(DELIVER_LAST_S)
        finally:
            self.finished.set()

    def _deliver(self, courier: Courier) -> None:
        while not self.finished.wait(DELIVER_EVERY_S) and not courier.stopped:
            courier.deliver()
