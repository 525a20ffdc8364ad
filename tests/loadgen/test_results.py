"""Records and totals: one line a request, written at once; the sum holds at every instant."""

import json
import os
from pathlib import Path

import pytest

from loadgen.results import GROUP, Record, Recorder, Totals, read_lines


def record(n: int = 0, status: str = "ok", **changes: object) -> Record:
    fields: dict[str, object] = {
        "id": f"r-{n}", "n": n, "tenant": "t", "kind": "k", "due_ms": None, "sent_ms": 1.0, "first_ms": 2.5, "last_ms": 4.0,
        "end_ms": 4.5, "status": status, "http": 200, "error": None, "prompt_tokens": 3, "output_tokens": 2, "estimated": False,
        "gaps_ms": (1.5,), "server_id": None,
    }  # fmt: skip
    return Record(**fields | changes)  # type: ignore[arg-type]


def test_the_line_has_the_agreed_fields_in_order() -> None:
    line = json.loads(record().line())
    assert list(line) == [
        "id", "n", "tenant", "kind", "due_ms", "sent_ms", "first_ms", "last_ms", "end_ms", "status", "http", "error",
        "prompt_tokens", "output_tokens", "estimated", "gaps_ms", "server_id", "attempts",
    ]  # fmt: skip
    assert line["due_ms"] is None and line["attempts"] == 1
    assert json.loads(record(first_tokens=5).line())["first_tokens"] == 5


def test_the_groups_are_the_eight_statuses() -> None:
    assert len(GROUP) == 8
    assert {status for status, group in GROUP.items() if group == "failed"} == {
        "http_error", "stream_error", "empty_stream", "timeout",
    }  # fmt: skip
    assert (GROUP["shed"], GROUP["client_cancel"]) == ("refused", "cancelled")


@pytest.mark.parametrize("status", list(GROUP))
def test_the_sum_holds_before_and_after_each_status(status: str) -> None:
    recorder = Recorder(None)
    recorder.began()
    recorder.began()
    recorder.record(record(status=status))
    totals = recorder.totals
    assert totals.in_flight == 1
    done = totals.ok + totals.failed + totals.refused + totals.cancelled + totals.incomplete
    assert totals.sent == done + totals.in_flight == 2


def test_a_record_is_in_the_file_before_record_returns(tmp_path: Path) -> None:
    sent_on: list[bytes] = []
    recorder = Recorder(tmp_path / "requests.jsonl", sent_on.append)
    recorder.record(record(0))
    recorder.record(record(1, error="Grüße\n漢字"))
    assert [row["n"] for row in read_lines(tmp_path / "requests.jsonl")] == [0, 1]
    assert b"".join(sent_on) == (tmp_path / "requests.jsonl").read_bytes()
    recorder.close()


def test_two_recorders_may_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    pair = [Recorder(path), Recorder(path)]
    for n in range(50):
        pair[n % 2].record(record(n, gaps_ms=tuple(float(i) for i in range(200))))
    for recorder in pair:
        recorder.close()
    assert [row["n"] for row in read_lines(path)] == list(range(50))


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_bytes(record(0).line() + record(1).line()[:40])
    assert [row["n"] for row in read_lines(path)] == [0]


def test_totals_add_up() -> None:
    assert Totals(5, 1, 2).plus(Totals(2, 0, 1, 1)) == Totals(7, 1, 3, 1)
    assert Totals(3, 1).as_json()["in_flight"] == 2


def test_a_closed_recorder_leaves_no_descriptor(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "requests.jsonl")
    fd = recorder._fd
    assert fd is not None
    recorder.close()
    with pytest.raises(OSError):
        os.fstat(fd)
