"""EventFeed: what the engine says, once unpacked, handed to all who listen, in a fixed order. Knows none of them.

Order within a message: the text of a step to its streams first (a token is what somebody waits for), then its events to
every listener, in the order of subscription. Invariant: each listener gets every event of the present boot, in order; a
listener that raises is counted and logged, and neither stops the others nor the feed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from scheduler.core.events import Event
from scheduler.engine.messages import Events, StepDone, unpack_event

log = logging.getLogger("batchscope")


class EventFeed:
    """One reader calls `take`. `breathe` is called after each step, so that a saturated engine cannot starve the rest.

    While `behind()` a message is not over: `rest` is called, the next one stays unread, and the engine, its outbox full,
    stops stepping.
    """

    def __init__(
        self,
        on_text: Callable[[Sequence[int], Sequence[str]], None],
        breathe: Callable[[], object],
        *,
        behind: Callable[[], bool] = lambda: False,
        rest: Callable[[], object] = lambda: None,
    ) -> None:
        self._on_text = on_text
        self._breathe = breathe
        self._behind = behind
        self._rest = rest
        self._listeners: list[tuple[str, Callable[[list[Event], StepDone | None], None]]] = []
        self.failures: Counter[str] = Counter()

    def subscribe(self, name: str, listener: Callable[[list[Event], StepDone | None], None]) -> None:
        """`listener(events, step)` gets the events of each message; `step` is the message itself when it was a step."""
        self._listeners.append((name, listener))

    def take(self, message: Events | StepDone) -> None:
        """One message of the engine that carries events."""
        step = message if isinstance(message, StepDone) else None
        if step is not None:
            self._call("streams", self._on_text, step.numbers, step.texts)
        events = [unpack_event(row) for row in message.events]
        for name, listener in self._listeners:
            self._call(name, listener, events, step)
        if step is not None:
            self._breathe()
        while self._behind():
            self._rest()

    def _call(self, name: str, listener: Callable[..., None], *args: Any) -> None:
        try:
            listener(*args)
        except Exception:  # noqa: BLE001 - one listener's bug must not cut the others off; it is counted and logged
            self.failures[name] += 1
            log.exception("listener %s failed on an event", name)
