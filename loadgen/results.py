"""What the load generator saw: one record a request, its running totals and its file. Knows no scenario and no server.

Each finished request becomes one JSON line, written at once (`requests.jsonl` is the truth of a run).
Invariant: sent = ok + failed + refused + cancelled + incomplete + in flight, at every instant.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import orjson

OK, HTTP_ERROR, STREAM_ERROR, EMPTY_STREAM = "ok", "http_error", "stream_error", "empty_stream"
TIMEOUT, CLIENT_CANCEL, INCOMPLETE, SHED = "timeout", "client_cancel", "incomplete", "shed"
GROUP = {
    OK: "ok",
    HTTP_ERROR: "failed",
    STREAM_ERROR: "failed",
    EMPTY_STREAM: "failed",
    TIMEOUT: "failed",
    SHED: "refused",
    CLIENT_CANCEL: "cancelled",
    INCOMPLETE: "incomplete",
}


@dataclass(frozen=True, slots=True)
class Record:
    """One request as its client saw it. Instants in ms from the run's start; None where undefined, never 0.

    due: its scheduled arrival (open loop only); sent: the call began; first, last: token events; end: close or error.
    `estimated`: the server gave no usage, output_tokens counts token events. `gaps_ms`: between token events.
    `first_tokens`: tokens in the first event, where the server says that it held more than one.
    """

    id: str
    n: int
    tenant: str
    kind: str
    due_ms: float | None
    sent_ms: float
    first_ms: float | None
    last_ms: float | None
    end_ms: float
    status: str
    http: int | None
    error: str | None
    prompt_tokens: int | None
    output_tokens: int | None
    estimated: bool
    gaps_ms: tuple[float, ...]
    server_id: str | None
    attempts: int = 1
    first_tokens: int | None = None

    def line(self) -> bytes:
        row = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.first_tokens is None:
            del row["first_tokens"]
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


@dataclass(slots=True)
class Totals:
    """Counts of a run, or of one process of it."""

    sent: int = 0
    ok: int = 0
    failed: int = 0
    refused: int = 0
    cancelled: int = 0
    incomplete: int = 0

    @property
    def in_flight(self) -> int:
        return self.sent - self.ok - self.failed - self.refused - self.cancelled - self.incomplete

    def count(self, status: str) -> None:
        group = GROUP[status]
        setattr(self, group, getattr(self, group) + 1)

    def plus(self, other: Totals) -> Totals:
        return Totals(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def as_json(self) -> dict[str, int]:
        return {**asdict(self), "in_flight": self.in_flight}


class Recorder:
    """Counts and writes records. `also` gets each line too (to be sent on)."""

    def __init__(self, path: Path | None, also: Callable[[bytes], None] | None = None) -> None:
        self.totals = Totals()
        self._also = also
        # O_APPEND and one write a line: several processes of a run may share the file, and a kill loses no whole line.
        self._fd = None if path is None else os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def began(self) -> int:
        """A request is being sent; its rank in this process."""
        self.totals.sent += 1
        return self.totals.sent - 1

    def record(self, record: Record) -> None:
        line = record.line()
        self.totals.count(record.status)
        if self._fd is not None:
            _write_all(self._fd, line)
        if self._also is not None:
            self._also(line)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a requests.jsonl; a last line cut short by a kill is left out."""
    rows = []
    for line in path.read_bytes().split(b"\n"):
        try:
            rows.append(orjson.loads(line))
        except orjson.JSONDecodeError:
            continue
    return rows
