"""Builders for tests of the web room: events, submits, a stream that keeps what it is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from app.api.errors import Problem
from app.serving.answers import Answer
from scheduler.core.events import Event, FirstToken, Parts, RequestFinished, RequestQueued, RequestScheduled, StepCompleted
from scheduler.core.request import NO_WAITS, FinishReason, SamplingParams, WaitReason
from scheduler.engine.messages import StepDone, Submit, pack_event

ENGINE_BOOT = 2


class FakeStream:
    """What an Answer needs of a TokenStream, without a socket."""

    def __init__(self) -> None:
        self.sent = b""
        self.ended = False
        self.closed = False
        self.lost: str | None = None
        self.woken = 0

    def push(self, data: bytes) -> None:
        self.sent += data

    def lend_to(self, lend: Callable[[Any], None]) -> None:
        lend(None)

    def end(self) -> None:
        self.ended = True

    def wake(self) -> None:
        self.woken += 1

    def close(self) -> None:
        self.closed = True


class PlainFrames:
    """Frames that can be read at a glance."""

    def opening(self) -> bytes:
        return b"<"

    def token(self, index: int, text: str) -> bytes:
        return f"{index}:{text} ".encode()

    def around(self, index: int) -> tuple[bytes, Callable[[str], bytes], bytes]:
        return f"{index}:".encode(), str.encode, b" "

    def final(self, index: int, finished: RequestFinished) -> bytes:
        return f"{index}={finished.reason.value} ".encode()

    def closing(self, finished: Sequence[RequestFinished]) -> bytes:
        return b">"

    def failure(self, problem: Problem) -> bytes:
        return f"!{problem.code}>".encode()


def submit(id: str = "req_a", **fields: Any) -> Submit:
    defaults: dict[str, Any] = {"prompt": b"\x01\0\0\0", "params": SamplingParams(), "received_at": 0}
    return Submit(id=id, **(defaults | fields))


def explain(event: RequestFinished) -> Problem:
    return Problem(500, "it ended badly", None, event.detail or event.reason.value)


def answer(*ids: str, streamed: bool = True, **fields: Any) -> Answer:
    """An answer over a FakeStream, with a sequence for each id."""
    frames = PlainFrames() if streamed else None
    stream: Any = FakeStream()
    return Answer(
        (ids or ("req_a",))[0].partition("/")[0],
        [submit(id) for id in ids or ("req_a",)],
        stream,
        explain,
        frames=frames,
        **fields,
    )


def queued(id: str = "req_a", seq: int = 1, **fields: Any) -> RequestQueued:
    defaults: dict[str, Any] = {
        "received_at": 0, "prompt_tokens": 3, "max_tokens": 4, "tenant": "default", "kind": "interactive", "priority": 0,
        "deadline_at": None, "run": None,
    }  # fmt: skip
    return RequestQueued(fields.pop("boot", ENGINE_BOOT), seq, fields.pop("at", 0), id=id, **(defaults | fields))


def scheduled(number: int = 1, seq: int = 10, at: int = 1000, *, resumed: bool = False) -> RequestScheduled:
    return RequestScheduled(ENGINE_BOOT, seq, at, number, 0, 0, resumed)


def first_token(number: int = 1, seq: int = 11, at: int = 2000) -> FirstToken:
    return FirstToken(ENGINE_BOOT, seq, at, number)


def finished(id: str = "req_a", number: int = 1, reason: FinishReason = FinishReason.STOP, **fields: Any) -> RequestFinished:
    defaults: dict[str, Any] = {
        "slot": 0, "detail": None, "prompt_tokens": 3, "cached_tokens": 0, "output_tokens": 2, "preemptions": 0,
        "parts": Parts(NO_WAITS, 1_000_000, 2_000_000, 0, 0),
    }  # fmt: skip
    seq, at = fields.pop("seq", 20), fields.pop("at", 3_000_000)
    return RequestFinished(ENGINE_BOOT, seq, at, number=number, id=id, reason=reason, **(defaults | fields))


def step(seq: int = 15, started_at: int = 0, ended_at: int = 10_000_000, **fields: Any) -> StepCompleted:
    defaults: dict[str, Any] = {
        "step": 1, "token_budget": 64, "binding": WaitReason.STEP, "waiting_by_reason": NO_WAITS, "running": 1, "preempted": 0,
        "blocks_free": 9, "decodes": (1,), "chunks": (),
    }  # fmt: skip
    return StepCompleted(ENGINE_BOOT, seq, ended_at, started_at=started_at, ended_at=ended_at, **(defaults | fields))


def step_done(events: list[Event], numbers: list[int] | None = None, texts: list[str] | None = None) -> StepDone:
    return StepDone([pack_event(event) for event in events], numbers or [], texts or [])


class FakeSleep:
    """A clock that only sleeping moves; `until` ends an endless loop by raising."""

    def __init__(self, until: float = 1e9) -> None:
        self.now = 0.0
        self.until = until

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now > self.until:
            raise TimeoutError("the fake clock ran out")


Dispatch = Callable[[Any], None]
