"""Trials: after a death of the engine, each suspect has the next one alone until its first token; who came after waits.

Knows what is in flight and who is suspected; submits nothing itself, but says who is next.
Invariant: while one is tried nothing else is given to the engine, and nothing that is held is forgotten: it is given when
the last trial is over, or to the next engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import structs

from app.serving.answers import Track
from app.serving.in_flight import InFlight
from app.serving.suspects import Suspects, fingerprint
from scheduler.engine.messages import Submit


class Trials:
    """See the module. `begin` with each life of the engine, `over` at its death; between them `go_on` after each message."""

    def __init__(self, in_flight: InFlight, suspects: Suspects) -> None:
        self._in_flight = in_flight
        self._suspects = suspects
        self._given = False  # this life of the engine was given something
        self._tried: tuple[str, bytes] | None = None  # a sequence, and its fingerprint
        self._to_try: deque[str] = deque()
        self._held: list[str] = []

    @property
    def on(self) -> bool:
        """Has one the engine alone?"""
        return self._tried is not None

    def begin(self, tracks: Iterable[Track]) -> Iterator[Submit]:
        """A new engine is up, and these wait for it: the first suspect, or without any all of them."""
        self._given = True
        self._to_try.clear()
        self._held = []
        for track in tracks:
            if not self._suspects.any:
                yield from self._again(track.id)
            elif self._suspects.suspected(track.fingerprint):
                self._to_try.append(track.id)
            else:
                self._held.append(track.id)
        yield from self._next()

    def hold(self, ids: Iterable[str]) -> None:
        """These came while one is tried."""
        self._held += ids

    def holds(self, ids: Iterable[str]) -> bool:
        """Has the engine not got one of these yet?"""
        return self.on and not {*self._held, *self._to_try}.isdisjoint(ids)

    def holds_all(self, ids: Iterable[str]) -> bool:
        """Has the engine got none of these yet?"""
        return self.on and {*self._held, *self._to_try}.issuperset(ids)

    def go_on(self) -> Iterator[Submit]:
        """Once who is tried has got its first token, or has ended, it is the next one's turn."""
        if self._tried is not None and self._in_flight.before_token(self._tried[0]) is None:
            self._suspects.cleared(self._tried[1])
            yield from self._next()

    def over(self) -> bytes | None:
        """The engine died: the fingerprint of what it died of, if that is certain."""
        batch = self._in_flight.batch() if self._given else []
        self._given, self._tried = False, None
        return self._suspects.died([track.fingerprint for track in batch])

    def _next(self) -> Iterator[Submit]:
        self._tried = None
        while self._to_try:
            each = self._to_try.popleft()
            submit = self._in_flight.before_token(each)
            if submit is not None and self._suspects.suspected(seen := fingerprint(submit)):
                self._tried = (each, seen)
                yield from self._again(each)
                return
            self._held.append(each)
        held, self._held = self._held, []
        for each in held:
            yield from self._again(each)

    def _again(self, sequence_id: str) -> Iterator[Submit]:
        if (submit := self._in_flight.before_token(sequence_id)) is not None:
            yield structs.replace(submit, resubmitted=True)
