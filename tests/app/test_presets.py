"""Presets: lawful on top of whatever is in effect, live, and known policies."""

from __future__ import annotations

import pytest

from app.presets import PRESETS, Preset, link
from scheduler.core.policies.catalog import CATALOG
from scheduler.settings import SchedulerSettings

ODD = SchedulerSettings(
    policy="lifo", batching="static", enable_chunked_prefill=False, max_num_batched_tokens=4096, itl_target_ms=5.0
)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
@pytest.mark.parametrize("before", [SchedulerSettings(), ODD], ids=["default", "odd"])
def test_a_preset_can_be_applied_between_two_steps(preset: Preset, before: SchedulerSettings) -> None:
    after = before.change(preset.settings, live=True)
    assert {name: getattr(after, name) for name in preset.settings} == preset.settings
    assert after.policy in CATALOG


def test_the_link_of_a_preset_says_what_the_form_types() -> None:
    made = Preset(
        "x", "y", {"policy": "vtc", "enable_chunked_prefill": False, "itl_target_ms": 50.0, "policy_params": {"w": 2}}
    )
    assert link(made) == {
        "scheduler.policy": "vtc",
        "scheduler.enable_chunked_prefill": "false",
        "scheduler.itl_target_ms": "50.0",
        "scheduler.policy_params.w": "2",
    }


def test_no_two_presets_are_the_same() -> None:
    assert len({preset.name for preset in PRESETS}) == len(PRESETS) == len({str(preset.settings) for preset in PRESETS})
