"""A run moves forward only, and goes with all that belongs to it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from records import WALL, Records, make_bench, make_row, some_requests

from app.store import client_rows, runs
from app.store.errors import QueryError, StoreError
from app.store.runs import NewRun


def new(records: Records, id: str, at: int = 0, **fields: object) -> dict[str, object]:
    made: dict[str, object] = records.job(partial(runs.create, run=NewRun(id, WALL + at, **fields)))  # type: ignore[arg-type]
    return made


def test_a_new_run_is_pending_and_comes_back_as_json(records: Records) -> None:
    made = new(records, "a", scenario="steady", parameters={"rate": 2}, seed=7)
    assert made == records.queries.run("a")
    assert (made["status"], made["parameters"], made["seed"], made["started"]) == ("pending", {"rate": 2}, 7, None)
    assert str(made["created"]).endswith("Z") and "created_wall" not in made


def test_a_run_says_how_its_load_was_changed_by_hand(records: Records) -> None:
    assert new(records, "a")["rate_changed"] is None
    changes = [{"at_s": 31.42, "factor": 2.0}, {"at_s": 60.0, "factor": 0.5}]
    changed = records.job(partial(runs.change, run_id="a", progress={"sent": 1, "rate_changes": changes}))
    assert changed["rate_changed"] == "rate × 2 at 31.4 s, rate × 0.5 at 60.0 s"
    assert records.queries.runs(3)["items"][0]["rate_changed"] == changed["rate_changed"]


def test_status_moves_forward_only(records: Records) -> None:
    new(records, "a")
    for status in ("running", "draining", "finished"):
        assert records.job(partial(runs.change, run_id="a", status=status))["status"] == status
    for status in ("running", "failed"):
        with pytest.raises(StoreError, match="cannot become") as caught:
            records.job(partial(runs.change, run_id="a", status=status))
        assert caught.value.param == "status"
    assert records.job(partial(runs.change, run_id="a", status="finished", verdict="valid"))["verdict"] == "valid"


def test_a_refused_move_is_no_error_of_the_database(records: Records) -> None:
    with pytest.raises(QueryError, match="no run"):
        records.job(partial(runs.change, run_id="nobody", status="running"))
    assert records.writer.stats().errors == 0


def test_runs_are_listed_newest_first_in_pages_without_their_reports(records: Records) -> None:
    for n in range(5):
        new(records, f"r{n}", at=n // 2)
    records.job(partial(runs.change, run_id="r0", report={"verdict": "valid"}))
    first = records.queries.runs(3)
    rest = records.queries.runs(3, first["next_before"])
    assert [run["id"] for run in first["items"] + rest["items"]] == ["r4", "r3", "r2", "r1", "r0"]
    assert rest["next_before"] is None and rest["total"] == 5
    assert "report" not in rest["items"][-1] and records.queries.run("r0")["report"] == {"verdict": "valid"}


def test_a_run_whose_rows_are_no_longer_those_of_its_report_is_marked(records: Records) -> None:
    for id in ("kept", "cut", "lost"):
        new(records, id, status="finished")
        records.accept(make_row(f"{id}1", run=id), make_row(f"{id}2", run=id))
        line = {"id": f"{id}-1", "status": "ok", "n": 1}
        records.job(partial(client_rows.add, run=id, rows=[client_rows.row(id, line)]))
        counted = {"reconciliation": {"server_rows": 2, "sent": 1}}
        records.job(partial(runs.change, run_id=id, report=counted, verdict="valid"))
    new(records, "unjudged", status="failed")
    assert not any(run["stale"] for run in records.queries.runs()["items"])
    records.sql("DELETE FROM requests WHERE id = 'cut1'")
    records.sql("DELETE FROM client_requests WHERE run = 'lost'")
    assert {run["id"] for run in records.queries.runs()["items"] if run["stale"]} == {"cut", "lost"}


def test_a_list_says_what_bound_each_run(records: Records) -> None:
    for id, verdict in (("limited", "host_limited"), ("broken", "invalid")):
        new(records, id, status="finished")
        waits = {"slots": {"ms": 5.0, "share": 1.0, "requests": 2}}
        records.job(partial(runs.change, run_id=id, verdict=verdict, report={"waits": waits, "reconciliation": {}}))
    new(records, "unjudged", status="failed")
    bound = {run["id"]: run["bound"] for run in records.queries.runs()["items"]}
    assert bound == {"limited": "slots", "broken": None, "unjudged": None}, "of an invalid run nothing holds"


def test_the_active_run_is_the_one_that_has_not_ended(records: Records) -> None:
    new(records, "a", status="finished")
    assert records.queries.ask(runs.active) is None
    new(records, "b", status="running")
    active = records.queries.ask(runs.active)
    assert active is not None and active["id"] == "b"


def test_deleting_a_run_takes_its_rows_and_no_others(records: Records) -> None:
    new(records, "a", status="finished")
    records.play(make_bench(2), some_requests(3), run="a")
    other = some_requests(2)
    for request in other:
        request.id = f"other-{request.id}"
    records.play(make_bench(3), other, run="b")
    records.sql("INSERT INTO client_requests (run, client_request_id, status) VALUES ('a', 'x', 'ok'), ('b', 'x', 'ok')")
    assert records.job(partial(runs.remove, run_id="a")) == 3
    assert records.sql("SELECT DISTINCT run FROM requests") == [("b",)]
    assert records.sql("SELECT run FROM client_requests") == [("b",)]
    assert records.sql("SELECT count(*) FROM request_events WHERE request_id LIKE 'r%'") == [(0,)]
    with pytest.raises(QueryError):
        records.queries.run("a")


def test_a_large_run_is_deleted_in_many_transactions(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_TURN_S", 0.0)
    new(records, "a", status="finished")
    records.play(make_bench(2), some_requests(60), run="a")
    lines = ", ".join(f"('a', 'c{n}', 'ok')" for n in range(60))
    records.sql(f"INSERT INTO client_requests (run, client_request_id, status) VALUES {lines}")
    turns: list[int] = []

    def counted(connection: Any) -> Any:
        rest = runs.remove(connection, "a")
        while True:
            try:
                yield next(rest)
            except StopIteration as end:
                return end.value
            turns.append(1)

    assert records.job(counted) == 60
    assert len(turns) >= 6, "three turns of requests and three of the client's rows at least"
    assert records.sql("SELECT count(*) FROM requests") == records.sql("SELECT count(*) FROM client_requests") == [(0,)]


def test_an_active_run_is_not_deleted(records: Records) -> None:
    new(records, "a", status="running")
    with pytest.raises(StoreError, match="active"):
        records.job(partial(runs.remove, run_id="a"))
    assert records.queries.run("a")["status"] == "running"
