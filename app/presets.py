"""Presets: settings that are known by a name in this field. Knows no engine; nothing is changed by naming one.

Invariant: each holds live settings alone, and is lawful on top of any settings whose limits are (a law of the tests).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    """A name, what it is known for, and the settings that make it; others stay as they are."""

    name: str
    help: str
    settings: dict[str, Any]


_CHUNKED = {"enable_chunked_prefill": True, "long_prefill_token_threshold": 0}

PRESETS = (
    Preset(
        "vLLM",
        "first come, first served; prompts in chunks beside the decodes; blocks as tokens come, preemption when they run out",
        {"policy": "fcfs", "batching": "continuous", "allocation": "on_demand", "itl_target_ms": 0.0, **_CHUNKED},
    ),
    Preset(
        "Orca",
        "slots fill in every step; a prompt is computed whole, and room for the whole output is kept from the start",
        {"policy": "fcfs", "batching": "continuous", "allocation": "reserve", "enable_chunked_prefill": False},
    ),
    Preset(
        "static batches",
        "one batch at a time: who comes later waits until all of it have ended",
        {"policy": "fcfs", "batching": "static", "allocation": "reserve", "enable_chunked_prefill": False},
    ),
    Preset(
        "newcomers apart",
        "newcomers are prefilled in a step of their own, while the decodes wait, then join the batch",
        {"policy": "fcfs", "batching": "merge", "enable_chunked_prefill": False},
    ),
    Preset(
        "steady tokens",
        "the step's budget shrinks until the decodes keep 50 ms between tokens; prefill takes what is left",
        {"policy": "fcfs", "batching": "continuous", "itl_target_ms": 50.0, **_CHUNKED},
    ),
    Preset("fair tenants", "whoever was served least goes first, by tenant (VTC)", {"policy": "vtc"}),
    Preset("short first", "the shortest prompt and expected output first; long ones can starve", {"policy": "sjf"}),
    Preset("levels", "served least runs first, without knowing any length (FastServe)", {"policy": "skip_join_mlfq"}),
)


def link(preset: Preset) -> dict[str, str]:
    """The Policy page's parameters that fill its form with the preset: `scheduler.NAME`, `scheduler.policy_params.NAME`."""
    return _named("scheduler.", preset.settings)


def _named(stem: str, settings: Mapping[str, Any]) -> dict[str, str]:
    found = dict[str, str]()
    for name, value in settings.items():
        if isinstance(value, dict):
            found |= _named(f"{stem}{name}.", value)
        else:
            found[stem + name] = value if isinstance(value, str) else json.dumps(value)
    return found
