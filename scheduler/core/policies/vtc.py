"""Virtual token counters: fair shares among tenants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush, heapreplace
from itertools import islice

from scheduler.core.policies.base import WEIGHTS, Departure, Param, PolicyInfo, tenant_weights
from scheduler.core.policies.queues import TenantQueues
from scheduler.core.request import Request, WaitReason

FORGOTTEN_PER_NEWCOMER = 2


class Vtc:
    """Of the tenants of whom somebody waits, the one that has been served least; by arrival within a tenant.

    Formula: counter c_u += w_input · prompt tokens / weight_u when a request of tenant u is first admitted, and
    w_output / weight_u with each output token; the least c_u is next. When u comes back from having nobody waiting, c_u
    is lifted to the least counter of those who wait (or of who waited last): idling saves no credit. A prefix hit is
    charged like any prompt, what a preemption makes compute again is not charged twice. For memory, the newest request
    of the most served tenant yields.
    Source: VTC (Sheng et al., OSDI'24).
    Guarantee: two tenants that both have somebody waiting differ in service, divided by weight, by at most
    2 · max(w_input · longest prompt, w_output · tokens in the KV memory), however fast either of them sends. Nobody is
    held back while there is room.
    """

    preempts = False

    def __init__(self, w_input: float = 1.0, w_output: float = 2.0, weights: Mapping[str, float] | None = None) -> None:
        self._w_input = w_input
        self._w_output = w_output
        self._weights = dict(weights or {})
        self._queues = TenantQueues()
        self._used: dict[str, float] = {}  # the counters
        self._heap: list[tuple[float, int, str]] = []  # (at most its counter, tie, tenant); counters only grow
        self._listed: dict[str, None] = {}  # whose entry is in the heap
        self._rates: dict[str, float] | None = None  # what a token for each of the decodes adds, by tenant
        self._last: str | None = None  # who waited last, while nobody waits

    def enqueue(self, request: Request, now: int) -> None:
        """Behind those of its tenant that came before it."""
        request.key = request.number
        tenant = request.tenant
        if tenant not in self._queues:
            self._lift(tenant, request)
        self._queues.push(request)
        if tenant not in self._listed:
            self._listed[tenant] = None
            heappush(self._heap, (self._used[tenant], request.number, tenant))

    def _lift(self, tenant: str, request: Request) -> None:
        """No credit from before; but who was preempted, or set aside until it fits, was not idle."""
        floor = self._floor()
        if tenant not in self._used:
            self._forget(floor)
            self._used[tenant] = floor
        elif not request.preemptions and request.parked is not WaitReason.KV_BLOCKS:
            self._used[tenant] = max(self._used[tenant], floor)

    def _floor(self) -> float:
        least = self._least() or self._last
        return 0.0 if least is None else self._used[least]

    def _forget(self, floor: float) -> None:
        """Drop a few idle tenants that would be lifted anyway, so that names of tenants cost memory only while they count."""
        for tenant in list(islice(self._used, FORGOTTEN_PER_NEWCOMER)):
            used = self._used.pop(tenant)
            idle = tenant not in self._listed and tenant != self._last and tenant not in (self._rates or {})
            if used > floor or not idle:
                self._used[tenant] = used

    def head(self, now: int) -> Request | None:
        """The oldest of the least served tenant."""
        least = self._least()
        return None if least is None else self._queues.first(least)

    def _least(self) -> str | None:
        """The tenant; entries that lag behind their counters are brought up to date on the way."""
        heap = self._heap
        while heap:
            known, _, tenant = heap[0]
            if tenant not in self._queues:
                heappop(heap)
                del self._listed[tenant]
            elif known != self._used[tenant]:
                heapreplace(heap, (self._used[tenant], self._queues.first(tenant).number, tenant))
            else:
                return tenant
        return None

    def dequeue(self, request: Request, why: Departure) -> None:
        """Out; its prompt is paid for when it is first admitted."""
        self._queues.remove(request)
        tenant = request.tenant
        if why is Departure.ADMITTED and not request.preemptions:
            self._charge(tenant, self._w_input * request.prompt_tokens)
        if tenant not in self._queues:
            self._last = tenant

    def _charge(self, tenant: str, amount: float) -> None:
        self._used[tenant] += amount / self._weights.get(tenant, 1.0)

    def served(self, request: Request, prefill: int) -> None:
        """The last chunk of a prefill gives an output token."""
        if prefill == request.missing:
            self._know(request.tenant)
            self._charge(request.tenant, self._w_output)

    def _know(self, tenant: str) -> None:
        if tenant not in self._used:
            self._used[tenant] = self._floor()

    def tick(self, decodes: Sequence[Request], changed: bool) -> None:
        """A token for each of the decodes, tenant by tenant; they are counted anew only when they change."""
        if changed or self._rates is None:
            counts = Counter([request.tenant for request in decodes])
            self._rates = {tenant: self._w_output * n / self._weights.get(tenant, 1.0) for tenant, n in counts.items()}
            for tenant in counts:
                self._know(tenant)
        used = self._used
        for tenant, amount in self._rates.items():
            used[tenant] += amount

    def victim(self, running: Sequence[Request], needy: Request) -> Request | None:
        """The newest of the most served tenant; nobody for a waiting request."""
        if needy.slot < 0:
            return None
        return max(running, key=lambda request: (self._used.get(request.tenant, 0.0), request.number), default=None)

    def adopt(self, waiting: Iterable[Request], running: Sequence[Request], now: int) -> None:
        """All counters begin at 0: what was served before is not known."""
        for request in waiting:
            self.enqueue(request, now)


INFO = PolicyInfo(
    name="vtc",
    help="fair shares: the tenant that has been served least is next",
    params=(
        Param("w_input", 1.0, 0.0, 1000.0, "what a prompt token counts"),
        Param("w_output", 2.0, 0.001, 1000.0, "what an output token counts"),
        WEIGHTS,
    ),
    source="VTC (Sheng et al., OSDI'24)",
    guarantee="Two tenants that both have somebody waiting differ in service, divided by weight, by at most "
    "2 · max(w_input · longest prompt, w_output · tokens in the KV memory), however fast either sends.",
    make=lambda params, pool: Vtc(params["w_input"], params["w_output"], tenant_weights(params)),
)
