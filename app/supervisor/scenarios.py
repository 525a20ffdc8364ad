"""The library of load scenarios, read as data: what a page may offer and a run may be asked for. Imports no load generator:
what only that one knows (is this a load shape? what would be offered?) it is asked, as a child that prints and ends.

Invariant: only names listed in the folder are ever opened; parameters are checked by the types and ranges of their file.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scheduler.errors import SettingsError

LOADGEN = Path(__file__).resolve().parents[2] / "loadgen"
FOLDER = LOADGEN / "scenarios"
_FACTOR = tomllib.loads((LOADGEN / "orders.toml").read_text("utf-8"))["rate_factor"]
LEAST_FACTOR, MOST_FACTOR = float(_FACTOR["least"]), float(_FACTOR["most"])  # of a scenario's load, that a run may be asked for
_TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,), "shape": (str,)}
LONGEST = 4096  # characters of a value
TIMEOUT_S = 30.0
_TURNS = threading.BoundedSemaphore(2)  # children at once, whoever asks how often
MODULE = [sys.executable, "-m", "loadgen"]


def names(folder: Path = FOLDER) -> list[str]:
    """What there is, sorted."""
    home = folder.resolve()  # a link that leads elsewhere is none of them
    return sorted(path.stem for path in folder.glob("*.toml") if path.resolve().parent == home)


def describe(name: str, overrides: Mapping[str, Any] | None = None, folder: Path = FOLDER) -> dict[str, Any]:
    """One scenario for people: title, description, parameters with their values, duration, SLO, scheduler settings.

    Raises SettingsError naming an unknown scenario or the parameter at fault.
    """
    if name not in names(folder):
        raise SettingsError(f"there is no scenario {name[:64]!r}; known: {', '.join(names(folder))}", "scenario")
    data = tomllib.loads((folder / f"{name}.toml").read_text("utf-8"))
    params = data.get("params", {})
    values = {key: spec["default"] for key, spec in params.items()}
    for key, value in (overrides or {}).items():
        if key not in params:
            raise SettingsError(
                f"{name} has no parameter {key[:64]!r}; it has: {', '.join(params) or 'none'}", f"set.{key[:64]}"
            )
        values[key] = _checked(f"set.{key}", value, params[key])
    drawn = {key: value for key, value in (overrides or {}).items() if params[key]["type"] == "shape"}
    if drawn:
        _ask(name, drawn, "--check", "set.")
    streams = data.get("streams", [])
    return {
        "name": name,
        "title": data.get("title", name),
        "description": str(data.get("description", "")).strip(),
        "parameters": [{"name": key, **spec} for key, spec in params.items()],
        "values": values,
        "duration_s": _settled(data.get("duration_s"), values),
        "drain_s": _settled(data.get("drain_s", 5.0), values),
        "slo": {key: _settled(value, values) for key, value in data.get("slo", {}).items()},
        "scheduler": {key: _settled(value, values) for key, value in data.get("scheduler", {}).items()},
        "processes": sorted({str(stream.get("arrivals", {}).get("process", "")) for stream in streams} - {""}),
    }


def offered(name: str, given: Mapping[str, str]) -> dict[str, Any]:
    """What it would offer with these parameters, as text: expected arrivals a second over time, by stream (loadgen/offered.py).

    Raises SettingsError naming the parameter at fault.
    """
    if name not in names():
        raise SettingsError(f"there is no scenario {name[:64]!r}; known: {', '.join(names())}", "scenario")
    return _ask(name, given, "--offered")


def _ask(name: str, given: Mapping[str, Any], what: str, prefix: str = "") -> dict[str, Any]:
    """What the load generator prints of a scenario; `prefix`: of parameters' names, where one is refused."""
    for key, value in given.items():
        if len(str(value)) > LONGEST or "\0" in f"{key}{value}":
            raise SettingsError(f"{prefix}{key[:64]} must be text of at most {LONGEST} characters", f"{prefix}{key[:64]}")
    words = [*MODULE, f"--scenario={name}", what, *(f"--set={key}={value}" for key, value in given.items())]
    try:
        with _TURNS:
            made = subprocess.run(words, capture_output=True, cwd=LOADGEN.parent, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise SettingsError(f"the load generator did not answer about {name} within {TIMEOUT_S:.0f} s", "scenario") from None
    if made.returncode != 0:
        said = _error(made.stderr)
        raise SettingsError(str(said.get("message", "the load generator refuses it")), f"{prefix}{said.get('param', name)}")
    found: dict[str, Any] = json.loads(made.stdout)
    return found


def _error(stderr: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(stderr)["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return found


def _settled(value: Any, values: Mapping[str, Any]) -> Any:
    """A value written "$NAME" is that parameter's."""
    if isinstance(value, str) and value.startswith("$"):
        return values.get(value[1:])
    return value


def _checked(where: str, value: Any, spec: Mapping[str, Any]) -> Any:
    kind = spec["type"]
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise SettingsError(f"{where} must be of type {kind}, not {value!r}", where)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = spec.get("low", -math.inf), spec.get("high", math.inf)
        if not (math.isfinite(value) and low <= value <= high):
            raise SettingsError(f"{where} must be between {low:g} and {high:g}, not {value:g}", where)
    if spec.get("choices") and value not in spec["choices"]:
        raise SettingsError(f"{where} must be one of {', '.join(spec['choices'])}, not {value!r}", where)
    return value
