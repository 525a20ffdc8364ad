"""The client's clock beside ours: no effect before its cause, the truth within the error, silence where that cannot be."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from builders import MS, make_request
from records import Records, make_bench

from app.store import client_rows

SHIFT = 1234.5  # ms by which the client's clock is ahead of the records' zero
WAY = (0.4, 0.9, 0.2, 2.0)  # ms that the question took, by request; the answer takes twice as long


def played(records: Records, shift: float = SHIFT) -> dict[str, float]:
    """Four requests and what their client saw; id → when it was sent, ms since we received it."""
    bench = make_bench(2)
    requests = [make_request(f"r{i}", prompt=4, max_tokens=3) for i in range(len(WAY))]
    records.play(bench, requests, run="one")
    lines = []
    for way, (id, received, first, last) in zip(WAY, _instants(records), strict=True):
        times = {
            "sent_ms": received - way,
            "first_ms": first + 2 * way,
            "last_ms": last + 2 * way,
            "due_ms": received - way - 1,
        }
        given = {name: at + shift for name, at in times.items()}
        lines.append(client_rows.row("one", {"id": f"c-{id}", "status": "ok", **given}))
    records.job(partial(client_rows.add, run="one", rows=lines))
    return {f"r{i}": -way for i, way in enumerate(WAY)}


def _instants(records: Records) -> list[tuple[Any, ...]]:
    rows = records.sql("SELECT id, received_at, first_token_at, finished_at FROM requests ORDER BY id")
    return [(id, *(at / MS for at in instants)) for id, *instants in rows]


def clock(records: Records, id: str) -> Any:
    found = records.queries.request(id)
    assert found is not None
    return found["client"]["clock"]


def test_sent_is_where_it_was_within_the_error_that_is_told(records: Records) -> None:
    for id, sent in played(records).items():
        shown = clock(records, id)
        assert shown["sent_ms"] == pytest.approx(sent, abs=shown["error_ms"] + 1e-6)
        assert shown["error_ms"] == pytest.approx((0.2 + 2 * 0.2) / 2), "the quickest way there and back"
        assert shown["due_ms"] == pytest.approx(shown["sent_ms"] - 1) and shown["sent_ms"] <= 0 < shown["first_ms"]


def test_where_no_offset_keeps_cause_before_effect_none_is_told(records: Records) -> None:
    played(records)
    late = client_rows.row("one", {"id": "c-odd", "status": "ok", "sent_ms": 0, "first_ms": 1, "last_ms": 2})
    records.job(partial(client_rows.add, run="one", rows=[late]))
    bench = make_bench(3)
    records.play(bench, [make_request("odd", prompt=4, max_tokens=3)], run="one")
    assert clock(records, "odd") is None
