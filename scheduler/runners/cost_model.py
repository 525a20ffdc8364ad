"""Cost models: how long one step takes on hardware that is not here. Read from files, or fitted to a recorded run.

The formula is step_cost.py's, the fit calibration.py's; this is their face. Shipped tables are fitted to measured kernels;
each file names its source.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scheduler.errors import SettingsError
from scheduler.runners.calibration import Fit, FitError, Sample, fit
from scheduler.runners.step_cost import COEFFICIENTS, CostModel, StepShape, Table, regime_of

__all__ = [
    "CALIBRATED",
    "DEFAULT_HARDWARE",
    "FOLDER",
    "CostModel",
    "Fit",
    "FitError",
    "Sample",
    "StepShape",
    "Table",
    "available",
    "fit",
    "load",
    "regime_of",
]

CALIBRATED = "calibrated:"  # an id so begun: fitted to the run named after it, whose KV memory it has
DEFAULT_HARDWARE = "h100-llama-3.1-8b-tp1-bf16"
FOLDER = Path(__file__).parent / "cost_models"


def available() -> list[str]:
    """Ids of the shipped cost models."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str) -> CostModel:
    """A shipped model by id, or a JSON file by path; raises SettingsError naming `hardware`."""
    path = FOLDER / f"{name}.json" if name in available() else Path(name)
    if not path.is_file():
        raise SettingsError(f"unknown hardware {name!r}; known: {', '.join(available())}", "hardware")
    try:
        return _parse(json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        raise SettingsError(f"{path} is not a cost model: {error!r}", "hardware") from error


def _parse(raw: dict[str, Any]) -> CostModel:
    attention = {name: tuple(float(row[c]) for c in COEFFICIENTS) for name, row in raw["attention"].items()}
    if set(attention) != {"decode", "prefill", "mixed"}:
        raise ValueError("attention needs decode, prefill and mixed")
    return CostModel(
        id=raw["id"],
        gpu=raw["gpu"],
        model=raw["model"],
        kv_capacity_tokens=int(raw["kv_capacity_tokens"]),
        attn_width=int(raw["attn_width"]),
        body=Table(tuple(raw["body_ms"]["tokens"]), tuple(raw["body_ms"]["ms"])),
        head=Table(tuple(raw["head_ms"]["seqs"]), tuple(raw["head_ms"]["ms"])),
        attention=attention,
        overhead_ms=float(raw["overhead_ms"]),
    )
