"""The engine process: it serves over the pair, and neither side outlives the other unnoticed."""

from __future__ import annotations

import os
import queue
import signal
import time
from array import array

import pytest

from scheduler.core.events import RequestFinished
from scheduler.core.request import SamplingParams
from scheduler.engine.client import EngineClient
from scheduler.engine.local import LocalEngine
from scheduler.engine.messages import PROTOCOL, Failed, Hello, Ready, Submit, unpack_event
from scheduler.errors import EngineGone

GONE = object()


def started(kind: type, **model: object):
    box: queue.Queue = queue.Queue()
    engine = kind(box.put, lambda: box.put(GONE))
    engine.start(Hello(PROTOCOL, 1, {}, {"runner": "null", **model}))
    return engine, box


def take(box: queue.Queue, kind: object):
    while True:
        message = box.get(timeout=20)
        if message is kind or (isinstance(kind, type) and isinstance(message, kind)):
            return message
        assert message is not GONE, "the engine is gone"


def finished(box: queue.Queue) -> RequestFinished:
    while True:
        message = box.get(timeout=20)
        assert message is not GONE
        for row in getattr(message, "events", []):
            if isinstance(event := unpack_event(row), RequestFinished):
                return event


def submit(id: str = "r", max_tokens: int = 5) -> Submit:
    return Submit(id, array("I", range(40)).tobytes(), SamplingParams(max_tokens=max_tokens), time.monotonic_ns())


@pytest.mark.parametrize("kind", [EngineClient, LocalEngine])
def test_a_request_goes_through_and_the_engine_stops_when_asked(kind):
    engine, box = started(kind)
    take(box, Ready)
    engine.submit(submit())
    assert finished(box).output_tokens == 5
    assert engine.hold("pause").paused
    assert engine.patch({"max_num_seqs": 2}, 1).version == 2
    engine.stop()
    take(box, GONE)
    assert not engine.alive
    with pytest.raises(EngineGone):
        engine.submit(submit("late"))


def test_a_killed_engine_is_noticed_once_and_waiting_callers_are_told():
    engine, box = started(EngineClient)
    ready = take(box, Ready)
    os.kill(ready.pid, signal.SIGKILL)
    take(box, GONE)
    with pytest.raises(EngineGone):
        engine.hold("pause", timeout=1)
    assert box.empty()


def test_an_engine_whose_web_process_is_gone_ends_itself():
    engine, box = started(EngineClient)
    take(box, Ready)
    process = engine._process
    engine._sock.shutdown(2)
    assert process.wait(10) is not None


def test_a_setting_that_cannot_be_is_told_and_ends_the_life():
    engine, box = started(EngineClient, hardware="no-such-gpu", runner="simulated")
    failed = take(box, Failed)
    assert (failed.param, "no-such-gpu" in failed.message) == ("hardware", True)
    take(box, GONE)
    assert not engine.alive
