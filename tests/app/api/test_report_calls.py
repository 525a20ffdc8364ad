"""GET /api/runs/{id}/report and its file: kept or made anew, with other bounds, and while a long run's figures are made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from played_run import play_run
from records import Records

from app.api import errors
from app.api.answers import attached
from app.api.reports import reports
from app.api.requests import requests_api
from app.api.runs import runs
from app.report_file.page import report_html
from app.summaries import Summaries, SummaryFailed


class Reader:
    """What the web process offers; here a thread is not needed."""

    def __init__(self, records: Records) -> None:
        self.queries = records.queries
        self.summaries: Any = Summaries(records.url, records.queries, self.run_native, records.job)

    def run_native(self, function: Any, *args: Any) -> Any:
        return function(*args)


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    made = Records(tmp_path / "records.sqlite3")
    play_run(made)
    yield made
    made.close()


@pytest.fixture
def reader(records: Records) -> Reader:
    return Reader(records)


@pytest.fixture
def client(reader: Reader) -> FlaskClient:
    app = Flask(__name__)
    app.extensions["batchscope"] = reader
    for blueprint in (reports, requests_api, runs):
        app.register_blueprint(blueprint)
    errors.register(app)
    return app.test_client()


def test_a_report_says_whether_it_was_kept(client: FlaskClient) -> None:
    found = [client.get("/api/runs/one/report").get_json()["summary"]["stored"] for _ in range(2)]
    assert found == [False, True]
    assert client.get("/api/runs/nobody/report").status_code == 404


def test_other_bounds_are_asked_by_name(client: FlaskClient) -> None:
    slo = client.get("/api/runs/one/report?slo_ttft_ms=1").get_json()["goodput"]["slo"]
    assert (slo["ttft_ms"], slo["tpot_ms"]) == (1.0, 100.0)
    wrong = client.get("/api/runs/one/report?slo_tpot_ms=x")
    assert wrong.status_code == 400 and wrong.get_json()["error"]["param"] == "slo_tpot_ms"


def test_the_file_is_one_attachment(client: FlaskClient) -> None:
    answer = client.get("/api/runs/one/report.html")
    assert answer.content_type == "text/html; charset=utf-8" and answer.data.startswith(b"<!doctype html>")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="report-one.html"'
    assert client.get("/api/runs/nobody/report.html").status_code == 404


def test_in_the_file_code_is_an_element(client: FlaskClient) -> None:
    made = client.get("/api/runs/one/report").get_json()
    page = report_html(made | {"headline": "slots; `batchscope simulate --run <r>` needs no pace"}).decode()
    assert "slots; <code>batchscope simulate --run &lt;r&gt;</code> needs no pace</p>" in page


def test_a_report_says_what_was_set_for_its_run(client: FlaskClient, records: Records) -> None:
    records.sql("UPDATE runs SET parameters = '{\"rate\": 3}', scenario = NULL, scheduler = '{\"max_num_seqs\": 2}'")
    assert client.get("/api/runs/one/report").get_json()["asked"] == {"rate": 3, "max_num_seqs": 2}


def test_a_runs_files_are_named_after_it(client: FlaskClient) -> None:
    paths = ("/api/runs/one/bundle", "/api/export/trace.json?run=one")
    named = [client.get(path).headers["Content-Disposition"] for path in paths]
    assert named == [f'attachment; filename="{name}"' for name in ("one.batchscope-run.gz", "trace-one.json")]


def test_a_file_is_named_after_its_run_in_letters_that_every_file_system_takes() -> None:
    assert attached("run_01x.batchscope-run.gz") == {"Content-Disposition": 'attachment; filename="run_01x.batchscope-run.gz"'}
    assert attached('a"/\\é\nb.json') == {"Content-Disposition": 'attachment; filename="ab.json"'}


class Busy:
    """A long run: its figures are being made, or could not be."""

    failing = False

    def report(self, run_id: str, _slo: Any) -> dict[str, Any]:
        if self.failing:
            raise SummaryFailed("it was stopped", "run")
        return {"computing": {"run": run_id, "what": "requests", "rows": 20_000, "of": 900_000, "elapsed_s": 1.5}}

    def stop(self, run_id: str) -> bool:
        return run_id == "one"


def test_a_long_run_answers_how_far_it_is_and_can_be_stopped(client: FlaskClient, reader: Reader) -> None:
    reader.summaries = Busy()
    answer = client.get("/api/runs/one/report")
    assert (answer.status_code, answer.get_json()["computing"]["rows"]) == (202, 20_000)
    assert answer.headers["Retry-After"] == "1"
    assert client.post("/api/runs/one/report/stop").get_json() == {"stopped": True}
    assert client.get("/api/runs/one/report/stop").status_code == 405
    reader.summaries.failing = True
    assert client.get("/api/runs/one/report").get_json()["error"]["code"] == "summary_failed"
