"""Bugs to plant, each as a patch of the product and the number of seeds within which it must be found.

A harness that finds none of these proves nothing. Those marked (was) are faults that seeds found in the product, put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from app.event_feed import EventFeed
from app.serving.answers import Answer
from app.serving.in_flight import InFlight
from app.store import ledger
from app.store.scribe import Scribe
from app.store.writer import Writer
from app.supervisor.engine_life import EngineLife
from app.supervisor.pulse import Pulse
from scheduler.core.batching import Batching
from scheduler.core.blocks import BlockPool
from scheduler.core.events import RequestFinished
from scheduler.engine.loop import EngineLoop
from scheduler.errors import EngineGone

Plant = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Bug:
    """`within`: seeds from 0 on; about three times as many as it took when it was written."""

    name: str
    plant: Plant
    within: int


def _replace(owner: Any, name: str, new: Any) -> Plant:
    return lambda: mock.patch.object(owner, name, new)


# ---- the planted


def _drop_every_fifth_end() -> AbstractContextManager[Any]:
    report, count = EngineLoop._report, [0]

    def lossy(self: EngineLoop, events: list[Any], numbers: Any = None, texts: Any = None) -> None:
        kept = []
        for event in events:
            count[0] += isinstance(event, RequestFinished)
            if not (isinstance(event, RequestFinished) and count[0] % 5 == 0):
                kept.append(event)
        report(self, kept, numbers, texts)

    return mock.patch.object(EngineLoop, "_report", lossy)


def _take_twice() -> AbstractContextManager[Any]:
    take, count = EventFeed.take, [0]

    def twice(self: EventFeed, message: Any) -> None:
        take(self, message)
        count[0] += 1
        if count[0] % 40 == 0:
            take(self, message)

    return mock.patch.object(EventFeed, "take", twice)


def _lose_a_wake_up() -> AbstractContextManager[Any]:
    end = Answer.end

    def silent(self: Answer, track: Any, event: Any) -> None:
        stream: Any = self.stream
        with mock.patch.object(stream, "end", lambda: setattr(stream, "ended", True)):
            end(self, track, event)

    return mock.patch.object(Answer, "end", silent)


def _leak_a_block() -> AbstractContextManager[Any]:
    release = BlockPool.release

    def leaky(self: BlockPool, blocks: Any) -> None:
        release(self, blocks[:-1] if len(blocks) > 2 else blocks)

    return mock.patch.object(BlockPool, "release", leaky)


def _accept_before_commit() -> AbstractContextManager[Any]:
    accept = Writer.accept

    def early(self: Writer, row: Any, done: Any) -> None:
        done(None)
        accept(self, row, lambda error: None)

    return mock.patch.object(Writer, "accept", early)


def _hear_the_dead(self: EngineLife, boot: int, message: Any) -> None:
    del boot
    _MESSAGE(self, self._heard_boot, message)


_MESSAGE = EngineLife._message


def _forget_the_token(self: InFlight, event: Any) -> None:
    """Who had a token may be submitted again."""


def _one_too_many() -> AbstractContextManager[Any]:
    make = Batching.__init__

    def more(self: Batching, limits: Any, ceiling: int | None = None) -> None:
        make(self, limits, ceiling)
        self.budget += 1

    return mock.patch.object(Batching, "__init__", more)


def _drop_what_is_pending(self: Scribe, batch: Any, why: Any) -> None:
    self._refused = why


def _told_too_early(self: Writer, done: Callable[[], object]) -> None:
    self._notify(done)


def _keep_a_doubtful_row(connection: Any, rows: Any) -> None:
    """The row stays."""


@contextmanager
def _held_for_ever() -> Iterator[None]:
    def hold(self: EngineLife, what: str) -> Any:
        before = self.status.paused
        try:
            return _HOLD(self, what)
        except EngineGone:
            self.status.paused = before
            raise

    with mock.patch.object(EngineLife, "hold", hold):
        yield


_HOLD = EngineLife.hold


BUGS = (
    Bug("a RequestFinished is dropped", _drop_every_fifth_end, 10),
    Bug("a message is applied twice", _take_twice, 20),
    Bug("a wake-up is lost", _lose_a_wake_up, 20),
    Bug("a block is not given back", _leak_a_block, 20),
    Bug("an answer begins before its row is durable", _accept_before_commit, 200),
    Bug("messages of an old life are heard", _replace(EngineLife, "_message", _hear_the_dead), 200),
    Bug("what had a token is submitted again", _replace(InFlight, "_first_token", _forget_the_token), 100),
    Bug("the token budget is off by one", _one_too_many, 20),
    Bug("a hang is never seen", _replace(Pulse, "hung", False), 100),
    Bug("what the disk refused is forgotten", _replace(Scribe, "_keep", _drop_what_is_pending), 100),
    Bug("(was) an end is told before it is durable", _replace(Writer, "after", _told_too_early), 300),
    Bug("(was) a row that was refused stays", _replace(ledger, "withdraw", _keep_a_doubtful_row), 300),
    Bug("(was) a frozen engine is held for ever", _held_for_ever, 600),
)
