"""Pusher: each browser gets a snapshot, then contiguous frames at its own pace; nobody's slowness makes a backlog."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from browser.live_script import MS, ScriptedEngine

from app.live import MAX_DASHBOARDS, NAMESPACE, QUEUE_DROP, QUEUE_SKIP, Pusher
from app.live_state import LiveState


class Socket:
    """The engine.io side of one client, as far as the pusher looks."""

    def __init__(self) -> None:
        self.queued, self.closed = 0, False
        self.queue = SimpleNamespace(qsize=lambda: self.queued)

    def close(self, *, wait: bool, abort: bool) -> None:
        assert abort and not wait
        self.closed = True


class SocketIO:
    """Keeps what was emitted; acknowledges at once unless `mute`."""

    def __init__(self) -> None:
        self.sockets: dict[str, Socket] = {}
        self.sent: list[tuple[str, str, Any]] = []
        self.mute: set[str] = set()
        self.acks: list[Callable[[], None]] = []
        self.handlers: dict[str, Any] = {}
        manager = SimpleNamespace(is_connected=lambda sid, _: sid in self.sockets, eio_sid_from_sid=lambda sid, _: sid)
        self.server = SimpleNamespace(manager=manager, eio=SimpleNamespace(sockets=self.sockets))

    def on_event(self, name: str, handler: Any, namespace: str) -> None:
        assert namespace == NAMESPACE
        self.handlers[name] = handler

    def emit(self, name: str, message: Any, *, namespace: str, to: str, callback: Callable[[], None] | None = None) -> None:
        self.sent.append((to, name, message))
        if callback and to in self.mute:
            self.acks.append(callback)
        elif callback:
            callback()

    def to(self, sid: str, name: str | None = None) -> list[Any]:
        return [message for who, what, message in self.sent if who == sid and name in (None, what)]


class Stage:
    """A pusher over a scripted engine, with time in hand."""

    def __init__(self) -> None:
        self.now = 0
        self.io, self.engine = SocketIO(), ScriptedEngine()
        self.state = LiveState(lambda: self.now)
        self.pusher = Pusher(self.io, self.state, spawn=lambda loop: None, sleep=lambda s: None, now=lambda: self.now)
        self.pusher.start()
        self.state.apply(self.engine.begin())
        for index in range(30):
            self.state.apply(self.engine.submit(f"r{index}", output=400))

    def join(self, sid: str) -> Socket:
        self.io.sockets[sid] = Socket()
        self.pusher.join(sid)
        return self.io.sockets[sid]

    def work(self, rounds: int = 1) -> None:
        """Each round: a step, 100 ms, a push."""
        for _ in range(rounds):
            for event in self.engine.step():
                self.state.apply(event)
            self.now += 100 * MS
            self.pusher.round()


def contiguous(stage: Stage, sid: str) -> int:
    """The last `to` after checking that every frame begins where the one before ended."""
    snapshot = stage.io.to(sid, "snapshot")[-1]
    at = int(snapshot["seq"])
    for frame in stage.io.to(sid, "frame"):
        assert frame["from"] == at
        at = frame["to"]
    return at


def test_a_client_gets_one_snapshot_and_then_contiguous_frames() -> None:
    stage = Stage()
    stage.join("a")
    stage.work(10)
    assert [name for who, name, _ in stage.io.sent] == ["snapshot"] + ["frame"] * 9
    assert contiguous(stage, "a") == stage.state.seq
    assert stage.state.gauges()["dashboards"] == 1


def test_a_client_that_does_not_acknowledge_is_skipped_and_gets_one_merged_frame() -> None:
    stage = Stage()
    stage.join("a")
    stage.join("b")
    stage.work(2)
    stage.io.mute.add("a")
    stage.work(20)
    assert len(stage.io.to("a", "frame")) == 2 and len(stage.io.to("b", "frame")) == 21
    stage.io.mute.clear()
    stage.io.acks.pop()()
    stage.work(1)
    assert contiguous(stage, "a") == stage.state.seq
    assert len(stage.io.to("a", "frame")[-1]["steps"]["seq"]) == 20


def test_an_acknowledgement_that_never_comes_does_not_silence_a_client_for_ever() -> None:
    stage = Stage()
    stage.join("a")
    stage.io.mute.add("a")
    stage.work(40)
    assert len(stage.io.sent) == 1
    stage.work(20)
    assert [name for _, name, _ in stage.io.sent] == ["snapshot", "frame"]


def test_a_long_send_queue_is_skipped_and_a_hopeless_one_dropped() -> None:
    stage = Stage()
    socket = stage.join("a")
    stage.work(1)
    socket.queued = QUEUE_SKIP + 1
    stage.work(5)
    assert len(stage.io.sent) == 1 and not socket.closed
    socket.queued = QUEUE_DROP + 1
    stage.work(1)
    assert socket.closed and stage.state.dashboards == 0


def test_a_closed_socket_is_forgotten_without_a_send() -> None:
    stage = Stage()
    stage.join("a").closed = True
    stage.work(2)
    assert stage.io.sent == [] and stage.state.dashboards == 0


def test_resync_is_answered_by_one_frame_from_there() -> None:
    stage = Stage()
    stage.join("a")
    stage.work(6)
    hole = stage.io.to("a", "frame")[1]["to"]
    stage.pusher.resync("a", {"boot": 1, "last": hole})
    stage.work(1)
    assert (stage.io.to("a", "frame")[-1]["from"], stage.io.to("a", "frame")[-1]["to"]) == (hole, stage.state.seq)


@pytest.mark.parametrize("message", [{"boot": 9, "last": 1}, {"boot": 1, "last": 10**9}, {"boot": 1, "last": "1"}, [], None])
def test_resync_from_nowhere_is_answered_by_a_snapshot_at_most_one_a_second(message: object) -> None:
    stage = Stage()
    stage.join("a")
    stage.work(1)
    for _ in range(20):
        stage.pusher.resync("a", message)
        stage.work(1)
    assert len(stage.io.to("a", "snapshot")) == 3


def test_a_new_engine_life_is_a_new_snapshot() -> None:
    stage = Stage()
    stage.join("a")
    stage.work(12)
    stage.state.apply(ScriptedEngine(boot=2, start=stage.now).begin())
    stage.now += 100 * MS
    stage.pusher.round()
    assert [snapshot["boot"] for snapshot in stage.io.to("a", "snapshot")] == [1, 2]


def test_at_rest_there_is_one_heartbeat_a_second_also_while_the_engine_is_down() -> None:
    stage = Stage()
    stage.join("a")
    stage.work(1)
    stage.state.engine_status("down", "killed")
    for _ in range(31):
        stage.now += 100 * MS
        stage.pusher.round()
    frames = stage.io.to("a", "frame")
    assert len(frames) == 4
    assert all(frame["from"] == frame["to"] and frame["gauges"]["engine"] == "down" for frame in frames)


def test_a_change_of_settings_sends_the_server_object_once() -> None:
    stage = Stage()
    stage.join("a")
    stage.work(2)
    stage.state.describe(device="cpu")
    stage.work(3)
    assert ["server" in frame for frame in stage.io.to("a", "frame")] == [False, True, False, False]


def test_a_run_is_told_at_once_to_those_who_have_a_snapshot() -> None:
    stage = Stage()
    stage.join("a")
    stage.work(1)
    stage.join("b")
    run = {"id": "run_1", "scenario": "first_look", "name": "first_look", "status": "running"}
    stage.pusher.run_changed(run)
    assert stage.io.sent[-1] == ("a", "run", run)
    stage.work(1)
    assert stage.io.to("b", "snapshot")[0]["run"] == run


def test_dashboards_are_bounded() -> None:
    stage = Stage()
    for index in range(MAX_DASHBOARDS):
        stage.join(str(index))
    with pytest.raises(ConnectionRefusedError):
        stage.join("one more")
    stage.pusher.leave("0")
    assert stage.state.dashboards == MAX_DASHBOARDS - 1


def test_a_client_that_cannot_be_sent_to_is_dropped_and_the_others_get_their_frames(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    broken = stage.join("a")
    stage.join("b")
    stage.work(1)
    send = stage.io.emit

    def emit(name: str, message: Any, **where: Any) -> None:
        if where["to"] == "a":
            raise KeyError(0)
        send(name, message, **where)

    stage.io.emit = emit  # type: ignore[method-assign]
    stage.work(3)
    assert broken.closed and stage.state.dashboards == 1 and len(stage.io.to("b", "frame")) == 3
    assert "dropped" in caplog.text


def test_a_snapshot_waits_until_nothing_else_waits_to_be_sent() -> None:
    stage = Stage()
    socket = stage.join("a")
    socket.queued = 1
    stage.work(3)
    assert stage.io.sent == []
    socket.queued = 0
    stage.work(1)
    assert [name for _, name, _ in stage.io.sent] == ["snapshot"]
