"""RunLedger over a real database: the generator's file fills the gaps, a cut last line is no line, the report is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from records import Records, make_row

from app import run_ledger
from app.cli.report_text import report_text
from app.run_ledger import RunLedger
from app.store import client_rows, database, migrate
from app.store.queries import Queries
from app.store.reports import build
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


def test_a_run_that_was_deleted_as_soon_as_it_had_ended_has_no_report(ledger: RunLedger) -> None:
    assert ledger.report("run_gone") is None


class Waiting:
    """A run with a request whose client has hung up; the writer hears of its end at the n-th look. The clock goes by sleeps."""

    def __init__(self, path: Path, ends_at: int) -> None:
        self.records, self.now, self.looks, self.ends_at = Records(path / "writer.db"), 0.0, 0, ends_at
        summaries = Summaries(self.records.url, self.records.queries, lambda call, *args: call(*args), self.records.job)
        self.ledger = RunLedger(
            self.records.job, summaries, lambda call, *args: call(*args), clock=lambda: self.now, sleep=self.sleep
        )
        self.ledger.create({"id": "run_1", "created_wall": 1, "settings": {}})
        self.records.accept(make_row("req_1", run="run_1", client_request_id="run_1-0"))

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.looks += 1
        if self.looks == self.ends_at:
            self.records.writer.end("req_1", "abort", "client_disconnected", 5_000_000)


@pytest.fixture
def waiting(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Waiting]:
    made = Waiting(tmp_path, request.param)
    yield made
    made.records.close()


@pytest.mark.parametrize("waiting", [3], indirect=True)
def test_a_run_has_settled_once_its_last_row_has_ended(waiting: Waiting) -> None:
    assert waiting.ledger.settle("run_1") == 0 and waiting.looks == 3
    report = waiting.records.queries.ask(build, "run_1")
    assert report["reconciliation"]["open_rows"] == 0 and "not ended yet" not in report_text(report)


@pytest.mark.parametrize("waiting", [0], indirect=True)
def test_what_never_settles_is_waited_for_so_long_and_said_in_the_report(waiting: Waiting) -> None:
    assert waiting.ledger.settle("run_1") == 1 and run_ledger.SETTLES_S <= waiting.now < run_ledger.SETTLES_S + 1
    report = waiting.records.queries.ask(build, "run_1")
    assert "1 of them have not ended yet" in report_text(report)
