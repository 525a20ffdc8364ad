"""What is kept of a run is what its rows give, is shown only while it is, and opens without reading them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from played_run import add_lines, line, play_run
from records import Records

from app.store import run_summary, runs
from app.store.comparison import compare
from app.store.errors import QueryError
from app.store.models import requests, run_summaries
from app.store.report_figures import Slo
from app.store.run_summary import Kept


def kept_run(records: Records, run: str = "one", **fields: Any) -> dict[str, Any]:
    """A run that is over, and whose figures are kept."""
    play_run(records, run, **fields)
    kept = records.queries.ask(run_summary.compute, run)
    records.job(partial(run_summary.keep, run_id=run, kept=kept))
    report: dict[str, Any] = kept.report
    return report


def shown(report: dict[str, Any]) -> dict[str, Any]:
    """What a report says, but for when it was made."""
    return {name: value for name, value in report.items() if name not in ("summary", "run", "engine", "verdict_reason")}


def test_a_kept_report_says_what_the_rows_say_and_reads_none_of_them(records: Records) -> None:
    made = kept_run(records)
    records.queries.ask(run_summary.report, "one", Slo(1, 1))
    found = records.queries.report("one")
    assert found["summary"]["stored"] and found["summary"]["why"] is None
    assert shown(found) == shown(made) and found["run"]["verdict"] == found["verdict"] == "valid"
    records.job(lambda connection: connection.execute(requests.update().values(ttft_ms=9e9)))
    assert records.queries.report("one")["percentiles"] == made["percentiles"], "the rows were read again"


def test_what_is_kept_is_made_anew_when_rows_come_late_or_go(records: Records) -> None:
    kept_run(records)
    add_lines(records, "one", [line("late", 99)])
    found = records.queries.report("one")
    assert found["summary"]["why"] == "rows have come or gone since it was made" and found["reconciliation"]["sent"] == 9
    kept_run(records, "two", boot=3, prefix="x")
    records.job(lambda connection: connection.execute(requests.delete().where(requests.c.run == "two", requests.c.id == "xr1")))
    gone = records.queries.report("two")
    assert not gone["summary"]["stored"] and gone["reconciliation"]["difference"] == -1


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": 0}, f"it was kept by version 0 of the figures, this is version {run_summary.VERSION}"),
        ({"open_rows": 1}, "requests of the run were still open when it was made"),
    ],
)
def test_an_old_or_unfinished_summary_is_not_shown(records: Records, changes: dict[str, Any], why: str) -> None:
    kept_run(records)
    records.job(lambda connection: connection.execute(run_summaries.update().values(**changes)))
    assert records.queries.report("one")["summary"]["why"] == why


def test_other_bounds_are_computed_anew_and_said(records: Records) -> None:
    kept_run(records)
    found = records.queries.report("one", Slo(ttft_ms=1.0, tpot_ms=100.0))
    assert found["summary"]["why"] == "other bounds are asked for than the run's" and found["goodput"]["good"] == 0
    assert records.queries.report("one", Slo())["summary"]["stored"], "the run's own bounds, though they were named"


def test_a_kept_side_compares_as_one_that_is_made_anew(records: Records) -> None:
    kept_run(records)
    kept_run(records, "two", boot=3, prefix="x")
    ids = ["one", "two"]
    kept = records.queries.ask(compare, ids, lines=True)
    records.job(lambda connection: [run_summary.forget(connection, run) for run in ids])
    anew = records.queries.ask(compare, ids, lines=True)
    for part in ("metrics", "waits", "tenants", "differing", "warnings"):
        assert kept[part] == anew[part], part
    assert [row["cdfs"] for row in kept["runs"]] == [row["cdfs"] for row in anew["runs"]]


def test_a_summary_crosses_to_another_process_whole(records: Records) -> None:
    play_run(records)
    kept = records.queries.ask(run_summary.compute, "one")
    again = Kept.of_bytes(kept.as_bytes)
    assert (again.columns, again.lines, again.draws) == (kept.columns, kept.lines, kept.draws)
    assert again.sorted_by == kept.sorted_by != []
    assert again.report["percentiles"] == kept.report["percentiles"]


def test_an_active_run_is_never_shown_from_what_was_kept(records: Records) -> None:
    kept_run(records)
    records.job(lambda connection: connection.execute(runs.runs.update().values(status="running")))
    assert records.queries.report("one")["summary"]["why"] == "the run is running"


def test_a_run_that_is_gone_keeps_nothing(records: Records) -> None:
    kept_run(records)
    kept = records.queries.ask(run_summary.compute, "one")
    records.job(partial(runs.remove, run_id="one"))
    assert records.queries.ask(lambda connection: connection.execute(run_summaries.select()).all()) == []
    with pytest.raises(QueryError, match="no run"):
        records.job(partial(run_summary.keep, run_id="one", kept=kept))
    with pytest.raises(QueryError, match="no run"):
        records.queries.report("one")


def test_the_records_count_what_a_foreign_generator_did_not_tell(records: Records) -> None:
    kept_run(records)
    assert records.queries.run("one")["progress"] | {"ok": 8} == {
        "sent": 8, "ok": 8, "failed": 0, "refused": 0, "cancelled": 0, "incomplete": 0,
    }  # fmt: skip
