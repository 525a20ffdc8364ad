"""The catalog of policies: names, parameters, sources and guarantees, and how one is made. Schedules nothing.

Invariant: what `make` returns was made from parameters that are known, numbers, and in range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from scheduler.core.blocks import BlockPool
from scheduler.core.policies import edf, fcfs, priority, priority_aging, sjf, weighted_score
from scheduler.core.policies.base import Param, Policy, PolicyInfo
from scheduler.errors import SettingsError

_ALL = (fcfs.INFO, priority.INFO, priority_aging.INFO, sjf.INFO, edf.INFO, weighted_score.INFO)

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
