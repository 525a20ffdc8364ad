"""The engine's end of the pair: nothing is dropped, and a full outbox says so."""

from __future__ import annotations

import socket
import threading

import pytest

from scheduler.engine.framing import Unframer, frame
from scheduler.engine.messages import Hello, Loading
from scheduler.engine.pair import Pair
from scheduler.errors import EngineGone


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_a_reader_that_sleeps_loses_nothing(ends):
    ours, theirs = ends
    pair = Pair(ours, limit=10_000)
    sent = 0
    while not pair.full:
        pair.put(Loading("x" * 1000, sent, 0))
        sent += 1
    received, unframer = [], Unframer(to_engine=False)
    while len(received) < sent:
        received += unframer.feed(theirs.recv(1 << 16))
        pair.flush()
    assert [message.done for message in received] == list(range(sent))
    assert not pair.full


def test_commands_are_read_while_the_outbox_is_full(ends):
    ours, theirs = ends
    pair = Pair(ours, limit=10_000)
    while not pair.full:
        pair.put(Loading("x" * 1000))
    hello = Hello(1, 1, {}, {})
    theirs.sendall(frame(hello))
    assert pair.read(1.0) == [hello]


def test_the_other_side_gone_is_an_error_of_its_own(ends):
    ours, theirs = ends
    pair = Pair(ours)
    theirs.close()
    with pytest.raises(EngineGone):
        pair.read(1.0)
    with pytest.raises(EngineGone):
        for _ in range(3):
            pair.put(Loading("x"))


def test_at_the_end_of_a_life_all_of_the_outbox_goes_to_a_slow_reader(ends):
    ours, theirs = ends
    pair = Pair(ours)
    for number in range(2000):
        pair.put(Loading("x" * 1000, number, 0))
    received, unframer = [], Unframer(to_engine=False)

    def read() -> None:
        while data := theirs.recv(1 << 12):
            received.extend(unframer.feed(data))

    reader = threading.Thread(target=read)
    reader.start()
    pair.drain(20.0)
    pair.close()
    reader.join(20)
    assert [message.done for message in received] == list(range(2000))


def test_a_reader_that_never_reads_does_not_keep_a_life_from_ending(ends):
    pair = Pair(ends[0])
    for _ in range(2000):
        pair.put(Loading("x" * 1000))
    pair.drain(0.05)
