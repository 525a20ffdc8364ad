"""The catalog of policies: names, parameters, sources and guarantees, and how one is made. Schedules nothing.

Invariant: what `make` returns was made from parameters that are known, numbers, and in range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from scheduler.core.policies import (
    deficit_longest_prefix,
    deficit_round_robin,
    edf,
    fcfs,
    least_slack,
    lifo,
    longest_prefix,
    priority,
    priority_aging,
    sjf,
    skip_join_mlfq,
    srtf,
    vtc,
    weighted_score,
)
from scheduler.core.policies.base import Param, Policy, PolicyInfo, Prefixes
from scheduler.errors import SettingsError

_ALL = (
    fcfs.INFO,
    priority.INFO,
    priority_aging.INFO,
    sjf.INFO,
    srtf.INFO,
    skip_join_mlfq.INFO,
    edf.INFO,
    least_slack.INFO,
    vtc.INFO,
    deficit_round_robin.INFO,
    longest_prefix.INFO,
    deficit_longest_prefix.INFO,
    weighted_score.INFO,
    lifo.INFO,
)

CATALOG: dict[str, PolicyInfo] = {info.name: info for info in _ALL}


def make(
    name: str, params: Mapping[str, object], pool: Prefixes | None = None, known: Mapping[str, PolicyInfo] = CATALOG
) -> Policy:
    """The policy `name` of `known`; raises SettingsError naming `policy` or `policy_params.x`."""
    info = known.get(name)
    if info is None:
        raise SettingsError(f"unknown policy {name!r}; known: {', '.join(known)}", "policy")
    values = {param.name: param.default for param in info.params if param.family is None}
    for key, value in params.items():
        param = next((param for param in info.params if param.takes(key)), None)
        if param is None:
            takes = ", ".join(param.name for param in info.params) or "none"
            raise SettingsError(f"policy {name} has no parameter {key!r}; it takes: {takes}", f"policy_params.{key}")
        values[key] = _checked(param, key, value)
    return info.make(values, pool)


def _checked(param: Param, name: str, value: object) -> float:
    where = f"policy_params.{name}"
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise SettingsError(f"{where} must be a number, not {value!r}", where)
    if param.whole and value != int(value):
        raise SettingsError(f"{where} must be a whole number, not {value!r}", where)
    if not param.low <= value <= param.high:
        raise SettingsError(f"{where} must be between {param.low:g} and {param.high:g}, not {value!r}", where)
    return value
