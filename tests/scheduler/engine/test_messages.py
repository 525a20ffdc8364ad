"""The wire: every message survives it, and nothing else gets through."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.core.events import (
    EVENT_TYPES,
    EngineStarted,
    FirstToken,
    Parts,
    RequestFinished,
    RequestParked,
    RequestPreempted,
    RequestQueued,
    RequestScheduled,
    RequestUnparked,
    SettingsChanged,
    StepCompleted,
)
from scheduler.core.holders import Blockers, Holding
from scheduler.core.request import NO_WAITS, FinishReason, SamplingParams, WaitReason
from scheduler.engine import messages as wire
from scheduler.errors import ProtocolError

EVENTS = [
    EngineStarted(1, 1, 5, 7, 5, (("policy", "fcfs"), ("policy_params", {})), 384, 16, "null", None, "null"),
    RequestQueued(1, 2, 6, "r1", 5, 10, 20, "a", "batch", 3, None, "run1"),
    RequestScheduled(1, 3, 7, 2, 0, 16, False, 3),
    RequestParked(1, 4, 7, 2, WaitReason.QUOTA, Blockers(2, (Holding("a", 2),), needed=30, tokens=60)),
    RequestUnparked(1, 5, 8, 2),
    RequestPreempted(1, 6, 9, 2, 0, 3, 40, True),
    FirstToken(1, 7, 10, 2),
    RequestFinished(1, 8, 11, 2, "r1", 0, FinishReason.STOP, None, 10, 0, 4, 1, Parts(NO_WAITS, 1, 2, 3, 4), 3),
    StepCompleted(
        1,
        9,
        12,
        1,
        8,
        12,
        256,
        WaitReason.SLOTS,
        NO_WAITS,
        2,
        0,
        380,
        (2, 3),
        ((4, 16, 1),),
        (3,),
        Blockers(16, (Holding("a", 9), Holding("b", 4, 3)), 3),
    ),
    SettingsChanged(1, 10, 13, 2, (("max_num_seqs", 8),)),
]
TO_ENGINE = [
    wire.Hello(wire.PROTOCOL, 3, {"policy": "fcfs"}, {"runner": "null"}),
    wire.Submit("r1", b"\1\0\0\0", SamplingParams(stop=("a", "b"), seed=7), 5, deadline_at=9),
    wire.Abort(["r1", "r2"], "client_gone"),
    wire.Patch(1, {"max_num_seqs": 4}, 2),
    wire.Hold(2, "pause"),
    wire.Shutdown(),
]
TO_WEB = [
    wire.Loading("reading weights", 5, 10),
    wire.Ready(wire.PROTOCOL, 3, 42, {"policy": "fcfs"}, 1, {"model": "m"}),
    wire.Failed("no weights", "model"),
    wire.Events(msgspec.msgpack.decode(msgspec.msgpack.encode([wire.pack_event(event) for event in EVENTS]))),
    wire.StepDone([], [1, 2], ["a", "é"], 12, 0),
    wire.StepDone([], [], [], 0, 0, wire.Pressure(True, 70, 1.5, -3, 0.0, 2e6, 1.2)),
    wire.Reply(1, 2, {"policy": "fcfs"}, False, "conflict", "stale", "version"),
]


def test_every_event_kind_has_an_example_here():
    assert {type(event) for event in EVENTS} == set(EVENT_TYPES)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_the_wire(event):
    row = msgspec.msgpack.decode(msgspec.msgpack.encode(wire.pack_event(event)))
    revived = wire.unpack_event(row)
    assert revived == event
    assert type(revived).__name__ == type(event).__name__


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 11, 1000])
def test_messages_cut_anywhere_arrive_whole_and_in_order(cut):
    for to_engine, sent in ((True, TO_ENGINE), (False, TO_WEB)):
        data = b"".join(wire.frame(message) for message in sent)
        unframer = wire.Unframer(to_engine=to_engine)
        received = [m for i in range(0, len(data), cut) for m in unframer.feed(data[i : i + cut])]
        assert received == sent


def test_a_message_of_the_wrong_direction_is_refused():
    with pytest.raises(ProtocolError):
        wire.Unframer(to_engine=True).feed(wire.frame(wire.Loading("x")))


def test_a_giant_frame_is_refused_before_it_is_read():
    with pytest.raises(ProtocolError, match="limit"):
        wire.Unframer(to_engine=True).feed(b"\xff\xff\xff\xff")


@given(st.binary(min_size=1, max_size=64))
@example(b"\x91\xa3\x00\x00\x80")  # a tag that is no UTF-8
def test_garbage_is_a_protocol_error_and_nothing_else(body):
    unframer = wire.Unframer(to_engine=True)
    try:
        messages = unframer.feed(len(body).to_bytes(4, "big") + body)
    except ProtocolError:
        return
    assert all(isinstance(message, wire.Message) for message in messages)


@pytest.mark.parametrize("row", [[], [99, 1, 2, 3], [2, 1], [7, 1, 8, 11, 2, "r", 0, "nonsense", None, 1, 1, 1, 1, []], ["x"]])
def test_an_event_that_does_not_fit_is_a_protocol_error(row):
    with pytest.raises(ProtocolError):
        wire.unpack_event(row)
