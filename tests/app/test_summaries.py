"""A report is there from the run's end on: of a short run at once, of a long one from a child that can be stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import wait_until
from played_run import add_lines, line, play_run
from records import Records

from app import summaries
from app.store.errors import QueryError
from app.store.report_figures import Slo
from app.store.run_columns import IDS, KEYS
from app.summaries import Summaries, SummaryFailed, Work

OTHER = Slo(ttft_ms=1.0, tpot_ms=100.0)


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    made = Records(tmp_path / "records.sqlite3")
    play_run(made)
    yield made
    made.close()


def of(records: Records, short: int = 1000, url: str | None = None) -> Summaries:
    def here(call: Callable[..., Any], *args: Any) -> Any:
        return call(*args)

    return Summaries(url or records.url, records.queries, here, records.job, short=short)


def test_a_short_run_has_its_report_at_once_and_it_is_kept(records: Records) -> None:
    made = of(records)
    first = made.begin("one")
    assert first is not None and first["summary"]["why"] == "nothing was kept of this run"
    again = made.report("one")
    assert again["summary"]["stored"] and again["percentiles"] == first["percentiles"]


@pytest.mark.parametrize("short", [1000, 0])
def test_the_columns_of_a_run_are_kept_with_its_figures_by_a_thread_and_by_a_child(records: Records, short: int) -> None:
    made = of(records, short)
    made.wait("one")
    assert set(records.sql("SELECT name, size FROM run_columns")) == {(name, 8) for name in (IDS, *KEYS)}
    made.close()


def test_what_came_late_is_kept_anew_by_who_asks_next(records: Records) -> None:
    made = of(records)
    made.begin("one")
    add_lines(records, "one", [line("late", 99)])
    assert made.report("one")["reconciliation"]["sent"] == 9
    assert made.report("one")["summary"]["stored"]


def test_other_bounds_are_never_kept(records: Records) -> None:
    made = of(records)
    made.begin("one")
    assert made.report("one", OTHER)["goodput"]["good"] == 0
    assert made.report("one")["goodput"]["good"] == 8 and made.report("one")["summary"]["stored"]


def test_a_long_run_is_made_by_a_child_meanwhile_one_hears_how_far_it_is(records: Records) -> None:
    made = of(records, short=0)
    assert made.begin("one") is None
    told = made.report("one")
    assert told["computing"]["of"] == 16 and told["computing"]["run"] == "one"
    other = made.report("one", OTHER)
    assert set(other) == {"computing"}, "one child at a time"
    found = made.wait("one")
    assert found["summary"]["stored"] and found["percentiles"]["server"]["ttft_ms"]["n"] == 8
    assert made.wait("one", OTHER)["goodput"]["good"] == 0
    assert made.report("one")["goodput"]["good"] == 8
    made.close()


def test_of_several_runs_one_hears_of_the_one_that_is_being_made_until_all_are_there(records: Records) -> None:
    play_run(records, "two", boot=3, prefix="two-")
    of(records).begin("one")
    made = of(records, short=0)
    told = made.missing(["one", "two"])
    assert told is not None
    assert {name: told["computing"][name] for name in ("run", "of", "ready", "runs")} == {
        "run": "two",
        "of": 16,
        "ready": 1,
        "runs": 2,
    }
    made.wait("two")
    assert made.missing(["one", "two"]) is None and made.report("two")["summary"]["stored"], "no one else need wait for it"
    with pytest.raises(QueryError):
        made.missing(["one", "nobody"])
    made.close()


def test_the_run_that_is_told_of_is_the_one_whose_child_runs(records: Records, monkeypatch: Any) -> None:
    play_run(records, "two", boot=3, prefix="two-")
    monkeypatch.setattr(summaries, "command", lambda _work, _out: ["sleep", "60"])
    made = of(records, short=0)
    made.begin("two")
    wait_until(lambda: (told := made.missing(["one", "two"])) is not None and told["computing"]["run"] == "two")
    told = made.missing(["one", "two"])
    assert told is not None and told["computing"]["ready"] == 0
    made.close()


def test_rows_that_were_read_are_counted_over_both_sides() -> None:
    work = Work("one", None, "", 30, 0.0)
    seen = []
    for what, rows in (("requests", 0), ("requests", 10), ("client_requests", 0), ("client_requests", 10), ("figures", 0)):
        summaries._hear(work, b'{"what": "%s", "rows": %d}' % (what.encode(), rows))
        seen.append((work.what, work.rows))
    assert [rows for _, rows in seen] == [0, 10, 10, 20, 30] and seen[-1][0] == "figures"
    summaries._hear(work, b"no json")
    assert work.rows == 30


def test_a_child_that_is_stopped_leaves_nothing_and_says_so(records: Records, monkeypatch: Any) -> None:
    monkeypatch.setattr(summaries, "command", lambda _work, _out: ["sleep", "60"])
    made = of(records, short=0)
    made.begin("one")
    assert made.stop("one") and not made.stop("nobody")
    with pytest.raises(SummaryFailed, match="it was stopped"):
        made.wait("one")
    assert not made.stop("one"), "it is over"
    assert records.queries.report("one")["summary"]["why"] == "nothing was kept of this run"


def test_a_child_that_fails_says_why(records: Records, tmp_path: Path) -> None:
    made = of(records, short=0, url=f"sqlite:///{tmp_path / 'nowhere.sqlite3'}")
    with pytest.raises(SummaryFailed, match="it ended with code 1: .*unable to open database file"):
        made.wait("one")


def test_closing_ends_every_child(records: Records, monkeypatch: Any) -> None:
    monkeypatch.setattr(summaries, "command", lambda _work, _out: ["sleep", "60"])
    made = of(records, short=0)
    made.begin("one")
    began = time.monotonic()
    made.close()
    with pytest.raises(SummaryFailed):
        made.wait("one")
    assert time.monotonic() - began < 30


def test_a_database_that_cannot_keep_it_still_gives_the_report(records: Records, caplog: Any) -> None:
    def full(_work: Any) -> None:
        raise OSError("no space left")

    made = Summaries(records.url, records.queries, lambda call, *args: call(*args), full)
    assert made.report("one")["verdict"] == "valid" and "could not be kept" in caplog.text
