"""In flight: every POST between its acceptance and its end, and the way from core events to its stream.

Knows sequences, numbers and streams; the bytes of an answer come from its `Frames`, the words of a failure from `explain`.
`step` and `event` are called by the one dispatcher, in order, and never switch greenlets; an Answer's own greenlet does
everything that may block. Invariant: a sequence is here from before its submission until its one RequestFinished.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from app.api.errors import Problem
from app.serving.token_streams import TokenStream
from scheduler.core.events import Event, FirstToken, RequestFinished, RequestQueued, RequestScheduled
from scheduler.core.request import FinishReason
from scheduler.engine.messages import Submit

ENDED_WELL = (FinishReason.STOP, FinishReason.LENGTH)
_RECENT_ADMISSIONS = 64


class Frames(Protocol):
    """The bytes of a streamed answer."""

    def opening(self) -> bytes:
        """What comes before any token."""

    def token(self, index: int, text: str) -> bytes:
        """A piece of the text of choice `index`."""

    def final(self, index: int, finished: RequestFinished) -> bytes:
        """Choice `index` ended well."""

    def closing(self, finished: Sequence[RequestFinished]) -> bytes:
        """All choices ended well."""

    def failure(self, problem: Problem) -> bytes:
        """The answer cannot go on."""


class Track:
    """One sequence in flight. `submit` is kept until the first token: so long it can be submitted again."""

    __slots__ = ("answer", "index", "id", "submit", "number", "queued", "scheduled", "pieces", "finished")

    def __init__(self, answer: Answer, index: int, submit: Submit) -> None:
        self.answer = answer
        self.index = index
        self.id = submit.id
        self.submit: Submit | None = submit
        self.number = 0
        self.queued = False
        self.scheduled = False
        self.pieces: list[str] = []
        self.finished: RequestFinished | None = None


class Answer:
    """One POST on its way. Open once every sequence is queued and the row is durable; over when all ended or one failed."""

    def __init__(
        self,
        id: str,
        submits: Sequence[Submit],
        stream: TokenStream,
        explain: Callable[[RequestFinished], Problem],
        *,
        frames: Frames | None = None,
        keep_text: bool = True,
    ) -> None:
        self.id = id
        self.stream = stream
        self.problem: Problem | None = None
        self.committed = False
        self.delivered = False
        self.tracks = [Track(self, index, submit) for index, submit in enumerate(submits)]
        self._explain = explain
        self._frames = frames
        self._keep_text = keep_text
        self._queued = 0
        self._ended = 0
        if frames is not None:
            self._push(frames.opening())

    # ---- asked by its greenlet

    @property
    def open(self) -> bool:
        """The core said yes to all of it and the row is durable."""
        return self.committed and self._queued == len(self.tracks)

    @property
    def over(self) -> bool:
        """Nothing more will come."""
        return self.problem is not None or self._ended == len(self.tracks)

    @property
    def verdict(self) -> bool:
        """It is known whether the answer opens."""
        return self.open or self.problem is not None

    @property
    def unfinished(self) -> list[str]:
        """Ids of the sequences that the engine may still be working on."""
        return [track.id for track in self.tracks if track.finished is None]

    @property
    def texts(self) -> list[str]:
        """The output text so far, by choice."""
        return ["".join(track.pieces) for track in self.tracks]

    @property
    def finished(self) -> list[RequestFinished]:
        """How the sequences ended, by choice; complete once over without a problem."""
        return [track.finished for track in self.tracks if track.finished is not None]

    def wait(self, timeout: float | None = None) -> bool:
        """Until the verdict; False when the client left (or time ran out) before."""
        return self.stream.wait(lambda: self.verdict, timeout)

    def wait_over(self) -> bool:
        """Until the end; False when the client left before."""
        return self.stream.wait(lambda: self.over)

    def body(self, flush_headers: Callable[[], None]) -> Iterator[bytes]:
        """The WSGI body of a streamed answer."""
        return self.stream.body(flush_headers)

    # ---- told by others

    def commit(self, problem: Problem | None) -> None:
        """The row is durable, or `problem` says why not."""
        self.committed = problem is None
        if problem is not None:
            self.fail(problem)
        self.stream.wake()

    def fail(self, problem: Problem) -> None:
        """The answer cannot go on; streamed, the client is told in-stream."""
        if self.over:
            return
        self.problem = problem
        if self._frames is not None:
            self._push(self._frames.failure(problem))
        self.stream.end()

    def queued(self, track: Track) -> None:
        """The core took a sequence in."""
        if not track.queued:
            track.queued = True
            self._queued += 1
            if self._queued == len(self.tracks):
                self.stream.wake()

    def text(self, track: Track, text: str) -> None:
        """A sequence gained text."""
        if self.over:
            return
        if self._keep_text:
            track.pieces.append(text)
        if self._frames is not None:
            self.stream.push(self._frames.token(track.index, text))

    def end(self, track: Track, event: RequestFinished) -> None:
        """A sequence ended."""
        track.finished = event
        if self.over:
            return
        if event.reason not in ENDED_WELL:
            self.fail(self._explain(event))
            return
        self._ended += 1
        if self._frames is not None:
            self._push(self._frames.final(track.index, event))
        if self.over:
            if self._frames is not None:
                self._push(self._frames.closing(self.finished))
            self.stream.end()

    def _push(self, data: bytes) -> None:
        if data:
            self.stream.push(data)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a waiting request stands. `start_ms`: an estimate from recent admissions; None without any."""

    position: int
    start_ms: float | None


