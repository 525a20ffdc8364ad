"""What to try against a kind of waiting: one setting, no further than it can go. Figures and limits in, words out.

A limit that the records do not hold (the memory of a GPU that served, of a cost model from a file) is unknown: it is said
so, never guessed.
Invariant: a value that is named is one that the server would take (the KV cache fits, a setting is within its range).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from scheduler.errors import SettingsError
from scheduler.runners.cost_model import load
from scheduler.settings import SchedulerSettings

BUDGET_SHARE = 0.5  # steps that use less of their token budget would be as long with half of it
BOUND_SHARE = 0.05  # of the waiting: limits that made less of it are not worth more than a higher rate
GROW = {"slots": "max_num_seqs", "token_budget": "max_num_batched_tokens", "kv_blocks": "kv_cache_tokens"}
INSTEAD = "shorter outputs, another policy, less load or larger hardware"
MORE_LOAD = "a higher rate"
_LOADS = ("rate", "load", "users", "noisy_users")  # what makes a scenario's load; one that is drawn or listed has none of them
_HIGHEST: dict[str, int] = {
    spec.name: spec.metadata["high"] for spec in fields(SchedulerSettings) if spec.name in GROW.values()
}


@dataclass(frozen=True, slots=True)
class Memory:
    """Tokens of KV cache that the hardware of a run holds. most: None where the settings alone decide (`known`), or unknown."""

    most: int | None = None
    known: bool = True


NO_BOUND = Memory()


def memory_of(life: Mapping[str, Any]) -> Memory:
    """Of an engine life (a row of boots): a shipped cost model says it; a GPU's is not recorded."""
    if life.get("runner") == "null":
        return NO_BOUND
    if life.get("runner") == "simulated" and life.get("hardware"):
        try:
            return Memory(load(life["hardware"]).kv_capacity_tokens or None)
        except SettingsError:
            return Memory(known=False)
    return Memory(known=False)


def more_load(parameters: Mapping[str, Any] | None) -> str:
    """More of a run's load, by the name of the parameter that makes it, as far as it has one."""
    found = ((name, (parameters or {}).get(name)) for name in _LOADS)
    return next(
        (f"a higher `{name}` than {value:g}" for name, value in found if isinstance(value, int | float) and value), MORE_LOAD
    )


def suggestion(
    reason: str,
    settings: Mapping[str, Any],
    budget_used: float | None = None,
    *,
    memory: Memory = NO_BOUND,
    bound: float = 0.0,
    heavier: str = MORE_LOAD,
) -> str | None:
    """What to try against this kind of waiting. bound: the share of the waiting that limits made, where `step` made most;
    heavier: how to say that there should be more load."""
    match reason:
        case "kv_blocks":
            return _more_memory(settings, memory)
        case "slots" | "token_budget":
            return _more(GROW[reason], settings)
        case "step":
            return _shorter_steps(settings, budget_used, bound, heavier)
    return {
        "prefill_cap": "a higher itl_target_ms",
        "static_batch": "batching continuous",
        "quota": "a higher quota for that tenant",
    }.get(reason)


def _next(name: str, settings: Mapping[str, Any]) -> tuple[int, int] | None:
    """(in effect, the next power of two above it, within the setting's range)."""
    now = settings.get(name)
    if not isinstance(now, int) or now <= 0:
        return None
    return now, max(now, min(1 << now.bit_length(), _HIGHEST[name]))


def _more(name: str, settings: Mapping[str, Any]) -> str:
    found = _next(name, settings)
    if found is None:
        return f"a higher {name}"
    now, more = found
    if more == now:
        return f"{INSTEAD}: {name} is at its highest"
    budget = settings.get("max_num_batched_tokens")
    if name == "max_num_seqs" and isinstance(budget, int) and budget < more:  # each who runs needs a token of every step
        return f"max_num_seqs {more} with max_num_batched_tokens {more}"
    return f"{name} {more}"


def _more_memory(settings: Mapping[str, Any], memory: Memory) -> str:
    name = "kv_cache_tokens"
    found = _next(name, settings)
    if found is None:
        return f"a higher {name}, as far as it fits" if not memory.known else f"a higher {name}"
    now, more = found
    block = settings.get("block_size") or 1
    if memory.most is not None and more > memory.most:
        if memory.most // block <= now // block:
            return f"{INSTEAD}: the {now} tokens of KV cache are all that fit"
        return f"{name} {memory.most}, all that fits"
    if more == now:
        return f"{INSTEAD}: {name} is at its highest"
    unsure = "" if memory.known else f" if that fits (how much does is not recorded), else {INSTEAD}"
    return f"{name} {more}{unsure}"


def _shorter_steps(settings: Mapping[str, Any], budget_used: float | None, bound: float, heavier: str) -> str:
    """Arrivals only wait for a step to end: shorter steps, where the budget is what makes them long."""
    now, seqs = settings.get("max_num_batched_tokens"), settings.get("max_num_seqs")
    idle = budget_used is not None and budget_used < BUDGET_SHARE
    if not idle and isinstance(now, int) and isinstance(seqs, int) and now // 2 >= seqs:
        return f"max_num_batched_tokens {now // 2} for shorter steps"
    return f"{heavier}: the limits made {_percent(bound)} of the waiting" if bound else f"{heavier}: the limits did not bind"


def _percent(share: float) -> str:
    return "under 1 %" if share < 0.01 else f"{100 * share:.0f} %"
