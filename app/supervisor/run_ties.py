"""What ties load runs to the rest: the records that they ask, and where they happen. No behaviour.

Invariant: load_runs.py knows no table and no page; both are handed in as these shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class Ledger(Protocol):
    """What this room asks of the records; each call waits for its commit."""

    def create(self, run: Mapping[str, Any]) -> dict[str, Any]: ...
    def change(self, run_id: str, columns: Mapping[str, Any]) -> dict[str, Any]: ...
    def import_file(self, run_id: str, path: Path) -> int: ...
    def settle(self, run_id: str) -> int: ...
    def report(self, run_id: str) -> dict[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where runs happen. `key`: what the child sends as its API key, "" for none; `on_change` hears of every change.

    versions: what a run that begins at this moment is made with.
    """

    directory: Path
    url: Callable[[], str]
    key: str
    versions: Callable[[], dict[str, Any]]
    on_change: Callable[[dict[str, Any] | None], None]
