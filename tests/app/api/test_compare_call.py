"""GET /api/compare: what it shows of two runs and of the sides of one, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from records import Records
from simulated_records import RUN, Recorded

from app.api import errors
from app.api.reports import reports
from app.store.adopt import adopt
from app.store.queries import Queries
from app.summaries import Summaries, SummaryFailed

OTHER = "run_" + "1" * 26


class Long:
    """Of a long run: how far its figures are, or that they could not be made."""

    far = {
        "computing": {"run": OTHER, "what": "requests", "rows": 20_000, "of": 90_000, "elapsed_s": 1.5, "ready": 1, "runs": 2}
    }

    def missing(self, run_ids: list[str]) -> dict[str, Any]:
        assert run_ids == [RUN, OTHER]
        return self.far

    def wait(self, run_id: str) -> dict[str, Any]:
        raise SummaryFailed(f"the figures of run {run_id} could not be made: it was stopped", "run")


class Reader:
    """What the web process offers; here a thread is not needed."""

    def __init__(self, queries: Queries) -> None:
        self.queries = queries
        self.summaries: Any = Summaries("", queries, self.run_native, lambda work: None)

    def run_native(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    path: Path = tmp_path_factory.mktemp("compare")
    records = Records(path / "records.sqlite3")
    for run, changes in ((RUN, {}), (OTHER, {"policy": "sjf"})):
        recorded = Recorded(path / run, id=run, **changes)
        recorded.close()
        records.job(partial(adopt, path=recorded.path, run_id=run))
    app = Flask(__name__)
    app.extensions["batchscope"] = Reader(records.queries)
    app.register_blueprint(reports)
    errors.register(app)
    yield app.test_client()
    records.close()


def test_two_runs_have_their_lines_only_where_they_are_asked_for(client: FlaskClient) -> None:
    bare = client.get(f"/api/compare?runs={RUN},{OTHER}").get_json()
    drawn = client.get(f"/api/compare?runs={RUN},{OTHER}&lines=1").get_json()
    assert bare["split"] is None and "series" not in bare["runs"][0]
    for side in drawn["runs"]:
        assert side["cdfs"]["ttft_ms"]["n"] == 50 and len(side["series"]["t_s"]) == len(side["series"]["waiting"]) > 3
    assert [row["name"] for row in bare["differing"]] == ["policy"] and {"name": "seed", "of": "run", "value": None} in bare[
        "equal"
    ]
    assert [{**side, "cdfs": 0, "series": 0} for side in bare["runs"]] == [
        {**side, "cdfs": 0, "series": 0} for side in drawn["runs"]
    ]


def test_one_run_is_split_at_an_instant(client: FlaskClient) -> None:
    found = client.get(f"/api/compare?runs={RUN}&split=0.6s").get_json()
    assert [side["side"] for side in found["runs"]] == ["before", "after"] and found["split"]["at_s"] == 0.6
    assert sum(side["reconciliation"]["sent"] for side in found["runs"]) == 50


@pytest.mark.parametrize(
    ("query", "status", "param"),
    [
        (f"runs={RUN}", 400, "runs"),
        (f"runs={','.join(f'run{n}' for n in range(6))}", 400, "runs"),
        (f"runs={RUN},{RUN}", 400, "runs"),
        (f"runs={RUN},nobody", 404, None),
        (f"runs={RUN},{OTHER}&split=1s", 400, "runs"),
        (f"runs={RUN}&split=soon", 400, "split"),
        (f"runs={RUN},{OTHER}&lines=yes", 400, "lines"),
        (f"runs={RUN},{OTHER}&wait=2", 400, "wait"),
        (f"runs={RUN},nobody&wait=0", 404, None),
        (f"runs={RUN}&wait=0", 400, "runs"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(client: FlaskClient, query: str, status: int, param: str | None) -> None:
    answer = client.get(f"/api/compare?{query}")
    assert (answer.status_code, answer.get_json()["error"]["param"]) == (status, param)


def test_who_will_not_wait_hears_how_far_the_figures_of_a_long_run_are(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = client.get(f"/api/compare?runs={RUN},{OTHER}&wait=0")
    assert (at_once.status_code, at_once.get_json()) == (200, client.get(f"/api/compare?runs={RUN},{OTHER}").get_json())
    monkeypatch.setattr(client.application.extensions["batchscope"], "summaries", Long())
    answer = client.get(f"/api/compare?runs={RUN},{OTHER}&lines=1&wait=0")
    assert (answer.status_code, answer.headers["Retry-After"], answer.get_json()) == (202, "1", Long.far)
    assert client.get(f"/api/compare?runs={RUN}&split=0.6s&wait=0").status_code == 200, "the sides of one run are not kept"


def test_figures_that_could_not_be_made_are_our_fault_not_the_callers(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client.application.extensions["batchscope"], "summaries", Long())
    answer = client.get(f"/api/compare?runs={RUN},{OTHER}")
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (503, "summary_failed")