class InFlight:
    """All answers in flight, found by sequence id, and by number within the engine's present life."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._by_id: dict[str, Track] = {}
        self._by_number: dict[int, Track] = {}
        self._admissions: collections.deque[int] = collections.deque(maxlen=_RECENT_ADMISSIONS)
        self.waiting = 0
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            RequestQueued: self._queue,
            RequestScheduled: self._schedule,
            FirstToken: self._first_token,
            RequestFinished: self._finish,
        }

    @property
    def sequences(self) -> int:
        """Sequences that have not ended."""
        return len(self._by_id)

    def add(self, answer: Answer) -> None:
        """Follow an answer; to be called before its sequences are submitted."""
        for track in answer.tracks:
            self._by_id[track.id] = track

    def find(self, request_id: str) -> Answer | None:
        """The live answer with this id (a sequence's id finds its POST)."""
        track = self._by_id.get(request_id) or self._by_id.get(f"{request_id}/0")
        if track is None:
            track = next((each for each in self._by_id.values() if each.answer.id == request_id), None)
        return None if track is None else track.answer

    def answers(self) -> list[Answer]:
        """Every answer in flight, once."""
        return list({id(track.answer): track.answer for track in self._by_id.values()}.values())

    def drop(self, answer: Answer) -> None:
        """Forget an answer that never reached the engine, or that the web ended itself."""
        for track in answer.tracks:
            if track.finished is None:
                self._forget(track)

    # ---- the dispatcher

    def step(self, numbers: Sequence[int], texts: Sequence[str]) -> None:
        """The text of one step."""
        find = self._by_number.get
        for number, text in zip(numbers, texts, strict=True):
            if text and (track := find(number)) is not None:
                track.answer.text(track, text)

    def event(self, event: Event) -> None:
        """One core event; those of no concern to an answer are ignored."""
        handle = self._handlers.get(type(event))
        if handle is not None:
            handle(event)

    def _queue(self, event: RequestQueued) -> None:
        if (track := self._by_id.get(event.id)) is not None:
            track.number = event.seq
            self._by_number[event.seq] = track
            self.waiting += 1
            track.answer.queued(track)

    def _schedule(self, event: RequestScheduled) -> None:
        if (track := self._by_number.get(event.number)) is not None and not track.scheduled:
            track.scheduled = True
            self.waiting -= 1
            self._admissions.append(event.at)

    def _first_token(self, event: FirstToken) -> None:
        if (track := self._by_number.get(event.number)) is not None:
            track.submit = None
            track.answer.delivered = True

    def _finish(self, event: RequestFinished) -> None:
        if (track := self._by_id.get(event.id)) is not None:
            self._forget(track)
            track.answer.end(track, event)

    def place(self) -> Place:
        """Where the newest waiting request stands."""
        if len(self._admissions) < 2 or not self.waiting:
            return Place(self.waiting, None)
        span = self._clock() - self._admissions[0]
        return Place(self.waiting, round(self.waiting * span / len(self._admissions) / 1e6, 1))

    def engine_gone(self) -> tuple[list[Answer], list[Submit]]:
        """The engine died: answers that had delivered (they are lost), and what is to be submitted to the next one."""
        lost, again = [], []
        for answer in self.answers():
            if answer.delivered or answer.stream.lost is not None or answer.problem is not None:
                lost.append(answer)
                continue
            for track in answer.tracks:
                if track.finished is None and track.submit is not None:
                    again.append(track.submit)
                    track.scheduled = False
        self._by_number.clear()
        self.waiting = 0
        return lost, again

    def _forget(self, track: Track) -> None:
        self._by_id.pop(track.id, None)
        if self._by_number.pop(track.number, None) is not None and not track.scheduled:
            self.waiting -= 1
