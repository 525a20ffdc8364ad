"""Lives that belong to one run alone: of a run that was simulated or imported. Knows `runs.versions`, no table.

Their numbers are below zero, so that no window of the wall clock is ever asked for their steps, and the newest life is always
one that was lived here. Invariant: a run that was measured here has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

IMPORTED, SIMULATION = "imported", "simulation"


def own_lives(versions: Mapping[str, Any] | None) -> list[int] | None:
    """Numbers of the lives; None where the run's steps are those of its window."""
    told = versions or {}
    if IMPORTED in told:
        return list(told[IMPORTED]["boots"])
    return [told[SIMULATION]["boot"]] if SIMULATION in told else None


def renumbered(versions: Mapping[str, Any] | None, numbers: Mapping[int, int]) -> dict[str, Any] | None:
    """The same `versions`, its lives under other numbers; lives that `numbers` lacks keep theirs."""
    if versions is None:
        return None
    made = dict(versions)
    if IMPORTED in made:
        boots = [numbers.get(boot, boot) for boot in made[IMPORTED]["boots"]]
        made[IMPORTED] = {**made[IMPORTED], "boots": boots}
    if SIMULATION in made:
        boot = made[SIMULATION]["boot"]
        made[SIMULATION] = {**made[SIMULATION], "boot": numbers.get(boot, boot)}
    return made
