"""Measuring capacity: users are added while nobody waits, and work is counted in tokens as they come."""

import time
from collections.abc import Callable

import gevent
import gevent.event
import gevent.lock
import pytest

from loadgen.probe import Probe
from loadgen.scenario import Arrivals
from loadgen.workload import Ask

ASK = Ask("t", "k", "p", 40, 10, None, None, None)


class Server:
    """`slots` requests at a time; each takes `seconds` and gives ten tokens."""

    def __init__(self, slots: int, seconds: float = 0.1) -> None:
        self.slots = gevent.lock.Semaphore(slots)
        self.seconds = seconds
        self.work = 0.0
        self.began = time.perf_counter()

    def turn(self, k: int, on_token: Callable[[bool, Ask], None]) -> None:
        with self.slots:
            for i in range(10):
                gevent.sleep(self.seconds / 10)
                self.work += 11 if i == 0 else 1
                on_token(i == 0, ASK)

    @property
    def pace(self) -> float:
        """The work that it has really done a second: a busy machine is slower than it says."""
        return self.work / (time.perf_counter() - self.began)


def probe(server: Server, users: int = 8, seconds: float = 2.0) -> tuple[Probe, float | None]:
    arrivals = Arrivals("measured", probe_s=seconds, probe_users=users, prefill_weight=0.25)
    one = Probe(server.turn, gevent.event.Event(), arrivals)
    return one, one.run()


def test_a_saturated_server_shows_its_capacity_and_gets_no_more_users() -> None:
    server = Server(slots=4)
    one, capacity = probe(server)
    assert one.users == 8
    assert capacity == pytest.approx(server.pace, rel=0.1)


def test_users_are_added_until_some_have_to_wait() -> None:
    server = Server(slots=12)
    one, capacity = probe(server, users=4)
    assert 12 < one.users <= 32
    assert capacity is not None and capacity > 1.1 * server.pace  # the time before it was saturated does not count


def test_a_server_that_says_nothing_has_no_capacity() -> None:
    began = time.perf_counter()
    _, capacity = probe(Server(slots=1, seconds=1000), seconds=0.5)
    assert capacity is None and time.perf_counter() - began < 4


def test_a_stop_ends_the_measurement() -> None:
    stopping = gevent.event.Event()
    one = Probe(Server(4).turn, stopping, Arrivals("measured", probe_s=60.0, probe_users=8))
    greenlet = gevent.spawn(one.run)
    gevent.sleep(0.05)
    stopping.set()
    assert greenlet.join(timeout=2) is None and greenlet.dead
