"""A session: the open loop never waits, everything begun is recorded, and the sum always holds."""

import time
from collections.abc import Iterable
from pathlib import Path

import gevent
import pytest
from fakes import CLOSE, FakeRequest, FakeServer, Step, refusal, well_behaved

from loadgen import library
from loadgen.results import Record, Recorder
from loadgen.scenario import Scenario
from loadgen.session import Job, Session, Share
from loadgen.target import Model, Target
from loadgen.workload import Limits

OPEN = """
title = "t"
description = "d"
duration_s = 1.0
timeout_s = 5
[[streams]]
name = "s"
arrivals = { process = "constant", rate = RATE }
mix = [{ kind = "k", prompt = { tokens = 20 }, output = { tokens = 4 } }]
"""
CLOSED = OPEN.replace('process = "constant", rate = RATE', 'process = "closed", users = 3')


def scenario(rate: float = 10.0, text: str = OPEN) -> Scenario:
    return library.parse("test", text.replace("RATE", str(rate)))


def session(url: str, wanted: Scenario, share: Share = Share(), path: Path | None = None, run: str = "r") -> Session:  # noqa: B008
    job = Job(wanted, run, 1, run, Model("fake", Limits()), share, time.perf_counter())
    return Session(job, Target(url), Recorder(path), None)


def play(url: str, wanted: Scenario, drain_s: float = 3.0) -> tuple[Session, list[Record]]:
    records: list[Record] = []
    one = session(url, wanted)
    one._on_record = records.append
    one.start()
    gevent.sleep(wanted.duration_s)
    one.drain(drain_s)
    one.cut()
    return one, records


