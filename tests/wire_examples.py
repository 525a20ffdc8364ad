"""One example of every message and of every kind of event, for the wire's tests."""

from __future__ import annotations

import msgspec

from scheduler.core.events import (
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
