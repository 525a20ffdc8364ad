"""Before and after: every row on one side, what lived through the change named, settings as they were on each."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from records import WALL, Records, make_bench, make_row, only_sqlite, some_requests
from simulated_records import RUN, Recorded

from app.store import client_rows, comparison_split, runs
from app.store.adopt import adopt
from app.store.comparison import compare
from app.store.errors import QueryError
from app.store.report_rows import gather
from app.store.runs import NewRun
from scheduler.core.events import SettingsChanged
from scheduler.metrics import percentile


@pytest.fixture
def run(records: Records, tmp_path: Path) -> str:
    """A simulated run of 50 requests within 1.25 s."""
    recorded = Recorded(tmp_path / "a.db")
    recorded.close()
    records.job(partial(adopt, path=recorded.path, run_id=RUN))
    return RUN


def split_at(records: Records, run_id: str, split: str, **more: Any) -> dict[str, Any]:
    return records.queries.ask(compare, [run_id], split=split, **more)


@pytest.mark.parametrize("at_s", [0.1, 0.6, 1.2])
def test_every_row_is_on_exactly_one_side(records: Records, run: str, at_s: float) -> None:
    found = records.queries.ask(gather, run)
    change, halves = records.queries.ask(comparison_split.split, found, f"{at_s}s")
    before, after = [half.found for half in halves]
    assert (change.at_s, [half.side for half in halves]) == (at_s, ["before", "after"])
    assert before.server + after.server == found.server and before.server and after.server
    assert {row["received_wall"] < change.wall for row in before.server} == {True}
    ids = [{row["client_request_id"] for row in half.client} for half in (before, after)]
    assert ids == [{row["client_request_id"] for row in half.server} for half in (before, after)]
    assert before.steps + after.steps == found.steps and sorted(before.gaps + after.gaps) == sorted(found.gaps)
    assert len(before.relapses) + len(after.relapses) == len(found.relapses)


def test_a_side_says_what_its_own_rows_say_and_who_lived_through_it(records: Records, run: str) -> None:
    found = split_at(records, run, "0.6s")
    zero = records.sql("SELECT min(received_wall) FROM requests WHERE run = ?", run)[0][0]
    asked = "SELECT queue_ms, received_wall + finished_at - received_at FROM requests WHERE run = ? AND received_wall {} ?"
    sides = [records.sql(asked.format(sign), run, zero + 600_000_000) for sign in ("<", ">=")]
    row = next(each for each in found["metrics"] if each["name"] == "percentiles.server.queue_ms.p95")
    assert row["n"] == [len(side) for side in sides] and sum(row["n"]) == 50
    assert row["values"] == pytest.approx([percentile(sorted(queue for queue, _ in side), 95) for side in sides])
    assert found["split"]["across"] == sum(ended > zero + 600_000_000 for _, ended in sides[0]) > 0
    assert [each["reconciliation"]["sent"] for each in found["runs"]] == row["n"]
    first, second = found["runs"]
    assert first["until"] == second["since"] and (first["since"], second["until"]) == (None, None)
    assert found["differing"] == [] and [each["verdict"] for each in found["runs"]] == [first["run"]["verdict"]] * 2


def test_lines_of_both_sides_share_one_beginning(records: Records, run: str) -> None:
    before, after = split_at(records, run, "0.6s", lines=True)["runs"]
    assert before["series"]["t_s"][0] == 0.0 and max(before["series"]["t_s"]) < 0.6 <= after["series"]["t_s"][0] + 0.25
    assert before["cdfs"]["ttft_ms"]["n"] + after["cdfs"]["ttft_ms"]["n"] == 50


def changed_run(records: Records) -> None:
    """Eight requests; `max_num_seqs` becomes 8 when half of them are over, and 2 again when all are."""
    records.job(partial(runs.create, run=NewRun("one", WALL - 1, started_wall=WALL - 1, scenario="steady", seed=1)))
    bench = make_bench(2, max_num_seqs=2, max_num_batched_tokens=16)
    records.play(bench, some_requests(4), run="one")
    records.write([bench.scheduler.record(SettingsChanged, bench.clock.now, version=7, changes=(("max_num_seqs", 8),))])
    bench.clock.now += 1000
    later = some_requests(8)[4:]
    records.accept(*[make_row(each.id, bench.clock.now, run="one", client_request_id=f"c-{each.id}") for each in later])
    bench.add(*later)
    records.write(bench.run_to_idle())
    records.write([bench.scheduler.record(SettingsChanged, bench.clock.now, version=8, changes=(("max_num_seqs", 2),))])
    lines = [{"id": f"c-r{n}", "status": "ok", "sent_ms": 0.0, "end_ms": 1.0} for n in range(8)]
    lines.append({"id": "c-lost", "status": "timeout", "sent_ms": 1e6, "end_ms": 1e6 + 1})  # the server has no row of it
    records.job(partial(client_rows.add, run="one", rows=[client_rows.row("one", line) for line in lines]))
    records.job(partial(runs.change, run_id="one", status="finished", ended_wall=WALL + 10**12, verdict="generator_limited"))


def test_settings_are_those_of_each_side_and_what_came_after_the_last_arrival_is_no_change(records: Records) -> None:
    changed_run(records)
    found = records.queries.ask(gather, "one")
    changes = records.queries.ask(comparison_split.changes_in, found)
    assert [(change.version, change.changes) for change in changes] == [(7, {"max_num_seqs": 8})]
    answer = split_at(records, "one", "7")
    assert [each["reconciliation"]["sent"] for each in answer["runs"]] == [4, 5]
    assert [each["verdict"] for each in answer["runs"]] == ["generator_limited"] * 2, "a run is judged whole"
    assert {"name": "max_num_seqs", "of": "settings", "values": [4, 8]} in answer["differing"]
    assert answer["split"]["changes"] == {"max_num_seqs": 8} and answer["split"]["across"] == 0


def test_a_run_that_changed_says_so_beside_another(records: Records, run: str) -> None:
    changed_run(records)
    warnings = records.queries.compare(["one", run])["warnings"]
    assert any("run one changed its settings in mid-run" in each for each in warnings)


@only_sqlite
@pytest.mark.parametrize(
    ("ids", "split", "param"),
    [
        ([RUN], "8", "split"),
        ([RUN], "yesterday", "split"),
        ([RUN], "-1s", "split"),
        ([RUN], "0s", "split"),
        ([RUN], "900s", "split"),
        ([RUN, "other"], "1s", "runs"),
        ([], "1s", "runs"),
        (["none"], "1s", "run"),
    ],
)
def test_what_cannot_be_split_is_refused_by_name(records: Records, run: str, ids: list[str], split: str, param: str) -> None:
    with pytest.raises(QueryError) as refused:
        records.queries.ask(compare, ids, split=split)
    assert refused.value.param == param
