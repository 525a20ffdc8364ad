"""Answer: one POST on its way, from its submission to its last byte. Knows streams, not sockets; shapes, not JSON.

The bytes of a streamed answer come from its `Frames`, the words of a failure from `explain`. What the dispatcher calls
(queued, text, end, fail) never switches greenlets; waiting is done by the answer's own greenlet.
Invariant: exactly one of two ends: every sequence ended well, or `problem` says why not; nothing is said after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from app.api.errors import Problem
from app.serving.outlets import Outlet
from app.serving.suspects import fingerprint
from app.serving.token_streams import TokenStream
from scheduler.core.events import RequestFinished
from scheduler.core.request import FinishReason
from scheduler.engine.messages import Submit

ENDED_WELL = (FinishReason.STOP, FinishReason.LENGTH)


class Frames(Protocol):
    """The bytes of a streamed answer."""

    def opening(self) -> bytes:
        """What comes before any token."""

    def token(self, index: int, text: str) -> bytes:
        """A piece of the text of choice `index`."""

    def around(self, index: int) -> tuple[bytes, Callable[[str], bytes], bytes]:
        """Of what `token` is made: what comes before the text, how that is written, what comes after it."""

    def final(self, index: int, finished: RequestFinished) -> bytes:
        """Choice `index` ended well."""

    def closing(self, finished: Sequence[RequestFinished]) -> bytes:
        """All choices ended well."""

    def failure(self, problem: Problem) -> bytes:
        """The answer cannot go on."""


class Track:
    """One sequence in flight. `submit` is kept until the first token: so long it can be submitted again; then its
    fingerprint is. `outlet`: where its text leaves, if that is all to be done with it: the one sequence of a streamed answer
    that is not kept, until it is over."""

    __slots__ = (
        "answer", "index", "id", "submit", "_fingerprint", "number", "queued", "scheduled", "pieces", "finished", "outlet",
    )  # fmt: skip

    def __init__(self, answer: Answer, index: int, submit: Submit) -> None:
        self.answer = answer
        self.index = index
        self.id = submit.id
        self.submit: Submit | None = submit
        self._fingerprint = b""
        self.number = 0
        self.queued = False
        self.scheduled = False
        self.pieces: list[str] = []
        self.finished: RequestFinished | None = None
        self.outlet: Outlet | None = None

    @property
    def fingerprint(self) -> bytes:
        """See serving.suspects."""
        return self._fingerprint if self.submit is None else fingerprint(self.submit)

    def had_token(self) -> None:
        """It cannot be submitted again; its fingerprint stays."""
        self._fingerprint, self.submit = self.fingerprint, None


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
            if not keep_text and len(self.tracks) == 1:
                self.tracks[0].outlet = Outlet(stream, *frames.around(0))

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
            self._ended = 0  # all may have ended before the records refused it: nothing of that has left
            self.fail(problem)
        self.stream.wake()

    def fail(self, problem: Problem) -> None:
        """The answer cannot go on; streamed, the client is told in-stream."""
        if self.over:
            return
        self.problem = problem
        for track in self.tracks:
            track.outlet = None
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
        """A sequence without an outlet gained text."""
        if self.problem is not None or self._ended == len(self.tracks):  # `over`; a call of it for each token shows
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
        track.outlet = None
        if self._frames is not None:
            self._push(self._frames.final(track.index, event))
        if self.over:
            if self._frames is not None:
                self._push(self._frames.closing(self.finished))
            self.stream.end()

    def _push(self, data: bytes) -> None:
        if data:
            self.stream.push(data)
