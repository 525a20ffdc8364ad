"""What tells a run from others of its scenario: what it was asked with, then what its server was started or set with.

Knows the library and the table of settings, no row of the records but the JSON of a run. Of a server's setting it is known
by what computed how it would be by itself; where it is not (a GPU's memory, the context of a model), it is left out. The
policy is left out: lists have it in a column.
Invariant: what a run was asked with is shown, whatever its value; so is a parameter of a scenario that the library has no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from app.store.advice import Memory, memory_of
from app.supervisor import scenarios
from scheduler.settings import SchedulerSettings

_OWN = SchedulerSettings()
_HERE = {spec.name: getattr(_OWN, spec.name) for spec in fields(SchedulerSettings)}
_CUDA = {spec.name: spec.metadata["cuda"] for spec in fields(SchedulerSettings)}
_BY_RUNNER = {"simulated": (_CUDA,), "null": (_HERE,)}  # a model may be computed here or on a GPU: that is not recorded


def with_departures(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Runs, each with `unlike_default`: {name: value}, what it was asked with first."""
    named = {str(run["scenario"]) for run in items if run["scenario"]}
    known = {name: _given(scenarios.describe(name)) for name in named.intersection(scenarios.names())}
    engines = {_computed(run): run.get("engine") or {} for run in items}
    memory = {which: memory_of(engine) for which, engine in engines.items()}  # a cost model is read once, not once a run
    return [
        {**run, "unlike_default": departures(run, known.get(str(run["scenario"]), {}), memory[_computed(run)])} for run in items
    ]


def asked_with(run: Mapping[str, Any]) -> dict[str, Any]:
    """What a run was asked with, beside its scenario: parameters that are not as the library has them, then settings."""
    known = run["scenario"] in scenarios.names()
    return _asked(run, _given(scenarios.describe(run["scenario"])) if known else {})


def departures(run: Mapping[str, Any], defaults: Mapping[str, Any], memory: Memory) -> dict[str, Any]:
    """Of one run; `defaults`: of its scenario's parameters; `memory`: of what computed it."""
    found = {name: value for name, value in _asked(run, defaults).items() if name != "policy"}
    others = {name: value for name, value in (run["settings"] or {}).items() if name != "policy" and name not in found}
    runner, _ = _computed(run)
    return found | {name: value for name, value in others.items() if not _usual(name, value, runner, memory)}


def _asked(run: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    given = run["parameters"] or {}
    own = {name: value for name, value in given.items() if name not in defaults or value != defaults[name]}
    return own | (run["scheduler"] or {})


def _given(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """What a run keeps of its scenario: the parameters, and the bounds that it is judged by."""
    return {**scenario["values"], **{f"slo_{name}": value for name, value in scenario["slo"].items()}}


def _computed(run: Mapping[str, Any]) -> tuple[str | None, str | None]:
    engine = run.get("engine") or {}
    return engine.get("runner"), engine.get("hardware")


def _usual(name: str, value: Any, runner: str | None, memory: Memory) -> bool:
    """Would a server have it so by itself, or does nobody know?"""
    if name == "max_model_len":
        return True  # the model's
    if name == "kv_cache_tokens" and runner != "null":
        return not memory.known or value == memory.most
    tables = _BY_RUNNER.get(runner or "", (_HERE, _CUDA))
    return any(name in table and value == table[name] for table in tables)
