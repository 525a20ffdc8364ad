"""Longest cached prefix first, among the tenants that have not spent their quantum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from scheduler.core.policies.base import Departure, Param, Policy, PolicyInfo, Prefixes
from scheduler.core.policies.prefixes import CHECKS, HEAD_START, PrefixWatch, head_start
from scheduler.core.policies.queues import SortedQueue, TenantQueues
from scheduler.core.request import Request

REMEMBERED = 10_000  # idle tenants whose debts are kept


class DeficitLongestPrefix:
    """Longest prefix first among the tenants whose deficit is positive; when all who wait have spent theirs, a new round.

    Formula: within a round the key is that of longest_prefix. A tenant pays 1 for each token of its prefills, so nothing
    for what it hits, and w_output for each output token; its deficit is rounds · quantum less what it has paid. A round
    begins when no tenant of whom somebody waits has a positive one. Who comes back from having nobody waiting keeps its
    debt, but of its credit no more than one quantum. For memory, the newest request of the most served tenant yields.
    Source: DLPM (Cao et al., 2025).
    Guarantee: two tenants that both have somebody waiting differ in service by at most 2 · (quantum + U), U being what the
    requests of a tenant that run at once can cost. Within a tenant nobody is overtaken by a request that arrived more than
    bound_ms later.
    """

    preempts = False

    def __init__(
        self,
        prefixes: Prefixes | None,
        quantum: int = 4096,
        w_output: int = 2,
        worth_ms: float = 50.0,
        bound_ms: float = 60_000.0,
    ) -> None:
        self._quantum = quantum
        self._w_output = w_output
        self._worth, self._bound = head_start(worth_ms, bound_ms)
        self._watch = PrefixWatch(prefixes, self._move)
        self._queues = TenantQueues()
        self._fronts = SortedQueue()  # the first of each tenant that has not spent its quantum
        self._front_of: dict[str, Request] = {}
        self._spent: dict[int, dict[str, None]] = {}  # round that a tenant's payments have used up → who waits for a later one
        self._level_of: dict[str, int] = {}
        self._paid: dict[str, int] = {}
        self._round = 1
        self._rates: dict[str, int] | None = None  # what a token for each of the decodes costs, by tenant
        self._keep = REMEMBERED  # tenants that are known before it is looked whom one need not know

    # ---- the queue

    def _key(self, request: Request, tokens: int) -> int:
        return request.received_at - min(self._worth * tokens, self._bound)

    def _move(self, request: Request, tokens: int) -> None:
        self._out(request)
        request.key = self._key(request, tokens)
        self._queues.push(request)
        self._place(request.tenant)

    def _out(self, request: Request) -> None:
        if self._front_of.get(request.tenant) is request:
            self._fronts.remove(self._front_of.pop(request.tenant))
        self._queues.remove(request)

    def enqueue(self, request: Request, now: int) -> None:
        """In its place among those of its tenant, by what it can hit now."""
        tenant = request.tenant
        if tenant not in self._queues:
            self._know(tenant)
            self._paid[tenant] = max(self._paid[tenant], self._floor)
        request.key = self._key(request, self._watch.add(request))
        self._queues.push(request)
        self._place(tenant)

    def head(self, now: int) -> Request | None:
        """The least key of those whose tenants may; a new round when none may."""
        self._watch.settle()
        first = self._first()
        for _ in range(CHECKS):
            if first is None or self._watch.still(first):
                break
            first = self._first()
        return first

    def _first(self) -> Request | None:
        if not self._front_of and self._spent:
            least = min(self._spent)
            self._round = least + 1
            for tenant in list(self._spent[least]):
                self._place(tenant)
        return self._fronts.first()

    def dequeue(self, request: Request, why: Departure) -> None:
        """Out of its place."""
        self._out(request)
        self._place(request.tenant)
        self._watch.remove(request)

    # ---- the books

    @property
    def _floor(self) -> int:
        """What one must have paid to have a whole quantum left, and no more."""
        return (self._round - 1) * self._quantum

    def _place(self, tenant: str) -> None:
        """Put the tenant where it belongs: among those that may, or that wait for a later round, or nowhere."""
        waits = tenant in self._queues
        level = self._paid[tenant] // self._quantum
        front = self._queues.first(tenant) if waits and level < self._round else None
        known = self._front_of.get(tenant)
        if front is not known:
            if known is not None:
                self._fronts.remove(self._front_of.pop(tenant))
            if front is not None:
                self._front_of[tenant] = front
                self._fronts.push(front)
        self._wait_for(tenant, level if waits and front is None else None)

    def _wait_for(self, tenant: str, level: int | None) -> None:
        known = self._level_of.get(tenant)
        if level == known:
            return
        if known is not None:
            del self._spent[known][tenant], self._level_of[tenant]
            if not self._spent[known]:
                del self._spent[known]
        if level is not None:
            self._spent.setdefault(level, {})[tenant] = None
            self._level_of[tenant] = level

    def _know(self, tenant: str) -> None:
        if tenant in self._paid:
            return
        if len(self._paid) >= self._keep:
            self._forget()
        self._paid[tenant] = self._floor

    def _forget(self) -> None:
        """Drop the idle tenants without a debt, and the oldest debts: a name must not cost memory for ever."""
        busy, known = self._rates or {}, self._paid
        idle = [tenant for tenant in known if tenant not in self._queues and tenant not in busy]
        debtors = [tenant for tenant in idle if known[tenant] > self._floor][-REMEMBERED // 2 :]
        gone = dict.fromkeys(idle)
        for tenant in debtors:
            del gone[tenant]
        self._paid = {tenant: paid for tenant, paid in known.items() if tenant not in gone}
        self._keep = len(self._paid) + REMEMBERED // 2

    def _pay(self, tenant: str, amount: int) -> None:
        self._know(tenant)
        before = self._paid[tenant]
        self._paid[tenant] = paid = before + amount
        if paid // self._quantum != before // self._quantum:
            self._place(tenant)

    def served(self, request: Request, prefill: int) -> None:
        """Paid by the tenant, the first output token with the last chunk."""
        self._pay(request.tenant, prefill + (self._w_output if prefill == request.missing else 0))

    def tick(self, decodes: Sequence[Request], changed: bool) -> None:
        """A token for each of the decodes, tenant by tenant; they are counted anew only when they change."""
        self._watch.step()
        if changed or self._rates is None:
            counts = Counter([request.tenant for request in decodes])
            self._rates = {tenant: self._w_output * n for tenant, n in counts.items()}
        for tenant, amount in self._rates.items():
            self._pay(tenant, amount)

    def victim(self, running: Sequence[Request], needy: Request) -> Request | None:
        """The newest of the most served tenant; nobody for a waiting request."""
        if needy.slot < 0:
            return None
        return max(running, key=lambda request: (self._paid.get(request.tenant, 0), request.number), default=None)

    def adopt(self, waiting: Iterable[Request], running: Sequence[Request], now: int) -> None:
        """Everybody begins with a whole quantum: what was served before is not known."""
        for request in waiting:
            self.enqueue(request, now)


def make(params: Mapping[str, float], prefixes: Prefixes | None) -> Policy:
    """With a pool, or without one: then nobody can hit anything, and tenants take turns by quantum."""
    quantum, w_output = int(params["quantum"]), int(params["w_output"])
    return DeficitLongestPrefix(prefixes, quantum, w_output, params["worth_ms"], params["bound_ms"])


INFO = PolicyInfo(
    name="deficit_longest_prefix",
    help="longest cached prefix first, among tenants that have not spent their quantum",
    params=(
        Param("quantum", 4096, 1, 100_000_000, "what a tenant may spend in a round: prefill tokens + w_output · output tokens"),
        Param("w_output", 2, 0, 1000, "what an output token costs"),
        *HEAD_START,
    ),
    source="DLPM (Cao et al., 2025)",
    guarantee="Two tenants that both have somebody waiting differ in service by at most 2 · (quantum + U), U being what the "
    "requests of a tenant that run at once can cost. Within a tenant nobody is overtaken by a request that arrived more than "
    "bound_ms later.",
    make=make,
)
