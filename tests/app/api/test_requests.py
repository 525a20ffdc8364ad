"""The history API: JSON of the records over HTTP, a 400 that names the parameter, a 404 for what is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from records import Records, make_bench, some_requests

from app.api import errors
from app.api.requests import requests_api
from app.api.sql import sql
from app.store.queries import Queries


@dataclass
class Reader:
    """What the web process offers; here a thread is not needed."""

    queries: Queries

    def run_native(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def queue_place(self, request_id: str) -> dict[str, Any] | None:
        return {"position": 1} if request_id == "r2" else None


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    path: Path = tmp_path_factory.mktemp("api")
    records = Records(path / "records.sqlite3")
    records.play(make_bench(2, max_num_seqs=2), some_requests(5))
    app = Flask(__name__)
    app.extensions["batchscope"] = Reader(records.queries)
    app.register_blueprint(requests_api)
    app.register_blueprint(sql)
    errors.register(app)
    yield app.test_client()
    records.close()


def test_pages_follow_their_cursor(client: FlaskClient) -> None:
    first = client.get("/api/requests?limit=3&sort=-e2e_ms").get_json()
    rest = client.get("/api/requests", query_string={"limit": 3, "sort": "-e2e_ms", "cursor": first["next_cursor"]}).get_json()
    times = [item["e2e_ms"] for item in first["items"] + rest["items"]]
    assert times == sorted(times, reverse=True) and len(times) == 5
    assert rest["next_cursor"] is None and first["total"] == 5 and first["total_exact"]


def test_one_request_is_shown_whole(client: FlaskClient) -> None:
    found = client.get("/api/requests/r1").get_json()
    assert found["id"] == "r1" and found["events"] and found["slices"]["step"] and found["client"] is None
    assert found["waited"] == [] and found["queue"] is None
    assert client.get("/api/requests/r2").get_json()["queue"] == {"position": 1}


def test_the_other_questions_are_answered(client: FlaskClient) -> None:
    assert client.get("/api/requests/summary?group_by=tenant").get_json()["groups"][0]["count"] == 3
    assert client.get("/api/steps").get_json()["boots"]["2"]["runner"] == "null"
    assert client.get("/api/segments?rows=slot&max=100").get_json()["segments"]["phase"]
    assert client.get("/api/segments?rows=request").get_json()["groups"] == [{"label": "request", "lanes": 5}]
    assert [group["label"] for group in client.get("/api/segments?rows=tenant").get_json()["groups"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("path", "param"),
    [
        ("/api/requests?colour=red", "colour"),
        ("/api/requests?limit=0", "limit"),
        ("/api/requests?cursor=zzz", "cursor"),
        ("/api/requests?q=ttft>5", "q"),
        ("/api/requests/facets?colour=red", "colour"),
        ("/api/requests/spread?measure=x", "measure"),
        ("/api/requests/sql?sort=x", "sort"),
        ("/api/requests?run=a&run=b", "run"),
        ("/api/requests/summary?group_by=x", "group_by"),
        ("/api/steps?from_seq=x", "from_seq"),
        ("/api/segments?rows=x", "rows"),
        ("/api/segments?run=zz", "run"),
        ("/api/export/trace.json", "run"),
        ("/api/export/trace.json?run=zz", "run"),
        ("/api/steps?run=zz", "run"),
        ("/api/export/requests.csv?state=x", "state"),
        ("/api/export/requests.xlsx", "format"),
    ],
)
def test_a_wrong_parameter_is_a_400_that_names_it(client: FlaskClient, path: str, param: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 400
    assert answer.get_json()["error"]["param"] == param


def test_an_absent_request_is_a_404(client: FlaskClient) -> None:
    answer = client.get("/api/requests/nobody")
    assert answer.status_code == 404 and answer.get_json()["error"]["code"] == "request_not_found"


def test_exports_are_files_of_all_rows(client: FlaskClient) -> None:
    answer = client.get("/api/export/requests.csv?sort=received")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert "requests.csv" in answer.headers["Content-Disposition"]
    assert len(answer.get_data(as_text=True).splitlines()) == 6
    assert len(client.get("/api/export/requests.jsonl").get_data(as_text=True).splitlines()) == 5


def test_a_search_is_answered_with_what_it_was_understood_as(client: FlaskClient) -> None:
    found = client.get("/api/requests", query_string={"q": "tenant:a ttft>=0s", "min_e2e_ms": "0"}).get_json()
    assert {item["tenant"] for item in found["items"]} == {"a"}
    assert found["asked"]["q"] == "e2e>=0ms ttft>=0ms tenant:a"
    assert found["asked"]["params"] == {"min_e2e_ms": "0", "min_ttft_ms": "0", "tenant": "a"}
    fields = client.get("/api/requests/fields").get_json()
    assert set(found["asked"]["params"]) < set(fields["names"]) and fields["measures"]["wait.kv_blocks"] == "ms"
    assert {facet["field"] for facet in client.get("/api/requests/facets").get_json()["facets"]} >= {"tenant", "state"}
    assert client.get("/api/requests/spread?q=tenant:a").get_json()["percentiles"]["n"] == 3


def test_sql_is_answered_as_json_and_as_csv(client: FlaskClient) -> None:
    text = client.get("/api/requests/sql?q=tenant:b").get_json()["sql"]
    answer = client.post("/api/sql", json={"sql": text}).get_json()
    assert answer["columns"][0] == "id" and len(answer["rows"]) == 2 and answer["truncated"] is None
    sheet = client.post("/api/sql", json={"sql": "SELECT '=1+1' AS \"@x\", -3.5 AS n", "format": "csv"})
    assert sheet.text == "'@x,n\r\n'=1+1,-3.5\r\n" and sheet.content_type.startswith("text/csv")
    assert "requests" in client.get("/api/sql/schema").get_json()["tables"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"sql": "DROP TABLE runs"}, "sql"),
        ({}, "sql"),
        ({"sql": 5}, "sql"),
        ({"sql": "x", "format": "y"}, "format"),
        ({"x": 1}, "x"),
    ],
)
def test_a_wrong_statement_is_a_400_that_names_the_field(client: FlaskClient, body: dict[str, Any], param: str) -> None:
    answer = client.post("/api/sql", json=body)
    assert answer.status_code == 400 and answer.get_json()["error"]["param"] == param


def test_statements_beyond_the_bound_are_asked_to_come_again(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = client.application.extensions["batchscope"].queries
    monkeypatch.setattr(queries, "_consoles", type(queries._consoles)())
    answer = client.post("/api/sql", json={"sql": "SELECT 1"})
    assert answer.status_code == 429 and answer.headers["Retry-After"] == "1"
