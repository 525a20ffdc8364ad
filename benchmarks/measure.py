"""What every benchmark prints beside its figures: the machine, the commit, and the time of a fixed floor loop."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from typing import Any


def floor_ms(rounds: int = 5) -> float:
    """Best milliseconds of a fixed pure-Python loop: what this interpreter on this machine, now, takes for 200,000 turns."""
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        total = 0
        for i in range(200_000):
            total += i & 7
        best = min(best, time.perf_counter() - began)
    return round(best * 1e3, 3)


def surroundings() -> dict[str, Any]:
    """Machine, interpreter, commit and load, for the head of a report."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "commit": commit.stdout.strip() or None,
        "floor_ms": floor_ms(),
    }


def percentile(values: list[float], share: float) -> float:
    """Linear interpolation between the two nearest of `values`."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def summary(values_us: list[float]) -> dict[str, float]:
    """Mean, p50, p99 and maximum, microseconds."""
    return {
        "mean": round(sum(values_us) / len(values_us), 1),
        "p50": round(percentile(values_us, 0.5), 1),
        "p99": round(percentile(values_us, 0.99), 1),
        "max": round(max(values_us), 1),
    }


def progress(text: str) -> None:
    """A line on stderr: how far it is."""
    print(text, file=sys.stderr, flush=True)


def report(name: str, figures: Any) -> None:
    """One JSON object on stdout."""
    json.dump({"benchmark": name, **surroundings(), "figures": figures}, sys.stdout, indent=1)
    print()
