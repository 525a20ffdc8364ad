"""Holders: who holds what the waiting lack, as values. Behaviour: none but how JSON says it.

They are what blockers.py and quotas.py find, and what steps and parked requests carry into the log.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from scheduler.core.request import WaitReason


class Holding(NamedTuple):
    """What one tenant holds; `prefill`: so much of it for prefill, where tokens of a step are held."""

    tenant: str
    amount: int
    prefill: int = 0


class Blockers(NamedTuple):
    """Who holds what the waiting lack. What is counted goes by the reason: slots, blocks, tokens of the step, or requests.

    limit    how many there are: max_num_seqs, KV blocks, the step's token budget, tenant_max_running (0: off)
    holders  the tenants that hold most, most first, at most five
    rest     what all other tenants hold
    needed   kv_blocks: free blocks that the head would take; quota: tokens of the request, prompt and max output
    head     kv_blocks: number of the request that is next, 0 when memory ran out for the running
    free     kv_blocks: blocks that nobody references; kept: so many of them admission leaves to the running, so at most free
    tokens   quota: tokens of what the tenant runs, and max_tokens: tenant_max_tokens (0: off)
    """

    limit: int
    holders: tuple[Holding, ...] = ()
    rest: int = 0
    needed: int = 0
    head: int = 0
    free: int = 0
    kept: int = 0
    tokens: int = 0
    max_tokens: int = 0

    def named(self, reason: WaitReason) -> dict[str, Any]:
        """As JSON says it, with what `reason` is about and no more."""
        unit = _COUNTED.get(reason, "slots")
        found: dict[str, Any] = {"reason": reason.name.lower(), "unit": unit, "limit": self.limit}
        found["holders"] = [{"tenant": one.tenant, "amount": one.amount} for one in self.holders]
        found["rest"] = self.rest
        if unit == "tokens":
            for shown, one in zip(found["holders"], self.holders, strict=True):
                shown["prefill"] = one.prefill
        elif unit == "blocks":
            found |= {"needed": self.needed, "head": self.head or None, "free": self.free, "kept": self.kept}
        elif unit == "requests":
            found |= {"needed": self.needed, "tokens": self.tokens, "max_tokens": self.max_tokens}
        return found


_COUNTED = {
    WaitReason.TOKEN_BUDGET: "tokens",
    WaitReason.PREFILL_CAP: "tokens",
    WaitReason.KV_BLOCKS: "blocks",
    WaitReason.QUOTA: "requests",
}
