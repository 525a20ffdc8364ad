"""Simulations taken over: whole, once, and never among what was measured."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from records import Records
from simulated_records import ASKS, RUN, Recorded
from sqlalchemy import Connection, func, select

from app.store import adopt as adopting
from app.store import runs
from app.store.adopt import adopt, forget, simulation_file, simulation_path
from app.store.errors import QueryError, StoreError
from app.store.models import boots, client_requests, request_events, requests, steps

OTHER = "run_" + "1" * 26


def counts(connection: Connection) -> dict[str, int]:
    tables = (requests, client_requests, request_events, steps)
    return {table.name: connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables}


def take_over(records: Records, path: Path, run: str = RUN) -> dict[str, object]:
    row: dict[str, object] = records.job(partial(adopt, path=path, run_id=run))
    return row


def test_a_run_taken_over_reports_as_it_did(records: Records, tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "a.db")
    before = recorded.close()
    assert take_over(records, recorded.path)["simulated"] is True
    after = records.queries.report(RUN)
    for name in ("reconciliation", "percentiles", "waits", "steps", "throughput", "goodput", "timeline", "verdict"):
        assert after[name] == before[name], name
    assert records.queries.request(f"{RUN}-3") is not None


def test_each_has_a_life_of_its_own_below_all_that_were_lived(records: Records, tmp_path: Path) -> None:
    for name, run in (("a", RUN), ("b", OTHER)):
        Recorded(tmp_path / name, id=run).close()
        take_over(records, tmp_path / name, run)
    lives = [records.queries.run(run)["versions"]["simulation"]["boot"] for run in (RUN, OTHER)]
    assert lives == [-1, -2]
    one, other = (records.queries.report(run)["steps"]["n"] for run in (RUN, OTHER))
    assert one == other > 0
    records.writer.close()
    records.start()
    assert records.writer.web_boot > 0


def test_the_first_life_ever_comes_after_a_simulation(url: str, tmp_path: Path) -> None:
    first = Records(url=url)
    first.writer.close()
    Recorded(tmp_path / "a.db").close()
    adopting.adopt_here(first.url, tmp_path / "a.db", RUN)
    with first.queries._engine.connect() as connection:
        assert connection.execute(select(func.min(boots.c.boot))).scalar() == -1
    first.start()
    assert first.writer.web_boot > 0
    first.close()


def test_lists_of_requests_have_it_only_where_its_run_is_named(records: Records, tmp_path: Path) -> None:
    Recorded(tmp_path / "a.db").close()
    take_over(records, tmp_path / "a.db")
    assert records.queries.requests({})["total"] == 0
    assert records.queries.summary({"group_by": "tenant"})["total"]["count"] == 0
    assert records.queries.requests({"run": RUN})["total"] == len(ASKS)
    assert records.queries.steps({})["steps"]["seq"] == []


def test_one_cut_short_is_taken_over_the_second_time(records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Recorded(tmp_path / "a.db").close()
    whole = Records(tmp_path / "whole.db")
    take_over(whole, tmp_path / "a.db")
    monkeypatch.setattr(adopting, "_TURN_S", -1.0)

    def some(connection: Connection) -> None:
        rest = adopt(connection, tmp_path / "a.db", RUN)
        for _ in range(6):
            next(rest)
        rest.close()

    records.job(some)
    begun = records.queries.ask(counts)
    assert begun["requests"] > 0 and begun["steps"] < whole.queries.ask(counts)["steps"]
    with pytest.raises(QueryError):
        records.queries.run(RUN)
    take_over(records, tmp_path / "a.db")
    assert records.queries.ask(counts) == whole.queries.ask(counts)
    whole.close()


def test_it_is_taken_over_once(records: Records, tmp_path: Path) -> None:
    Recorded(tmp_path / "a.db").close()
    take_over(records, tmp_path / "a.db")
    with pytest.raises(StoreError, match="here already"):
        take_over(records, tmp_path / "a.db")
    with pytest.raises(QueryError, match="holds no run"):
        take_over(records, tmp_path / "a.db", OTHER)


def test_a_run_that_goes_takes_its_steps_requests_and_events(records: Records, tmp_path: Path) -> None:
    Recorded(tmp_path / "a.db").close()
    take_over(records, tmp_path / "a.db")
    records.job(partial(runs.remove, run_id=RUN))
    found = records.queries.ask(counts)
    assert set(found.values()) == {0}
    with records.queries._engine.connect() as connection:
        assert connection.execute(select(boots.c.boot).where(boots.c.boot < 0)).all() == []


@pytest.mark.parametrize("name", ["../batchscope", "run_x", "/etc/passwd", RUN + "/..", ""])
def test_a_name_that_is_not_ours_opens_no_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "simulations").mkdir()
    (tmp_path / "batchscope.db").write_text("")
    assert simulation_file(tmp_path, name) is None


def test_a_file_is_found_and_forgotten(tmp_path: Path) -> None:
    path = simulation_path(tmp_path, RUN)
    path.parent.mkdir()
    assert simulation_file(tmp_path, RUN) is None
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).touch()
    assert simulation_file(tmp_path, RUN) == path
    forget(path)
    assert not list(path.parent.iterdir())
