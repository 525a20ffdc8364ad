"""In flight: every POST between its acceptance and its end, and the way from core events to its answer.

Knows sequences and numbers, no socket and no JSON. `step` and `event` are called by the one dispatcher, in order, and never
switch greenlets. Invariant: a sequence is here from before its submission until its one RequestFinished.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.serving.answers import ENDED_WELL, Answer, Track
from app.serving.outlets import Outlet, push_each
from scheduler.core.events import Event, FirstToken, RequestFinished, RequestQueued, RequestScheduled
from scheduler.engine.messages import Submit

_RECENT_ADMISSIONS = 64
_TOKEN_BYTES = 4


@dataclass(frozen=True, slots=True)
class Place:
    """Where a waiting request stands among those not admitted yet, in the order in which they came.

    `start_ms`: an estimate from recent admissions; None without any.
    """

    position: int
    start_ms: float | None


class InFlight:
    """All answers in flight, found by sequence id, and by number within the engine's present life.

    `when_recorded(done)` calls `done` once what the records were given so far is durable; at once if there are no records.
    """

    def __init__(
        self,
        clock: Callable[[], int] = time.monotonic_ns,
        when_recorded: Callable[[Callable[[], object]], object] | None = None,
    ) -> None:
        self._clock = clock
        self._when_recorded = when_recorded or (lambda done: done())
        self._by_id: dict[str, Track] = {}
        self._by_number: dict[int, Track] = {}
        self._admissions: collections.deque[int] = collections.deque(maxlen=_RECENT_ADMISSIONS)  # readings of the busy clock
        self._busy_ns = 0  # the busy clock: time in which somebody waited; only then do admissions tell how fast a queue drains
        self._busy_since = 0
        self.waiting = 0
        self.undecided = 0  # sequences submitted whose verdict is still out, and their prompt tokens
        self.undecided_tokens = 0
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
            self._decide(track, +1)

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
        outlets: list[Outlet] = []
        pieces: list[str] = []
        for number, text in zip(numbers, texts, strict=True):
            if text and (track := find(number)) is not None:
                if (outlet := track.outlet) is None:
                    track.answer.text(track, text)
                else:
                    outlets.append(outlet)
                    pieces.append(text)
        push_each(outlets, pieces)

    def event(self, event: Event) -> None:
        """One core event; those of no concern to an answer are ignored."""
        handle = self._handlers.get(type(event))
        if handle is not None:
            handle(event)

    def _queue(self, event: RequestQueued) -> None:
        if (track := self._by_id.get(event.id)) is not None:
            if not track.queued:
                self._decide(track, -1)
            track.number = event.seq
            self._by_number[event.seq] = track
            self._wait(+1, event.at)
            track.answer.queued(track)

    def _schedule(self, event: RequestScheduled) -> None:
        if (track := self._by_number.get(event.number)) is not None and not track.scheduled:
            track.scheduled = True
            self._admissions.append(self._busy(event.at))
            self._wait(-1, event.at)

    def _first_token(self, event: FirstToken) -> None:
        if (track := self._by_number.get(event.number)) is not None:
            track.had_token()
            track.answer.delivered = True

    def _finish(self, event: RequestFinished) -> None:
        if (track := self._by_id.get(event.id)) is not None:
            self._forget(track)
            track.finished = event
            if event.reason in ENDED_WELL:  # no client is told so of a row that a crash could still end otherwise
                self._when_recorded(partial(track.answer.end, track, event))
            else:
                track.answer.end(track, event)

    def place(self) -> Place:
        """Where the newest waiting request stands."""
        return self._at(self.waiting)

    def place_of(self, request_id: str) -> Place | None:
        """Where the first sequence of a POST stands that waits for its first admission; None when none does."""
        answer = self.find(request_id)
        numbers = [track.number for track in answer.tracks if _waits(track)] if answer is not None else []
        if not numbers:
            return None
        first = min(numbers)
        return self._at(sum([number <= first and not track.scheduled for number, track in self._by_number.items()]))

    def _at(self, position: int) -> Place:
        if len(self._admissions) < 2 or not position:
            return Place(position, None)
        span = self._busy(self._clock()) - self._admissions[0]
        return Place(position, round(position * span / len(self._admissions) / 1e6, 1))

    def batch(self) -> list[Track]:
        """What the engine is working on, as far as it has told: what it scheduled; else the only one that it has queued, or
        the first of which it has said nothing yet."""
        known = list(self._by_number.values())
        if running := [track for track in known if track.scheduled]:
            return running
        return known if len(known) == 1 else [track for track in self._by_id.values() if not track.number][:1]

    def engine_gone(self) -> list[Answer]:
        """The engine died: the answers that are lost with it. The others stay, and are not known to any engine now."""
        for track in self._by_number.values():
            track.number = 0
            track.scheduled = False
        self._by_number.clear()
        self._wait(-self.waiting, self._clock())
        return [one for one in self.answers() if one.delivered or one.stream.lost is not None or one.problem is not None]

    def unsubmitted(self) -> Iterator[tuple[Track, Submit]]:
        """What a new life of the engine must be given; looked at afresh each time, since answers end meanwhile."""
        for track in list(self._by_id.values()):
            if (submit := self.before_token(track.id)) is not None:
                yield track, submit

    def before_token(self, sequence_id: str) -> Submit | None:
        """How to submit this sequence again; None once it had a token or ended."""
        track = self._by_id.get(sequence_id)
        return None if track is None or track.finished is not None else track.submit

    def _forget(self, track: Track) -> None:
        if self._by_id.pop(track.id, None) is not None and not track.queued:
            self._decide(track, -1)
        if self._by_number.pop(track.number, None) is not None and not track.scheduled:
            self._wait(-1, self._clock())

    def _decide(self, track: Track, more: int) -> None:
        self.undecided += more
        self.undecided_tokens += more * (0 if track.submit is None else len(track.submit.prompt) // _TOKEN_BYTES)

    def _busy(self, now: int) -> int:
        return self._busy_ns + (max(0, now - self._busy_since) if self.waiting else 0)

    def _wait(self, more: int, now: int) -> None:
        if not self.waiting:
            self._busy_since = now
        elif not self.waiting + more:
            self._busy_ns = self._busy(now)
        self.waiting += more


def _waits(track: Track) -> bool:
    return bool(track.number) and not track.scheduled and track.finished is None
