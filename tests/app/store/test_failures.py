"""Failures of a run: alike ones together, the most frequent first, with a request to look at."""

from __future__ import annotations

from functools import partial

from records import Records

from app.store import client_rows, failures

WELL = ("ok", "incomplete", "client_cancel")


def line(n: int, status: str, http: int | None, error: str | None, server_id: str | None) -> dict[str, object]:
    return {
        "id": f"r-{n}",
        "n": n,
        "status": status,
        "http": http,
        "error": error,
        "end_ms": 1000.0 * n,
        "server_id": server_id,
    }


def test_alike_failures_are_one_line_with_first_last_and_a_sample(records: Records) -> None:
    lines = [
        line(1, "shed", 429, "busy", "req_1"),
        line(2, "http_error", None, "ConnectionRefusedError", None),
        line(3, "shed", 429, "busy", "req_3"),
        line(4, "shed", 429, "too many tokens", "req_4"),
        *(line(5 + n, status, 200, None, f"req_{5 + n}") for n, status in enumerate(WELL)),
    ]
    other = [client_rows.row("other", line(1, "timeout", 200, "no end within 5 s", "req_9"))]
    records.job(partial(client_rows.add, run="r", rows=[client_rows.row("r", each) for each in lines]))
    records.job(partial(client_rows.add, run="other", rows=other))
    found = records.queries.ask(failures.groups, run_id="r")
    assert [(row["status"], row["http"], row["error"], row["count"]) for row in found] == [
        ("shed", 429, "busy", 2),
        ("http_error", None, "ConnectionRefusedError", 1),
        ("shed", 429, "too many tokens", 1),
    ]
    assert (found[0]["first_s"], found[0]["last_s"]) == (1.0, 3.0) and found[0]["sample"] in ("req_1", "req_3")
    assert found[1]["sample"] is None and sum(row["count"] for row in found) == len(lines) - len(WELL)


def test_a_run_that_went_well_has_none(records: Records) -> None:
    assert records.queries.ask(failures.groups, run_id="r") == []
