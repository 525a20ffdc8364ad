"""Backlog: what was handed to the writer and waits for its thread. Knows no database and no thread.

Callers append on their side, the thread takes on its own: deques, whose append and popleft are atomic, sums of what was
handed over that one side each writes, and a native queue as the only thing that anybody blocks on. Events stay in the
messages that they came in: a tuple an event would cost more than handing it over does.
Invariant: `take` gives nothing before what was handed over earlier: an event not before its request's row, a job or a mark
not before everything that came before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty
from typing import Any, Protocol

from app.store.accepted import AcceptedRow
from app.store.fold import Item
from app.store.scribe import Done, Job, Message
from scheduler.core.events import StepCompleted

SLICES_A_ROW = 16  # so many slices of a step that waits take the memory of one row
MOST_ITEMS = 2_000  # events in one transaction: an accept that comes meanwhile waits for it


class WakeQueue(Protocol):
    """What a native queue.SimpleQueue offers."""

    def put(self, item: None) -> None: ...
    def get(self, block: bool = True, timeout: float | None = None) -> None: ...
    def empty(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Taken:
    """For one transaction, and after it: `marks` to call, and the `job` whose turn it then is."""

    accepts: list[tuple[AcceptedRow, Done]]
    messages: list[Message]
    marks: list[Callable[[], object]]
    job: Job | None


class Backlog:
    """See the module. `put`, `accept`, `mark`, `ask` are the callers'; `wait`, `take`, `job_ended` the thread's."""

    def __init__(self, wake: WakeQueue) -> None:
        self.accepts: deque[tuple[AcceptedRow, Done]] = deque()
        self.messages: deque[tuple[Message, int]] = deque()  # each with its slices
        self.jobs: deque[Job] = deque()
        self.marks: deque[Callable[[], object]] = deque()
        self.pressing = False  # what waits is more than steps: somebody may ask for it soon
        self.more = False  # the last transaction was full: there may be events that nobody will poke for
        self._wake = wake
        self._poked = False
        self._hurried = False
        self._items_put = self._slices_put = 0  # written by the callers' side alone,
        self._items_taken = self._slices_taken = 0  # and these by the thread's: their difference is what waits

    @property
    def rows(self) -> int:
        """How much waits, in rows of about the same memory."""
        items, slices = self._items_put - self._items_taken, self._slices_put - self._slices_taken
        return len(self.accepts) + items + slices // SLICES_A_ROW

    @property
    def events(self) -> int:
        """How many events and words of the web wait."""
        return self._items_put - self._items_taken

    @property
    def urgent(self) -> bool:
        """Is somebody to be answered by the next transaction, or is there enough for it?"""
        return bool(self.accepts or self.jobs) or self.events >= MOST_ITEMS

    @property
    def empty(self) -> bool:
        """Nothing waits to be written or done."""
        return not (self.accepts or self.messages or self.jobs)

    # ---- the callers' side

    def accept(self, row: AcceptedRow, done: Done) -> None:
        """A new request: the thread wakes."""
        self.accepts.append((row, done))
        if not self._hurried:  # one token is enough for all that come before the thread looks
            self._hurried = True
            self.wake()

    def put(self, items: Sequence[Item], host_late_ns: int) -> None:
        """Events and the web's own words, in order, not to be changed from now on; `host_late_ns` of the step among them."""
        before, only_steps = self.events, True
        for at in range(0, len(items), MOST_ITEMS):  # once, nearly always; no transaction takes more
            piece = items[at : at + MOST_ITEMS]
            slices = [len(item.decodes) for item in piece if type(item) is StepCompleted]
            only_steps &= len(slices) == len(piece)
            self._items_put += len(piece)  # before they are there to be taken: the difference is never negative
            self._slices_put += sum(slices)
            self.messages.append(((piece, host_late_ns), sum(slices)))
        if not only_steps:
            self._press()
        elif not self._poked or before < MOST_ITEMS <= self.events:  # one poke wakes the thread for all the steps that follow
            self._poked = True
            self.wake()

    def mark(self, done: Callable[[], object]) -> None:
        """`done` is for after all that was handed over before."""
        self.marks.append(done)
        self._press()

    def ask(self, job: Job) -> None:
        """Work for after all that was handed over before: the thread wakes."""
        self.jobs.append(job)
        self.wake()

    def wake(self) -> None:
        """Have the thread look."""
        self._wake.put(None)

    def _press(self) -> None:
        if not self.pressing:
            self.pressing = True
            self.wake()

    # ---- the thread's side

    def wait(self, timeout: float) -> bool:
        """Until somebody wakes the thread; False when nobody did in time."""
        try:
            self._wake.get(timeout=timeout)
        except Empty:
            return False
        return True

    def take(self) -> Taken:
        """What the next transaction shall hold."""
        self._poked = self._hurried = self.pressing = False
        while not self._wake.empty():
            self._wake.get()
        job = self.jobs[0] if self.jobs else None  # looked at first: what was handed over before it is then written before it
        marks = drain(self.marks)  # before the events: those of each are then among the events drained now or earlier
        messages = self._some_messages()  # before the accepts: the accept of each is then drained now or earlier
        accepts = drain(self.accepts)
        if self.more:  # job and marks are for after all that was handed over before them: their turn has not come
            job = None
            self.marks.extendleft(reversed(marks))
            marks.clear()
        return Taken(accepts, messages, marks, job)

    def _some_messages(self) -> list[Message]:
        """As many as one transaction takes."""
        taken: list[Message] = []
        room, self.more = MOST_ITEMS, False
        while self.messages:
            message, slices = self.messages[0]
            room -= len(message[0])
            if room < 0:
                self.more = True
                break
            self.messages.popleft()
            taken.append(message)
            self._items_taken += len(message[0])
            self._slices_taken += slices
        return taken

    def job_ended(self) -> None:
        """The job that `take` gave has had its answer."""
        self.jobs.popleft()


def drain(items: deque[Any]) -> list[Any]:
    """What is there, in order."""
    return [items.popleft() for _ in range(len(items))]
