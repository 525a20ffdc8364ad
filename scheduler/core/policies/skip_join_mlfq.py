"""Feedback levels that a request joins by its prompt."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from scheduler.core.policies.base import PREEMPT, Books, Departure, Param, PolicyInfo, Standoff
from scheduler.core.policies.queues import SortedQueue
from scheduler.core.request import Request

MS = 1_000_000
PROMOTED_PER_STEP = 8  # each costs as much as an arrival: a step must not feel it
DISPLACED_AT_ONCE = 4  # each computes a sequence again: a crowd of newcomers must not keep the engine at that
DISPLACED_PER_STEP = 0.25


class SkipJoinMlfq(Books):
    """Who has been served least runs first: short requests end before they sink, and nobody's length is asked for.

    Formula: service s = prompt_weight · prompt tokens + output tokens; level = the first l with s <= quantum · 2^l. A new
    request so joins at the level whose quantum covers its prefill, and skips those above; who runs sinks as its output
    grows. Key = (level, received_at). With `preempt`, a waiting request takes the place of the running one on the lowest
    level (the most served of them), if that is lower than its own: 4 of them at once, then one every fourth step. A
    preempted request waits on the level that it had reached.
    Who has waited `promote_ms` is put on the top level, and starts there with its service forgotten; at most 8 a step.
    Source: FastServe (Wu et al., NSDI'26), in tokens instead of milliseconds.
    Guarantee: no length is known or asked for. Whoever has waited `promote_ms` is passed only by requests that came
    before it, so nobody starves. The price is KV memory: each displaced request is computed again.
    """

    def __init__(
        self,
        quantum: float = 16.0,
        levels: int = 6,
        prompt_weight: float = 0.05,
        promote_ms: float = 3000.0,
        preempt: int = 1,
    ) -> None:
        self.preempts = bool(preempt)
        self._quanta = [quantum * 2**level for level in range(levels - 1)]
        self._prompt_weight = prompt_weight
        self._promote = int(promote_ms * MS)
        self._queue = SortedQueue()
        self._below: OrderedDict[int, tuple[int, Request]] = OrderedDict()  # who waits below the top, and since when
        self._looked_at = -1
        self._standoff = Standoff()
        self._displaceable: float = DISPLACED_AT_ONCE

    def _offset(self, request: Request) -> float:
        """Service less length: what the prompt counts for instead of its tokens."""
        return (self._prompt_weight - 1) * request.prompt_tokens

    def _service(self, request: Request) -> float:
        offset: Any = request.queue_data
        return float(len(request.tokens) + offset)

    def level_of(self, request: Request) -> int:
        """0 is the top."""
        return bisect_left(self._quanta, self._service(request))

    def enqueue(self, request: Request, now: int) -> None:
        """On the level of its service, among those who came when it did."""
        if request.queue_data is None:
            request.queue_data = self._offset(request)
        if request.preemptions and request.parked is None:
            self._displaceable = max(0.0, self._displaceable - 1)
        level = self.level_of(request)
        request.key = (level, request.received_at)
        self._queue.push(request)
        if level:
            self._below[request.number] = (now, request)

    def head(self, now: int) -> Request | None:
        """The oldest of the highest level."""
        if now != self._looked_at:
            self._looked_at = now
            self._promote_old(now)
        return self._queue.first()

    def _promote_old(self, now: int) -> None:
        for _ in range(min(PROMOTED_PER_STEP, len(self._below))):
            since, request = next(iter(self._below.values()))
            if now - since < self._promote:
                break
            del self._below[request.number]
            self._queue.remove(request)
            request.queue_data = -float(len(request.tokens))
            request.key = (0, request.received_at)
            self._queue.push(request)

    def dequeue(self, request: Request, why: Departure) -> None:
        """Out of its place."""
        self._queue.remove(request)
        self._below.pop(request.number, None)

    def tick(self, decodes: Sequence[Request], changed: bool) -> None:
        """All decodes have sunk by a token."""
        self._standoff.step(changed)
        self._displaceable = min(DISPLACED_AT_ONCE, self._displaceable + DISPLACED_PER_STEP)

    def victim(self, running: Sequence[Request], needy: Request) -> Request | None:
        """Who has been served most, of equals the newest; for a waiting request, only from below its own level."""
        if needy.slot < 0 and self._displaceable < 1:
            return None
        return self._standoff.yields(needy, running, _most_served, self._reprieve)

    def _reprieve(self, needy: Request, service: float) -> float:
        """Until it has sunk below the level of `needy`, by a token a step."""
        level = self.level_of(needy)
        return self._quanta[level] - service if level < len(self._quanta) else float("inf")

    def adopt(self, waiting: Iterable[Request], running: Sequence[Request], now: int) -> None:
        """Everybody by the service that it has had; waiting counts from now."""
        for request in running:
            request.queue_data = self._offset(request)
        for request in waiting:
            request.queue_data = self._offset(request)
            self.enqueue(request, now)


def _most_served(running: Sequence[Request]) -> tuple[float, Request | None]:
    """The largest service, and whose it is; of equals, the newest."""
    most, worst = 0.0, None
    for request in running:
        offset: Any = request.queue_data
        service = len(request.tokens) + offset
        if worst is None or service > most or (service == most and request.number > worst.number):
            most, worst = service, request
    return most, worst


INFO = PolicyInfo(
    name="skip_join_mlfq",
    help="feedback levels: who has been served least runs first; a long prompt joins lower",
    params=(
        Param("quantum", 16.0, 1.0, 1_000_000.0, "service on the top level, output tokens; doubles with each level below"),
        Param("levels", 6, 2, 20, "number of levels"),
        Param("prompt_weight", 0.05, 0.0, 10.0, "service that a prompt token counts as, output tokens"),
        Param("promote_ms", 3000.0, 1.0, 86_400_000.0, "who has waited so long is put on the top level, ms"),
        Param("preempt", 1, 0, 1, f"{PREEMPT.help}: 4 of them at once, then one every fourth step"),
    ),
    source="FastServe (Wu et al., NSDI'26)",
    guarantee="No length is known or asked for. Whoever has waited promote_ms is passed only by requests that came before it.",
    make=lambda params, pool: SkipJoinMlfq(
        params["quantum"], int(params["levels"]), params["prompt_weight"], params["promote_ms"], int(params["preempt"])
    ),
)