class OneSlot:
    """A server that serves one request at a time, each for `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.free_at = 0.0

    def __call__(self, request: FakeRequest) -> Iterable[Step]:
        self.free_at = max(self.free_at, request.at) + self.seconds
        yield from well_behaved(first_s=self.free_at - request.at)(request)


def test_latency_from_due_grows_in_overload_and_lateness_stays_small() -> None:  # B17
    with FakeServer(OneSlot(0.25)) as server:
        _, records = play(server.url, scenario(rate=10.0))
    records.sort(key=lambda record: record.n)
    from_due = [record.first_ms - record.due_ms for record in records if record.first_ms and record.due_ms is not None]
    steps = [late - early for early, late in zip(from_due, from_due[1:], strict=False)]
    assert len(from_due) == 10
    assert sum(steps) / len(steps) == pytest.approx(150, abs=30)
    assert all(record.sent_ms - record.due_ms < 200 for record in records if record.due_ms is not None)


def test_an_open_loop_sends_on_time_to_a_server_that_never_answers() -> None:
    with FakeServer(lambda _: [3.0, CLOSE]) as server:
        one = session(server.url, scenario(rate=30.0))
        one.start()
        gevent.sleep(1.1)
        assert one.recorder.totals.sent == 30 and one.recorder.totals.in_flight == 30
        assert one.exhausted
        one.cut()
    assert one.recorder.totals.incomplete == 30 and one.recorder.totals.in_flight == 0


def test_what_is_in_flight_at_the_stop_is_incomplete_and_the_sum_holds(tmp_path: Path) -> None:
    def script(request: FakeRequest) -> Iterable[Step]:
        n = int(request.headers["x-request-id"].rpartition("-")[2])
        if n % 4 == 0:
            return refusal(429)
        answers: list[Iterable[Step]] = [refusal(500), [CLOSE], well_behaved(first_s=5.0)(request)]
        return answers[n % 3]

    with FakeServer(script) as server:
        one, records = play(server.url, scenario(rate=24.0), drain_s=0.1)
    totals = one.recorder.totals
    assert totals.sent == 24 == len(records) == len(server.posts)
    assert totals.sent == totals.ok + totals.failed + totals.refused + totals.cancelled + totals.incomplete
    assert totals.refused == 6 and totals.incomplete > 0 and totals.failed > 0
    assert {record.id for record in records} == {request.headers["x-request-id"] for request in server.posts}


def test_a_drain_waits_for_what_is_in_flight() -> None:
    with FakeServer(well_behaved(first_s=0.5)) as server:
        one, records = play(server.url, scenario(rate=10.0))
    assert {record.status for record in records} == {"ok"} and len(records) == 10


def test_a_later_drain_can_shorten_the_first() -> None:
    with FakeServer(well_behaved(first_s=4.0)) as server:
        one = session(server.url, scenario())
        one.start()
        gevent.sleep(0.2)
        began = time.perf_counter()
        first = gevent.spawn(one.drain, 30.0)
        gevent.sleep(0.05)
        one.drain(0.2)
        first.join(timeout=2)
        assert first.value is False and time.perf_counter() - began < 1.0
        one.cut()


def test_two_processes_share_a_schedule_without_overlap() -> None:
    with FakeServer() as server:
        alone = session(server.url, scenario(rate=20.0), run="alone")
        pair = [session(server.url, scenario(rate=20.0), Share(i, 2), run="pair") for i in range(2)]
        for one in [alone, *pair]:
            one.start()
        gevent.sleep(1.1)
        for one in [alone, *pair]:
            one.drain(2)
            one.cut()
    prompts = {
        run: sorted(r.json["prompt"].split()[6:] for r in server.posts if r.headers["x-batchscope-run"] == run)
        for run in ("alone", "pair")
    }
    assert prompts["alone"] == prompts["pair"] and len(prompts["pair"]) == 20
    assert len({r.headers["x-request-id"] for r in server.posts}) == 40


def test_a_change_of_rate_wakes_who_sleeps_until_an_arrival() -> None:
    text = OPEN.replace("duration_s = 1.0", "duration_s = 30.0")
    with FakeServer() as server:
        one = session(server.url, scenario(rate=0.1, text=text))
        one.start()
        gevent.sleep(0.05)
        assert one.recorder.totals.sent == 1  # the next is due in 10 s
        one.change_rate(one.elapsed, 10.0)
        one.change_rate(one.elapsed, 1000.0)
        with gevent.Timeout(5):
            while one.recorder.totals.sent < 6:
                gevent.sleep(0.01)
        one.cut()


def test_an_arrival_that_would_come_too_late_comes_after_all_when_the_rate_rises() -> None:
    with FakeServer() as server:
        one = session(server.url, scenario(rate=0.5))  # the second is due after the end
        one.start()
        gevent.sleep(0.05)
        assert one.recorder.totals.sent == 1 and not one.exhausted
        one.change_rate(one.elapsed, 10.0)
        gevent.joinall(one._dispatchers, timeout=5)
        assert one.exhausted and one.recorder.totals.sent == 5
        one.cut()


def test_users_beyond_what_the_rate_allows_rest() -> None:
    with FakeServer(well_behaved(first_s=0.2)) as server:
        wanted = scenario(text=CLOSED)
        one, stream = session(server.url, wanted), wanted.closed
        assert stream is not None
        one.change_rate(0.0, 0.5)  # round(1.5) of 3 users
        users = [gevent.spawn(one.turn, stream) for _ in range(3)]
        gevent.joinall(users, timeout=5)
        assert sorted(user.value is not None for user in users) == [False, True, True]
        halves = [session(server.url, wanted, Share(index, 2)) for index in range(2)]
        for half in halves:
            half.change_rate(0.0, 1.5)  # round(4.5) users, in two processes
        assert [half._allowed(stream) for half in halves] == [2, 2]
        for each in (one, *halves):
            each.cut()


def test_closed_loop_users_are_served_in_turn_and_stop_with_the_run() -> None:
    with FakeServer(well_behaved(first_s=0.05)) as server:
        wanted = scenario(text=CLOSED)
        one = session(server.url, wanted)
        one.start()
        stream = wanted.closed
        assert stream is not None
        users = [gevent.spawn(lambda: [r for _ in range(4) if (r := one.turn(stream))]) for _ in range(3)]
        gevent.joinall(users, timeout=5)
        one.stop()
        assert one.turn(stream) is None
        one.cut()
    assert one.recorder.totals.ok == 12 and server.connections == 3
    assert all(record.due_ms is None for user in users for record in user.value)


def test_headers_name_the_run_and_the_request() -> None:
    with FakeServer() as server:
        play(server.url, scenario(rate=3.0))
    assert [r.headers["x-request-id"] for r in server.posts] == ["r-0", "r-1", "r-2"]
    assert {r.headers["x-batchscope-run"] for r in server.posts} == {"r"}
