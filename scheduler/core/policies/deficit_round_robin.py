"""Deficit round robin: tenants take turns."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from scheduler.core.policies.base import WEIGHTS, Books, Departure, Param, PolicyInfo, tenant_weights
from scheduler.core.policies.queues import TenantQueues
from scheduler.core.request import Request, WaitReason


def cost(request: Request) -> int:
    """Tokens that it is expected to take; nothing once it was preempted, since it has paid."""
    return 0 if request.preemptions else request.prompt_tokens + request.output_estimate


class DeficitRoundRobin(Books):
    """Tenants of whom somebody waits take turns; what a turn leaves unspent is kept for the next one.

    Formula: a visit to tenant u adds quantum · weight_u to its deficit and serves u, by arrival, while the next request's
    cost (prompt + expected output, or + max_tokens) is covered; then the next tenant is visited. Who has nobody waiting
    loses its deficit. A preempted request has paid, and its tenant is visited next. For memory, the newest request of the
    tenant that holds the most tokens for its weight yields.
    Source: Shreedhar & Varghese, SIGCOMM'95.
    Guarantee: two tenants that both have somebody waiting differ in tokens admitted, divided by weight, by at most
    quantum + 2 · the largest request. O(1) when the quantum covers a request, and never more than two rounds. Who asks for
    more output than it takes pays for it: use vtc where lengths are not known.
    """

    def __init__(self, quantum: int = 2048, weights: Mapping[str, float] | None = None) -> None:
        self._quantum = quantum
        self._weights = dict(weights or {})
        self._queues = TenantQueues()
        self._ring: OrderedDict[str, float] = OrderedDict()  # tenant → deficit; the first one is being visited

    def _visit(self, tenant: str) -> float:
        return self._quantum * self._weights.get(tenant, 1.0)

    def enqueue(self, request: Request, now: int) -> None:
        """Behind those of its tenant that came before it; a tenant that had nobody joins the round at its end.

        But who was preempted, or set aside until it fits, was next already, and is so still.
        """
        request.key = request.number
        tenant = request.tenant
        if tenant not in self._ring and (request.preemptions or request.parked is WaitReason.KV_BLOCKS):
            self._ring[tenant] = cost(request)
            self._ring.move_to_end(tenant, last=False)
        elif tenant not in self._ring:
            self._ring[tenant] = self._visit(tenant)
        self._queues.push(request)

    def head(self, now: int) -> Request | None:
        """The oldest of the tenant that is visited; the visit moves on past whoever cannot pay yet."""
        ring, looked = self._ring, 0
        while ring:
            tenant, deficit = next(iter(ring.items()))
            request = self._queues.first(tenant)
            if cost(request) <= deficit:
                return request
            ring[tenant] = deficit + self._visit(tenant)
            ring.move_to_end(tenant)
            looked += 1
            if looked % len(ring) == 0:
                self._skip_rounds()
        return None

    def _skip_rounds(self) -> None:
        """Nobody could pay in a whole round: as many more as nobody could pay in either, at once."""
        rounds = min(ceil((cost(self._queues.first(t)) - deficit) / self._visit(t)) for t, deficit in self._ring.items())
        if rounds > 0:
            for tenant in self._ring:
                self._ring[tenant] += rounds * self._visit(tenant)

    def dequeue(self, request: Request, why: Departure) -> None:
        """Out, and paid for if it runs."""
        self._queues.remove(request)
        tenant = request.tenant
        if tenant not in self._queues:
            del self._ring[tenant]
        elif why is Departure.ADMITTED:
            self._ring[tenant] -= cost(request)

    def victim(self, running: Sequence[Request], needy: Request) -> Request | None:
        """The newest of the tenant that holds the most tokens for its weight; nobody for a waiting request."""
        if needy.slot < 0:
            return None
        held: Counter[str] = Counter()
        for request in running:
            held[request.tenant] += len(request.tokens)
        share = {tenant: tokens / self._weights.get(tenant, 1.0) for tenant, tokens in held.items()}
        return max(running, key=lambda request: (share[request.tenant], request.number), default=None)

    def adopt(self, waiting: Iterable[Request], running: Sequence[Request], now: int) -> None:
        """A new round, in the order in which the tenants' first requests were added."""
        for request in waiting:
            self.enqueue(request, now)


INFO = PolicyInfo(
    name="deficit_round_robin",
    help="tenants take turns, a number of tokens a turn",
    params=(Param("quantum", 2048, 1, 1_000_000, "tokens a turn, for a weight of 1"), WEIGHTS),
    source="Shreedhar & Varghese, SIGCOMM'95",
    guarantee="Two tenants that both have somebody waiting differ in tokens admitted (prompt and expected output), divided "
    "by weight, by at most quantum + 2 · the largest request.",
    make=lambda params, pool: DeficitRoundRobin(int(params["quantum"]), tenant_weights(params)),
)
