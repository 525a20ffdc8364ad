"""The catalog of policies: names, parameters, sources and guarantees, and how one is made. Schedules nothing.

Invariant: what `make` returns was made from parameters that are known, numbers, and in range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler.core.blocks import BlockPool
from scheduler.core.policies.base import Policy
from scheduler.core.policies.edf import Edf
from scheduler.core.policies.fcfs import Fcfs
from scheduler.core.policies.priority import Priority
from scheduler.core.policies.priority_aging import PriorityAging
from scheduler.core.policies.sjf import Sjf
from scheduler.core.policies.weighted_score import WeightedScore
from scheduler.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Param:
    """A number that a policy takes. A whole-number default means that only whole numbers are taken."""

    name: str
    default: float
    low: float
    high: float
    help: str


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """A policy as people see it. make: from all of `params` by name, and the pool for orders that look at prefixes."""

    name: str
    help: str
    params: tuple[Param, ...]
    source: str
    guarantee: str
    make: Callable[[Mapping[str, float], BlockPool | None], Policy]


_PREEMPT = Param("preempt", 0, 0, 1, "1: a waiting request may take the place of a running one that sorts behind it")

_ALL = (
    PolicyInfo(
        name="fcfs",
        help="first come, first served",
        params=(),
        source="Orca (Yu et al., OSDI'22); vLLM's fcfs",
        guarantee="Requests are first admitted in the order in which they came; nobody starves. Whoever does not fit holds "
        "back all behind.",
        make=lambda params, pool: Fcfs(),
    ),
    PolicyInfo(
        name="priority",
        help="strict classes, the lowest priority number first",
        params=(_PREEMPT,),
        source="Cobham's priority queue; vLLM's priority",
        guarantee="Nobody is admitted while a better class waits. No bound for the lower classes: they can starve.",
        make=lambda params, pool: Priority(int(params["preempt"])),
    ),
    PolicyInfo(
        name="priority_aging",
        help="classes as a head start that waiting makes up for",
        params=(Param("gap_ms", 5000.0, 0.0, 86_400_000.0, "head start of a class over the next one, ms"),),
        source="linear ageing (Kleinrock's time-dependent priorities) as a constant key",
        guarantee="Nobody is overtaken by a request that arrived more than gap_ms · (difference of their classes) later.",
        make=lambda params, pool: PriorityAging(params["gap_ms"]),
    ),
    PolicyInfo(
        name="sjf",
        help="shortest job first, by prompt and expected output",
        params=(),
        source="Smith's rule; SSJF (Qiu et al., 2024)",
        guarantee="Whoever is admitted is the shortest of all who wait; with known lengths, all there and served one at a "
        "time, no order has a smaller mean response time. Long requests can starve.",
        make=lambda params, pool: Sjf(),
    ),
    PolicyInfo(
        name="edf",
        help="earliest deadline first",
        params=(
            Param("default_ms", 60_000.0, 1.0, 86_400_000.0, "deadline of a request that names none, ms after arrival"),
            _PREEMPT,
        ),
        source="Liu & Layland, 1973; Jackson's rule",
        guarantee="For requests that are all there, served one at a time, the largest lateness is the least possible. Past "
        "capacity it is no better than fcfs.",
        make=lambda params, pool: Edf(params["default_ms"], int(params["preempt"])),
    ),
    PolicyInfo(
        name="weighted_score",
        help="class, kind, length, deadline and tenant in one score; weights move with load",
        params=(
            Param("w_priority", 4.0, 0.0, 100.0, "weight of the class, doubled while many wait"),
            Param("w_kind", 2.0, 0.0, 100.0, "weight of the kind: interactive, batch, background"),
            Param("w_length", 1.0, 0.0, 100.0, "weight of prompt and expected output, halved while many wait"),
            Param("w_deadline", 2.0, 0.0, 100.0, "weight of a far deadline, doubled while many wait"),
            Param("w_tenant", 1.0, 0.0, 100.0, "weight of the tenant's share of the queue"),
            Param("alpha", 0.5, 0.01, 100.0, "what a second of waiting is worth; never 0, so that nobody starves"),
            Param(
                "busy_waiting", 32.0, 1.0, 1_000_000.0, "smoothed number waiting above which the weights are those of a rush"
            ),
        ),
        source="the tutorial's Priority Manager, with bounded ageing",
        guarantee="Whatever the weights do, nobody is overtaken by a request that arrived more than B / alpha seconds later, B "
        "being the largest score under any of the weights.",
        make=lambda params, pool: WeightedScore(**params),
    ),
)

CATALOG: dict[str, PolicyInfo] = {info.name: info for info in _ALL}


def make(name: str, params: Mapping[str, object], pool: BlockPool | None = None) -> Policy:
    """The policy `name`; raises SettingsError naming `policy` or `policy_params.x`."""
    info = CATALOG.get(name)
    if info is None:
        raise SettingsError(f"unknown policy {name!r}; known: {', '.join(CATALOG)}", "policy")
    known = {param.name: param for param in info.params}
    for key in params:
        if key not in known:
            takes = ", ".join(known) or "none"
            raise SettingsError(f"policy {name} has no parameter {key!r}; it takes: {takes}", f"policy_params.{key}")
    return info.make({param.name: _checked(param, params.get(param.name, param.default)) for param in info.params}, pool)


def _checked(param: Param, value: object) -> float:
    where = f"policy_params.{param.name}"
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise SettingsError(f"{where} must be a number, not {value!r}", where)
    if isinstance(param.default, int) and value != int(value):
        raise SettingsError(f"{where} must be a whole number, not {value!r}", where)
    if not param.low <= value <= param.high:
        raise SettingsError(f"{where} must be between {param.low:g} and {param.high:g}, not {value!r}", where)
    return value
