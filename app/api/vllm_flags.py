"""Settings as flags of `vllm serve`, and what it has no flag for. Knows no engine and no page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

ITS_POLICIES = ("fcfs", "priority")


def vllm_flags(settings: Mapping[str, Any], table: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """{flags, lacks}: one flag a setting that vLLM has too, and the others by name. `table`: rows of settings.describe()."""
    flags, lacks = list[str](), list[str]()
    for spec in table:
        name, value = spec["name"], settings.get(spec["name"])
        if not spec["vllm"]:
            lacks.append(name)
        elif name == "policy" and value not in ITS_POLICIES:
            lacks.append(f"{name} {value}")
        else:
            flags.append(_flag(name, value))
    return {"flags": flags, "lacks": lacks}


def _flag(name: str, value: Any) -> str:
    if name == "policy":
        return f"--scheduling-policy {value}"
    dashed = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{dashed}" if value else f"--no-{dashed}"
    return f"--{dashed} {value}"
