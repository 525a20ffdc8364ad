"""Names that a server is started with, looked up before a directory is made or a port taken. Starts nothing.

Policies of one's own are known to the engine alone: where there are such, it checks the name.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from app.settings import ServerSettings
from scheduler.core.policies.catalog import CATALOG
from scheduler.errors import SettingsError
from scheduler.runners import cost_model


def check_names(settings: ServerSettings) -> None:
    """Raises SettingsError naming the hardware or the policy that is not known, and what may be meant."""
    if settings.runner == "simulated" and settings.hardware:
        try:
            cost_model.load(settings.hardware)
        except SettingsError as error:
            raise SettingsError(f"{error.message}{meant(settings.hardware, cost_model.available())}", "hardware") from error
    policy = settings.scheduler.get("policy")
    if policy and not settings.policies and policy not in CATALOG:
        raise SettingsError(f"unknown policy {policy!r}; known: {', '.join(CATALOG)}{meant(policy, CATALOG)}", "policy")


def meant(name: str, known: Collection[str]) -> str:
    """`; did you mean …?` of the names that begin so, or else of the one most alike; "" where none is."""
    found = [each for each in known if each.startswith(name)] or get_close_matches(name, known, 1)
    return f"; did you mean {' or '.join(found)}?" if found else ""
