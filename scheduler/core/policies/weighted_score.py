"""A score of several factors, whose weights move with load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import mul
from typing import Any, NamedTuple

from scheduler.core.policies.base import Departure, Keyed, Param, PolicyInfo
from scheduler.core.policies.queues import SortedQueue
from scheduler.core.request import Request

SECOND = 1_000_000_000
WORST_PRIORITY = 10
LONGEST_TOKENS = 4096
FARTHEST_DEADLINE = 60 * SECOND
KINDS = {"interactive": 0.0, "batch": 0.7, "background": 1.0}
UNKNOWN_KIND = 0.4
SMOOTHING = 0.05  # weight of the newest step in the smoothed load
HELD_STEPS = 64  # steps for which a change of weights stands, whatever the load does
CALM_BELOW = 0.5  # of busy_waiting: the lower edge of the hysteresis


class Factors(NamedTuple):
    """What is known of a request when it comes, each in [0, 1]; 0 runs first."""

    priority: float
    kind: float
    length: float
    deadline: float
    tenant: float


class Weights(NamedTuple):
    """How much each factor counts, each >= 0."""

    priority: float
    kind: float
    length: float
    deadline: float
    tenant: float

    @property
    def total(self) -> float:
        """The largest score."""
        return sum(self)

    def score(self, factors: Factors) -> float:
        """In [0, total]."""
        score: float = sum(map(mul, self, factors))
        return score


class WeightedScore(Keyed):
    """Type, length, deadline, class and tenant in one number; while many wait, class and deadline count more.

    Formula: score = Σ weight · factor - alpha · waiting seconds, least first. The factors are in [0, 1] and fixed when a
    request comes: priority / 10, kind (interactive 0, batch 0.7, background 1), (prompt + expected output) / 4096 tokens,
    (deadline - arrival) / 60 s, its tenant's share of the queue. As all ages grow alike, the order is that of the
    constant key score / alpha + received_at.
    Weights: `w_…` while calm. When the smoothed number waiting passes `busy_waiting`, class and deadline count twice and
    length half; below half of it they are calm again. A change stands for 64 steps. Everybody waits in two queues, one by
    each set of weights, so that a change moves nobody.
    Source: the tutorial's Priority Manager; bounded ageing as in priority_aging.
    Guarantee: whatever the weights do, nobody is overtaken by a request that arrived more than B / alpha seconds later,
    B being the largest score under any of the weights (`bound_ns`).
    """

    def __init__(
        self,
        w_priority: float = 4.0,
        w_kind: float = 2.0,
        w_length: float = 1.0,
        w_deadline: float = 2.0,
        w_tenant: float = 1.0,
        alpha: float = 0.5,
        busy_waiting: float = 32.0,
    ) -> None:
        super().__init__()
        self._calm = Weights(w_priority, w_kind, w_length, w_deadline, w_tenant)
        self._rush = Weights(2 * w_priority, w_kind, w_length / 2, 2 * w_deadline, w_tenant)
        self._alpha = alpha
        self._busy_waiting = busy_waiting
        self.weights = self._calm
        self._queues = (self._queue, SortedQueue())  # by the calm weights, and by those of a rush
        self._load = 0.0
        self._held = 0
        self._tenants: Counter[str] = Counter()

    @property
    def bound_ns(self) -> int:
        """Nobody is overtaken by a request that arrived more than this later."""
        return int(max(self._calm.total, self._rush.total) / self._alpha * SECOND)

    def key_of(self, request: Request, now: int) -> int:
        """Score and arrival in one, ns, by the weights of now; notes those by either."""
        factors = self._factors(request)
        calm, rush = [int(weights.score(factors) / self._alpha * SECOND) for weights in (self._calm, self._rush)]
        request.queue_data = calm + request.received_at, rush + request.received_at
        return request.received_at + (rush if self.weights is self._rush else calm)

    def _factors(self, r: Request) -> Factors:
        length = r.prompt_tokens + r.output_estimate
        slack = FARTHEST_DEADLINE if r.deadline_at is None else r.deadline_at - r.received_at
        return Factors(
            priority=_clip(r.priority / WORST_PRIORITY),
            kind=KINDS.get(r.kind, UNKNOWN_KIND),
            length=_clip(length / LONGEST_TOKENS),
            deadline=_clip(slack / FARTHEST_DEADLINE),
            tenant=self._tenants[r.tenant] / (len(self._queue) + 1),
        )

    def enqueue(self, request: Request, now: int) -> None:
        """In both queues; it is one more of its tenant."""
        if request.key is None:
            request.key = self.key_of(request, now)
        keys: Any = request.queue_data
        for queue, key in zip(self._queues, keys, strict=True):
            queue.push(request, key)
        self._tenants[request.tenant] += 1

    def dequeue(self, request: Request, why: Departure) -> None:
        """Out of both, and one less of its tenant."""
        keys: Any = request.queue_data
        for queue, key in zip(self._queues, keys, strict=True):
            queue.remove(request, key)
        self._tenants[request.tenant] -= 1
        if not self._tenants[request.tenant]:
            del self._tenants[request.tenant]

    def adopt(self, waiting: Iterable[Request], running: Sequence[Request], now: int) -> None:
        """Factors by what waits now."""
        for request in running:
            request.key = self.key_of(request, now)
        for request in waiting:
            request.key = None
            self.enqueue(request, now)

    def tick(self, decodes: Sequence[Request], changed: bool) -> None:
        """Follow the load, and change the weights between two steps."""
        self._load += SMOOTHING * (len(self._queue) - self._load)
        self._held -= 1
        if self._held < 0:
            self._choose()

    def _choose(self) -> None:
        if self._load > self._busy_waiting:
            weights = self._rush
        elif self._load < CALM_BELOW * self._busy_waiting:
            weights = self._calm
        else:
            return
        if weights is not self.weights:
            self.weights = weights
            self._queue = self._queues[weights is self._rush]
            self._held = HELD_STEPS


def _clip(value: float) -> float:
    return 0.0 if value < 0 else 1.0 if value > 1 else value


INFO = PolicyInfo(
    name="weighted_score",
    help="class, kind, length, deadline and tenant in one score; weights move with load",
    params=(
        Param("w_priority", 4.0, 0.0, 100.0, "weight of the class, doubled while many wait"),
        Param("w_kind", 2.0, 0.0, 100.0, "weight of the kind: interactive, batch, background"),
        Param("w_length", 1.0, 0.0, 100.0, "weight of prompt and expected output, halved while many wait"),
        Param("w_deadline", 2.0, 0.0, 100.0, "weight of a far deadline, doubled while many wait"),
        Param("w_tenant", 1.0, 0.0, 100.0, "weight of the tenant's share of the queue"),
        Param("alpha", 0.5, 0.01, 100.0, "what a second of waiting is worth; never 0, so that nobody starves"),
        Param("busy_waiting", 32.0, 1.0, 1_000_000.0, "smoothed number waiting above which the weights are those of a rush"),
    ),
    source="the tutorial's Priority Manager, with bounded ageing",
    guarantee="Whatever the weights do, nobody is overtaken by a request that arrived more than B / alpha seconds later, B "
    "being the largest score under any of the weights.",
    make=lambda params, pool: WeightedScore(**params),
)
