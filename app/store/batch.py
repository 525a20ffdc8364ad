"""Batch: what the next transaction of the writer will hold, by table. Knows no connection and no event.

Rows are tuples by the columns named here: a dict a row costs more than SQLite does.
Invariant: all values are absolute, so that a batch written twice changes nothing the second time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from app.store.open_request import Columns

EVENT_COLUMNS = ("request_id", "boot", "seq", "sequence_id", "kind", "at", "terminal", "data")
EventRow = tuple[str, int, int, str, str, int, int, str | None]  # by EVENT_COLUMNS, `data` as JSON's text
STEP_COLUMNS = (
    "boot", "seq", "step", "started_at", "ended_at", "ended_wall", "token_budget", "prefill_tokens", "decode_tokens", "binding",
    "waiting", "running", "preempted", "blocks_free", "host_late_ns", "slices", "waiting_by_reason", "blockers",
)  # fmt: skip
StepRow = tuple[Any, ...]  # by STEP_COLUMNS, `waiting_by_reason` and `blockers` as JSON's text
Row = dict[str, Any]


@dataclass(slots=True)
class Batch:
    """What the next transaction writes, by table. Of `requests`, by id: `live` those that are open, `final` those that have
    ended, `amends` what became known afterwards."""

    events: list[EventRow] = field(default_factory=list)
    terminals: list[EventRow] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    settings: list[Row] = field(default_factory=list)
    boots: list[Row] = field(default_factory=list)
    live: dict[str, Columns] = field(default_factory=dict)
    final: dict[str, Columns] = field(default_factory=dict)
    amends: dict[str, Row] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(getattr(self, spec.name)) for spec in fields(self))

    def extend(self, newer: Batch) -> None:
        """Put what came later behind it."""
        for name in ("events", "terminals", "steps", "settings", "boots"):
            getattr(self, name).extend(getattr(newer, name))
        self.live.update(newer.live)
        for ended in newer.final:
            self.live.pop(ended, None)
        self.final.update(newer.final)
        for key, columns in newer.amends.items():
            self.amends.setdefault(key, {}).update(columns)

    def forget(self, ids: set[str]) -> None:
        """Keep nothing of these requests."""
        self.events = [row for row in self.events if row[0] not in ids]
        self.terminals = [row for row in self.terminals if row[0] not in ids]
        for columns in (self.live, self.final, self.amends):
            for request_id in ids:
                columns.pop(request_id, None)
