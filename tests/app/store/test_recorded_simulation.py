"""A simulation's records: the rows of both sides, and a report like any other."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from simulated_records import ASKS, RUN, SECOND, Recorded

from app.store.queries import Queries
from app.store.simulation import Recording
from scheduler.simulate import Ask


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "simulated.db"


def test_every_request_has_a_row_on_each_side_and_they_agree(path: Path) -> None:
    report = Recorded(path).close()
    assert (report["verdict"], report["simulated"], report["run"]["simulated"]) == ("valid", True, True)
    counts = report["reconciliation"]
    assert (counts["sent"], counts["ok"], counts["server_rows"], counts["difference"]) == (len(ASKS), len(ASKS), len(ASKS), 0)
    sides = report["percentiles"]
    assert sides["client"]["ttft_ms"]["p99"] == pytest.approx(sides["server"]["ttft_ms"]["p99"]), "nothing lies in between"
    assert report["percentiles"]["client"]["lateness_ms"]["p99"] == 0
    assert report["throughput"]["output_tokens"] == sum(ask.output_tokens for ask in ASKS)


def test_gaps_between_tokens_are_those_of_the_steps(path: Path) -> None:
    Recorded(path, [Ask(0, 64, 5)]).close()
    found = Queries(f"sqlite:///{path}").request(f"{RUN}-0")
    assert found is not None
    client, slices = found["client"], found["slices"]
    ends = [t + ms for t, ms in zip(slices["t_ms"], slices["ms"], strict=True)]
    assert client["gaps_ms"] == pytest.approx([later - earlier for earlier, later in pairwise(ends)], abs=1e-3)
    assert (client["first_ms"], client["last_ms"], client["end_ms"]) == pytest.approx((ends[0], ends[-1], ends[-1]))
    assert found["tenant"] == "default" and found["endpoint"] == "simulation"


def test_what_was_not_finished_is_kept_as_incomplete(path: Path) -> None:
    report = Recorded(path).close(until=SECOND // 2, status="stopped")
    counts = report["reconciliation"]
    assert report["run"]["status"] == "stopped" and counts["incomplete"] > 0
    assert counts["sent"] == counts["ok"] + counts["incomplete"] == counts["server_rows"] < len(ASKS)
    assert report["run"]["progress"]["sent"] == counts["sent"]


def test_refusals_are_those_of_waiting_or_those_of_ever(path: Path) -> None:
    asks = [Ask(0, 500, 20) for _ in range(5)] + [Ask(1, 40_000, 1)]
    counts = Recorded(path, asks, max_num_seqs=1, max_num_queued_reqs=2).close()["reconciliation"]
    assert (counts["ok"], counts["refused"], counts["failed"]) == (2, 3, 1)
    assert counts["broken"][0]["error"] == "context_length"


def test_a_time_out_is_one(path: Path) -> None:
    report = Recorded(path, [Ask(0, 64, 2000, timeout_ms=100)]).close()
    assert report["reconciliation"]["by_status"] == {"timeout": 1}


def test_an_event_that_cannot_be_stored_ends_the_simulation(path: Path) -> None:
    recorded = Recorded(path)
    recorded.recording._scribe.lost = 1
    with pytest.raises(Exception, match="refused an event"):
        recorded.close()


def test_one_commit_holds_many_steps(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    write = Recording._write
    monkeypatch.setattr(Recording, "_write", lambda self: (writes.append(len(self._items)), write(self))[1])
    Recorded(path).close()
    assert len(writes) == 1 and writes[0] > 200
