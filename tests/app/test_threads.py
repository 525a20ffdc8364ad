"""Native threads and the way back: order is kept, errors come home, the hub never stands still."""

from __future__ import annotations

import gevent
import pytest
from gevent import socket as green
from web_builders import FakeSleep

from app.serving import threads


def test_what_native_threads_post_runs_in_greenlets_in_order() -> None:
    inbox, seen = threads.Inbox(), []
    done = gevent.event.Event()

    def work() -> None:
        for number in range(1000):
            inbox.post(lambda number=number: seen.append(number))
        inbox.post(done.set)

    threads.spawn(work)
    assert done.wait(5)
    assert seen == list(range(1000))
    inbox.close()


def test_a_posted_callable_that_fails_does_not_stop_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    inbox, done = threads.Inbox(), gevent.event.Event()
    inbox.post(lambda: 1 / 0)
    inbox.post(done.set)
    assert done.wait(5) and "ZeroDivisionError" in capsys.readouterr().err
    inbox.close()


def test_the_pool_brings_results_and_errors_back_and_prints_neither(capsys: pytest.CaptureFixture[str]) -> None:
    pool = threads.Pool(2)
    assert pool.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        pool.run(divmod, 1, 0)
    pool.close()
    assert capsys.readouterr().err == ""


def test_wait_for_returns_or_raises_what_the_callback_was_told() -> None:
    assert threads.wait_for(lambda done: gevent.spawn(done, "result", None)) == "result"
    with pytest.raises(KeyError):
        threads.wait_for(lambda done: gevent.spawn(done, None, KeyError("x")))


def test_a_native_queue_can_be_fed_by_a_greenlet() -> None:
    queue, answers = threads.new_queue(), threads.new_queue()
    threads.spawn(lambda: answers.put(queue.get() + 1))
    queue.put(1)
    assert answers.get(timeout=5) == 2


def test_a_reader_that_is_behind_lets_others_run_by_time_not_after_each_piece() -> None:
    time = FakeSleep()
    slept: list[float] = []
    breath = threads.Breath(time, slept.append, rounds=lambda: 0)
    for _ in range(10):
        time.sleep(threads.TURN_S / 4)
        breath()
    assert slept == [0, 0], "five quarters of a turn each"


def test_a_reader_that_has_slept_since_need_not_sleep_again() -> None:
    time, rounds = FakeSleep(), iter(range(100))
    slept: list[float] = []
    breath = threads.Breath(time, slept.append, rounds=lambda: next(rounds))
    for _ in range(10):
        time.sleep(threads.TURN_S * 2)
        breath()
    assert slept == []


def test_a_reader_that_had_to_wait_for_its_next_piece_is_seen_to_have_slept() -> None:
    ours, theirs = green.socketpair()
    time = FakeSleep()
    slept: list[float] = []
    with ours, theirs:
        breath = threads.Breath(time, slept.append)
        for _ in range(3):
            time.sleep(threads.TURN_S * 2)
            gevent.spawn(theirs.sendall, b"x")
            assert ours.recv(1) == b"x"
            breath()
        assert slept == []
        time.sleep(threads.TURN_S * 2)
        breath()
        assert slept == [0], "and one that had not is sent to sleep"
