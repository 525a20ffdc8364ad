"""The soak's checker: the clients' journal against the database that the server left. Reads both, repairs nothing.

Invariant: each broken promise is a sentence; an empty list means that every accepted request has exactly one terminal state,
that none was lost or ended twice, and that no client was told of an end that the records do not know.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from soak.journal import SENTENCE, Entry

WELL = ("stop", "length")
SLACK_S = 1.0  # between a kill and the instant at which a client saw it


def reckon(path: Path, journal: Iterable[Entry], kills: list[tuple[float, float]]) -> list[str]:
    """All broken promises."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute("SELECT * FROM requests")]
        ends = dict(connection.execute("SELECT sequence_id, count(*) FROM request_events WHERE terminal GROUP BY 1").fetchall())
        holes = list(_holes(connection, {row["id"] for row in rows}))
        sound = connection.execute("PRAGMA integrity_check").fetchone()[0]
    finally:
        connection.close()
    entries = {f"soak-{entry.n}": entry for entry in journal}
    found = [] if sound == "ok" else [f"the database is damaged: {sound}"]
    for row in rows:
        found += _row(row, ends)
    found += _journal(entries, rows, kills)
    return found + holes


def _row(row: dict[str, Any], ends: dict[str, int]) -> Iterator[str]:
    if row["state"] != "finished" or row["finish"] is None:
        yield f"{row['id']} is {row['state']} for ever"
    count = row["sequences"]
    for sequence in [row["id"]] if count == 1 else [f"{row['id']}/{index}" for index in range(count)]:
        if ends.get(sequence, 0) != 1:
            yield f"{sequence} has {ends.get(sequence, 0)} terminal events"
    parts = [value for name, value in row.items() if name.endswith("_ns") and value is not None]
    if parts and sum(parts) != row["finished_at"] - row["received_at"]:
        yield f"the parts of {row['id']} sum to {sum(parts)}, its E2E is {row['finished_at'] - row['received_at']}"


def _journal(entries: dict[str, Entry], rows: list[dict[str, Any]], kills: list[tuple[float, float]]) -> Iterator[str]:
    by_label: dict[str, dict[str, Any]] = {}
    for row in rows:
        label = row["client_request_id"]
        if label in by_label or label not in entries:
            yield f"{row['id']} is {'a second row' if label in by_label else 'a row that nobody sent'}: {label}"
        by_label[label] = row
    for label, entry in entries.items():
        yield from _entry(label, entry, by_label.get(label), kills)


def _entry(label: str, entry: Entry, row: dict[str, Any] | None, kills: list[tuple[float, float]]) -> Iterator[str]:
    if entry.told in ("silent", "quiet"):
        yield f"{label} was never told how it ended ({entry.told}, status {entry.status})"
    if entry.told in ("reset", "unreachable") and not _killed(entry, kills):
        yield f"{label}'s connection broke ({entry.told}) while no web process was killed"
    if row is not None:
        yield from _against(label, entry, row)
    elif entry.status == 200:
        yield f"{label} was answered 200 and has no row"


def _against(label: str, entry: Entry, row: dict[str, Any]) -> Iterator[str]:
    if entry.id is not None and entry.id != row["id"]:
        yield f"{label} was told id {entry.id}, its row is {row['id']}"
    if entry.told == "finished" and row["finish"] not in WELL:
        yield f"{label} was told finished; its row says {row['finish']}: {row['detail']}"
    if entry.told in ("failed", "refused") and row["finish"] in WELL:
        yield f"{label} was told {entry.told} ({entry.code}); its row says {row['finish']}"
    if entry.told == "finished" and row["output_tokens"] != sum(map(len, entry.texts.values())):
        yield f"{label} was sent {entry.texts}; its row counts {row['output_tokens']} tokens"
    for text in entry.texts.values():
        if text not in SENTENCE * (2 + len(text) // len(SENTENCE)):
            yield f"{label} was sent {text!r}, which is not in the sentence"


def _killed(entry: Entry, kills: list[tuple[float, float]]) -> bool:
    return any(entry.began - SLACK_S <= up and down <= entry.ended + SLACK_S for down, up in kills)


def _holes(connection: sqlite3.Connection, ids: set[str]) -> Iterator[str]:
    """The log of each engine life is whole as far as it goes.

    A request may have been ended by the web while its engine died, whose own word of the end came later and was not kept.
    """
    seqs: dict[int, set[int]] = {}
    for table in ("request_events", "steps", "settings_changes"):
        for boot, seq in connection.execute(f"SELECT boot, seq FROM {table} WHERE seq > 0"):
            seqs.setdefault(boot, set()).add(seq)
    strays = connection.execute("SELECT count(*) FROM request_events").fetchone()[0]
    known = sum(1 for (id,) in connection.execute("SELECT request_id FROM request_events") if id in ids)
    if strays != known:
        yield f"{strays - known} events of requests without a row"
    web = "SELECT count(*) FROM request_events JOIN boots USING (boot) WHERE runner = 'web' AND seq > 0 AND terminal"
    excused = connection.execute(web).fetchone()[0]
    for boot, runner in connection.execute("SELECT boot, runner FROM boots"):
        held = {1} | seqs.get(boot, set())
        missing = sorted(set(range(1, max(held))) - held) if runner != "web" else []
        if len(missing) > excused:
            yield f"boot {boot} lacks {len(missing)} events: {missing[:9]}"
