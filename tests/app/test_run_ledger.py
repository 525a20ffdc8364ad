"""RunLedger over a real database: the generator's file fills the gaps, a cut last line is no line, the report is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.run_ledger import RunLedger
from app.store import client_rows, database, migrate
from app.store.queries import Queries
from app.summaries import Summaries


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[RunLedger]:
    url = f"sqlite:///{tmp_path / 'records.db'}"
    migrate.upgrade(url)
    connection = database.writing(url).connect()

    def job(work: Any) -> Any:
        with connection.begin():
            return work(connection)

    queries = Queries(url)

    def here(call: Any, *args: Any) -> Any:
        return call(*args)

    made = RunLedger(job, Summaries(url, queries, here, job), here)
    made.create({"id": "run_1", "created_wall": 1, "scenario": "steady", "settings": {"max_num_seqs": 4}})
    job(lambda each: client_rows.add(each, "run_1", [client_rows.row("run_1", line(0))]))
    yield made
    queries.close()
    connection.close()


def line(n: int) -> dict[str, Any]:
    return {
        "id": f"run_1-{n}",
        "n": n,
        "status": "ok",
        "sent_ms": 1.0 + n,
        "first_ms": 2.0 + n,
        "last_ms": 3.0 + n,
        "end_ms": 4.0 + n,
    }


def test_only_what_was_not_posted_is_imported_and_a_cut_line_is_left_out(ledger: RunLedger, tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text("".join(json.dumps(line(n)) + "\n" for n in range(1200)) + json.dumps(line(1200))[:20])
    assert ledger.import_file("run_1", file) == 1199
    assert ledger.import_file("run_1", file) == 0


def test_the_report_is_kept_with_its_verdict(ledger: RunLedger) -> None:
    for status in ("running", "finished"):
        assert ledger.change("run_1", {"status": status})["status"] == status
    report = ledger.report("run_1")
    assert report is not None
    kept = ledger.change("run_1", {"error": None})
    assert kept["verdict"] == report["verdict"] == "invalid", "the client saw a request that the server never had"
    assert kept["report"]["reconciliation"] == report["reconciliation"]
