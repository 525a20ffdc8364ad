"""Quotas: how much of the engine each tenant uses, and who is parked for it. The books only; quota_gate.py decides.

A tenant may have at most `tenant_max_running` requests running, and running ones of at most `tenant_max_tokens` tokens
(prompt and max output); 0 is off. A tenant that runs nothing may always run one, however large: nobody is hopeless.
Those of a tenant that were brought back from parking, or preempted, keep their claim until they run again, so that no
more come back than there is room for.
Invariant: the first parked of a tenant has no room beside those claims, or the tenant is `due` for another look.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.holders import Blockers, Holding
from scheduler.core.policies.queues import SortedQueue
from scheduler.core.request import Request, RequestState, WaitReason


def tokens_of(r: Request) -> int:
    """What `r` may grow to: prompt and max output tokens."""
    return r.prompt_tokens + r.params.max_tokens


class Tenant:
    """What one tenant uses: requests running and their tokens, claims of those that came back, and who is parked."""

    __slots__ = ("running", "tokens", "claims", "claimed_tokens", "parked")

    def __init__(self) -> None:
        self.running = 0
        self.tokens = 0
        self.claims: dict[int, Request] = {}
        self.claimed_tokens = 0
        self.parked = SortedQueue()

    def claim(self, r: Request) -> None:
        """`r` is in the queue again, and will run before others of its tenant come back."""
        self.claims[r.number] = r
        self.claimed_tokens += tokens_of(r)

    def settle(self, r: Request) -> bool:
        """`r` is in the queue no longer; True if it had a claim."""
        if self.claims.pop(r.number, None) is None:
            return False
        self.claimed_tokens -= tokens_of(r)
        return True

    @property
    def idle(self) -> bool:
        """Nothing is known of it."""
        return not self.running and not self.claims and not len(self.parked)


class Quotas:
    """The books of all tenants. `max_running` and `max_tokens` are the limits, 0: off; `due`: of whom some may come back."""

    def __init__(self) -> None:
        self.max_running = 0
        self.max_tokens = 0
        self._tenants: dict[str, Tenant] = {}
        self.due: dict[str, None] = {}

    @property
    def on(self) -> bool:
        """Is there any quota?"""
        return bool(self.max_running or self.max_tokens)

    def set(self, max_running: int, max_tokens: int) -> None:
        """Other limits: everybody parked is due for another look."""
        if (max_running, max_tokens) != (self.max_running, self.max_tokens):
            self.max_running, self.max_tokens = max_running, max_tokens
            self.due = dict.fromkeys(name for name, tenant in self._tenants.items() if len(tenant.parked))

    # ---- questions

    def admits(self, r: Request) -> bool:
        """May `r` run beside what its tenant runs, and before those of its tenant that are parked?"""
        if not self.on:
            return True
        tenant = self._tenants.get(r.tenant)
        if tenant is None:
            return True
        first = tenant.parked.first()
        if first is not None and (first.key, first.number) < (r.key, r.number):
            return False  # else small ones would pass a large one for ever
        return self._room(r, tenant.running, tenant.tokens)

    def next_back(self) -> Request | None:
        """Whoever is parked and has room now, in turn; None when there is nobody."""
        while self.due:
            name = next(iter(self.due))
            tenant = self._tenants.get(name)
            first = None if tenant is None else tenant.parked.first()
            if tenant is not None and first is not None:
                running, tokens = tenant.running + len(tenant.claims), tenant.tokens + tenant.claimed_tokens
                if self._room(first, running, tokens):
                    return first
            del self.due[name]
        return None

    def blockers(self, r: Request) -> Blockers:
        """What the tenant of `r` runs, and may run."""
        tenant = self._tenants.get(r.tenant) or Tenant()
        return Blockers(
            limit=self.max_running,
            holders=(Holding(r.tenant, tenant.running),),
            needed=tokens_of(r),
            tokens=tenant.tokens,
            max_tokens=self.max_tokens,
        )

    def _room(self, r: Request, running: int, tokens: int) -> bool:
        if not running:
            return True
        if self.max_running and running >= self.max_running:
            return False
        return not self.max_tokens or tokens + tokens_of(r) <= self.max_tokens

    # ---- the books

    def admitted(self, r: Request) -> None:
        """`r` runs."""
        tenant = self._tenants.get(r.tenant)
        if tenant is None:
            tenant = self._tenants[r.tenant] = Tenant()
        elif tenant.claims:
            tenant.settle(r)
        tenant.running += 1
        tenant.tokens += tokens_of(r)

    def stopped(self, r: Request, preempted: bool) -> None:
        """`r` runs no longer: it ended, or was preempted and keeps its claim."""
        tenant = self._tenants[r.tenant]
        tenant.running -= 1
        tenant.tokens -= tokens_of(r)
        if preempted:
            tenant.claim(r)
        else:
            self._eased(r.tenant, tenant)

    def gone(self, r: Request) -> None:
        """`r` left the policy's queue without running: it ended, or is to be parked."""
        tenant = self._tenants.get(r.tenant)
        if tenant is not None and tenant.settle(r):
            self._eased(r.tenant, tenant)

    def parked(self, r: Request) -> None:
        """`r` waits for its tenant's quota."""
        self._tenants[r.tenant].parked.push(r)

    def back(self, r: Request, queued: bool) -> None:
        """`r` is parked no longer: it is `queued` again and has a claim, or it ended."""
        tenant = self._tenants[r.tenant]
        tenant.parked.remove(r)
        if queued:
            tenant.claim(r)
        else:
            self._eased(r.tenant, tenant)

    def rank_anew(self, parked: Iterable[Request]) -> None:
        """Another policy gave everybody another key: `parked` are all who are parked for a quota."""
        for tenant in self._tenants.values():
            tenant.parked = SortedQueue()
        for r in parked:
            self._tenants[r.tenant].parked.push(r)
        self.due = dict.fromkeys(name for name, tenant in self._tenants.items() if len(tenant.parked))

    def _eased(self, name: str, tenant: Tenant) -> None:
        if len(tenant.parked):
            self.due[name] = None
        elif tenant.idle:
            del self._tenants[name]

    # ---- the invariant

    def check(self, requests: Iterable[Request]) -> None:
        """Assert the books; `requests` are all live ones."""
        live = list(requests)
        for name, tenant in self._tenants.items():
            own = [r for r in live if r.tenant == name]
            running = [r for r in own if r.state is RequestState.RUNNING]
            assert tenant.running == len(running), f"{name} runs {len(running)}, not {tenant.running}"
            assert tenant.tokens == sum(map(tokens_of, running)), f"tokens of {name} differ"
            assert tenant.claimed_tokens == sum(map(tokens_of, tenant.claims.values())), f"claims of {name} differ"
            assert all(r.parked is None and r.slot < 0 for r in tenant.claims.values()), (
                f"a claim of {name} is not in the queue"
            )
            parked = sorted(r.number for r in own if r.parked is WaitReason.QUOTA)
            assert sorted(r.number for r in tenant.parked) == parked, f"parked of {name} differ"
            first = tenant.parked.first()
            if first is not None and name not in self.due:
                room = self._room(first, tenant.running + len(tenant.claims), tenant.tokens + tenant.claimed_tokens)
                assert not room, f"{first} is parked for nothing"
            assert not tenant.idle, f"{name} is kept for nothing"
        known = {r.tenant for r in live if r.parked is WaitReason.QUOTA or r.state is RequestState.RUNNING}
        assert known <= set(self._tenants), "a tenant is not in the books"
