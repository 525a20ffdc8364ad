"""What is old goes, whole and oldest first; what is open, under way or kept by a run stays. A dry run says so beforehand."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

import pytest
from records import MS, WALL, Records, make_bench, make_row, only_sqlite, some_requests
from sqlalchemy import Connection

from app.store import database_size, purged, retention, runs
from app.store.database_size import vacuum
from app.store.errors import StoreError
from app.store.instants import iso
from app.store.retention import Rule, prune
from app.store.retention_plan import kept, plan
from app.store.runs import NewRun

SECOND = 1000 * MS
DAY = 86_400 * SECOND
NOW = WALL + 40 * DAY
TABLES = ("runs", "requests", "request_events", "client_requests", "steps")
_lives = iter(range(10, 10_000))


def lived(records: Records, day: int, run: str | None = None, n: int = 4) -> list[str]:
    """n requests that arrived `day` days after WALL, of a run or of none; their ids."""
    bench = make_bench(next(_lives))
    bench.clock.now = day * DAY
    if run is not None:
        at = WALL + bench.clock.now
        records.job(partial(runs.create, run=NewRun(run, at, started_wall=at, status="running")))
    asked = some_requests(n)
    for request in asked:
        request.id = f"{request.id}-{bench.scheduler.boot}"
    records.play(bench, asked, run=run)
    if run is not None:
        ended = {"status": "finished", "ended_wall": WALL + bench.clock.now}
        records.job(partial(runs.change, run_id=run, **ended))
    return [request.id for request in asked]


def pruned(records: Records, rule: Rule, now: int = NOW, **more: Any) -> dict[str, Any]:
    result: dict[str, Any] = records.job(lambda connection: prune(connection, rule, now, **more))
    return result


def planned(records: Records, rule: Rule, now: int = NOW) -> dict[str, Any]:
    return records.queries.ask(plan, rule, now)


def counts(records: Records) -> dict[str, int]:
    return {name: records.sql(f"SELECT count(*) FROM {name}")[0][0] for name in TABLES}


def ids(records: Records) -> set[str]:
    return {row[0] for row in records.sql("SELECT id FROM requests")}


def days(n: float) -> Rule:
    return Rule(older_than_s=n * 86_400)


def test_what_is_older_goes_whole_and_nothing_else(records: Records) -> None:
    old, new = lived(records, 1), lived(records, 39)
    told, before = planned(records, days(30)), counts(records)
    result = pruned(records, days(30))
    assert result["done"] and result["removed"]["requests"] == len(old) and result["removed"]["steps"] > 0
    assert ids(records) == set(new)
    left = counts(records)
    assert {name: before[name] - left[name] for name in TABLES if before[name] > left[name]} == told["removed"]
    assert records.sql("SELECT count(*) FROM request_events WHERE request_id NOT IN (SELECT id FROM requests)") == [(0,)]
    assert records.queries.request(new[0])["slices"]["seq"], "its steps stay"  # type: ignore[index]


def test_what_is_kept_is_told_with_its_oldest_request_of_a_real_clock(records: Records) -> None:
    assert records.queries.ask(kept)["oldest"] is None
    lived(records, 3)
    records.sql("UPDATE requests SET received_wall = 5 WHERE id = (SELECT min(id) FROM requests)")  # of a simulated clock
    told, rest = records.queries.ask(kept), records.sql("SELECT min(received_wall) FROM requests WHERE received_wall > 5")
    assert told["bytes"] == records.queries.ask(database_size.used)
    assert told["oldest"] == iso(rest[0][0])


def test_a_run_goes_whole_or_not_at_all(records: Records) -> None:
    lived(records, 1, "old")
    kept = lived(records, 9, "young")
    told = planned(records, days(35))
    assert pruned(records, days(35))["removed"] == {name: told["removed"][name] for name in ("runs", "requests", "steps")}
    assert ids(records) == set(kept) and [run["id"] for run in records.queries.runs()["items"]] == ["young"]
    assert records.queries.report("young")["steps"]["n"] == counts(records)["steps"] > 0


def test_the_steps_of_a_long_run_go_with_it_from_its_very_start(records: Records) -> None:
    lived(records, 1, "long")
    lived(records, 5)
    records.sql(f"UPDATE runs SET ended_wall = {WALL + 9 * DAY}")
    assert planned(records, days(30))["removed"]["steps"] == counts(records)["steps"]
    pruned(records, days(30))
    assert counts(records) == dict.fromkeys(TABLES, 0)


def test_runs_and_their_steps_are_kept_where_that_is_asked(records: Records) -> None:
    mine = lived(records, 1, "old")
    lived(records, 2)
    before = records.queries.report("old")["steps"]
    rule = Rule(older_than_s=86_400, keep_runs=True)
    told = planned(records, rule)
    assert pruned(records, rule)["removed"]["requests"] == told["removed"]["requests"] == 4
    assert ids(records) == set(mine) and records.queries.report("old")["steps"] == before


def test_what_is_open_or_under_way_holds_all_that_came_later(records: Records) -> None:
    gone = lived(records, 1)
    records.accept(make_row("open", 2 * DAY))
    later = lived(records, 3)
    told = planned(records, days(5))
    assert pruned(records, days(5))["removed"]["requests"] == told["removed"]["requests"] == len(gone)
    assert ids(records) == {"open", *later}
    records.writer.end("open", "abort", "operator", 4 * DAY)
    records.flush()
    at = WALL + 2 * DAY + SECOND
    records.job(partial(runs.create, run=NewRun("going", at, started_wall=at, status="running")))
    assert pruned(records, days(5))["removed"]["requests"] == 1 and ids(records) == set(later)


@only_sqlite
def test_by_size_the_oldest_go_until_the_rest_fits(records: Records) -> None:
    lived(records, 1, "first", n=40)
    for day in range(2, 12):
        lived(records, day, n=30)
    full = records.queries.ask(database_size.used)
    assert full is not None
    rule = Rule(larger_than=full * 2 // 3)
    told = planned(records, rule)
    result = pruned(records, rule)
    assert result["bytes"] <= rule.larger_than and result["bytes"] > full // 3
    left = sorted(row[0] for row in records.sql("SELECT received_wall FROM requests"))
    assert left and left[0] > WALL + 2 * DAY and left[-1] == WALL + 11 * DAY and "runs" in result["removed"]
    assert told["removed"]["requests"] == pytest.approx(result["removed"]["requests"], rel=0.4)
    assert pruned(records, rule)["removed"] == {}


def test_it_goes_in_short_turns_and_on_from_where_it_was(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(1, 5):
        lived(records, day, n=25)
    monkeypatch.setattr(retention, "_TURN_S", -1.0)
    turns = []

    def watched(connection: Connection) -> Generator[None, None, dict[str, Any]]:
        work = prune(connection, days(10), NOW, seconds=-1.0)
        before = count = connection.exec_driver_sql("SELECT count(*) FROM requests").scalar_one()
        while True:
            try:
                next(work)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            count = connection.exec_driver_sql("SELECT count(*) FROM requests").scalar_one()
            turns.append(before - count)
            before = count
            yield

    first = records.job(watched)
    assert not first["done"] and max(turns) <= 20 and sum(turns) == 25
    since, rounds = first["reached"], 0
    while not (result := pruned(records, days(10), since=since, seconds=-1.0))["done"]:
        since, rounds = result["reached"], rounds + 1
    assert rounds >= 2 and ids(records) == set()


def test_a_dry_run_changes_nothing_and_knows_what_stays(records: Records) -> None:
    lived(records, 1)
    lived(records, 39)
    before = counts(records)
    told = planned(records, days(30))
    assert counts(records) == before and told["oldest_kept"].startswith("2026-10-30")
    if told["bytes"] is not None:
        assert 0 < told["removed_bytes"] < told["bytes"]
    assert planned(records, Rule(older_than_s=1e9))["removed"] == {}


def test_an_imported_or_simulated_life_goes_with_its_run(records: Records) -> None:
    lived(records, 1, "theirs")
    records.sql("UPDATE steps SET boot = -3")
    records.sql("UPDATE requests SET boot = -3")
    records.sql("""UPDATE runs SET versions = '{"imported": {"boots": [-3]}}'""")
    told = planned(records, days(50))
    assert told["removed"] == {} and pruned(records, days(50))["removed"] == {}
    assert planned(records, days(30))["removed"]["steps"] == counts(records)["steps"]
    pruned(records, days(30))
    assert counts(records) == dict.fromkeys(TABLES, 0)


# ---- the ledger


def id_of(wall: int, kind: str = "req") -> str:
    number = wall // MS << 80 | 12345
    return f"{kind}_" + "".join("0123456789abcdefghjkmnpqrstvwxyz"[number >> shift & 31] for shift in range(125, -1, -5))


def test_what_was_purged_can_be_told_from_what_never_was(records: Records) -> None:
    lived(records, 1)
    ask = partial(records.queries.ask, purged.words)
    assert ask(id_of(WALL + DAY)) is None
    pruned(records, Rule(older_than_s=30 * 86_400, cause="retention"))
    said = ask(id_of(WALL + DAY))
    assert said is not None and said.startswith("purged by retention on 20")
    assert ask(id_of(WALL + DAY, "run")) == said and ask(f"{id_of(WALL, 'run')}-17") == said
    assert ask(id_of(NOW)) is None and ask("anything") is None and ask("req_short") is None


def test_the_ledger_has_a_row_a_day_and_cause(records: Records) -> None:
    for day in (1, 5, 7):
        lived(records, day)
        pruned(records, Rule(older_than_s=30 * 86_400, cause="retention"))
    rows = records.sql("SELECT cause, requests FROM purges")
    assert rows == [("retention", 12)]


# ---- the file


@only_sqlite
def test_free_pages_go_back_once_the_file_was_made_for_it(records: Records) -> None:
    for day in range(1, 6):
        lived(records, day, n=40)
    records.writer.close()
    before, after = vacuum(records.url)
    assert 0 < after <= before
    records.start()
    full = records.path.stat().st_size
    pruned(records, days(1))
    pages = [records.sql(f"PRAGMA {name}")[0][0] for name in ("freelist_count", "page_count", "page_size")]
    assert pages[0] == 0 and pages[1] * pages[2] < full * 2 // 3


def test_a_database_server_is_pruned_by_age_only(records: Records) -> None:
    if records.path.name:
        assert records.queries.ask(database_size.used)
        return
    with pytest.raises(StoreError, match="by age"):
        pruned(records, Rule(larger_than=1))
