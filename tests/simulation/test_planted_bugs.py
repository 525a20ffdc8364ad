"""The harness can fail: each planted bug is found within its number of seeds, and without it those seeds are clean."""

from __future__ import annotations

import pytest
from simulation import life
from simulation.bugs import BUGS, Bug


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    with bug.plant():
        found = next((seed for seed in range(bug.within) if life.run(seed).faults), None)
    assert found is not None, f"{bug.name}: not found within {bug.within} seeds"
    assert not life.run(found).faults, f"seed {found} fails without the bug, too"
