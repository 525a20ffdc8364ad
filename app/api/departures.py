"""What tells a run from others of its scenario: the parameters and scheduler settings that are not as they are by default.

Knows the library and the table of settings, no row of the records but the JSON of a run. Whether a device computes that has
defaults of its own is not kept with a run, so both count as default. The policy is left out: lists have it in a column.
Invariant: a parameter of a scenario that the library has no more is shown, since nobody knows its default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from app.supervisor import scenarios
from scheduler.settings import SchedulerSettings

_OWN = SchedulerSettings()
_DEFAULTS = {spec.name: (getattr(_OWN, spec.name), spec.metadata["cuda"]) for spec in fields(SchedulerSettings)}


def with_departures(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Runs, each with `unlike_default`: {name: value}, its parameters first."""
    asked = {str(run["scenario"]) for run in items if run["scenario"]}
    known = {name: _given(scenarios.describe(name)) for name in asked.intersection(scenarios.names())}
    return [{**run, "unlike_default": departures(run, known.get(str(run["scenario"]), {}))} for run in items]


def departures(run: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Of one run; `defaults`: of its scenario's parameters."""
    given = run["parameters"] or {}
    found = {name: value for name, value in given.items() if name not in defaults or value != defaults[name]}
    settings = {**(run["settings"] or {}), **(run["scheduler"] or {})}
    unlike = {name: value for name, value in settings.items() if name != "policy" and not _usual(name, value)}
    return found | unlike


def _given(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """What a run keeps of its scenario: the parameters, and the bounds that it is judged by."""
    return {**scenario["values"], **{f"slo_{name}": value for name, value in scenario["slo"].items()}}


def _usual(name: str, value: Any) -> bool:
    return value in _DEFAULTS[name] if name in _DEFAULTS else False
