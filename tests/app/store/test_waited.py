"""What a request waited for, stretch by stretch: without holes, true to the log, and as its parts say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from builders import Bench, make_request
from records import Records, make_bench, make_row

from app.cli.request_text import request_text
from app.cli.waits_text import held_by
from scheduler.core.events import RequestFinished, RequestScheduled


@pytest.fixture(scope="module")
def crowded(module_url: str) -> Iterator[tuple[Records, Bench]]:
    """Two tenants, of which one exceeds its quota, on few slots, a small budget and a small cache."""
    records = Records(url=module_url)
    bench = make_bench(2, blocks=30, max_num_seqs=3, max_num_batched_tokens=12, tenant_max_running=2)
    requests = [make_request(f"r{i}", tenant="aaab"[i % 4], prompt=9 + i % 9, max_tokens=3 + i % 5) for i in range(24)]
    records.play(bench, requests, run="one")
    yield records, bench
    records.close()


def detail(records: Records, id: str) -> dict[str, Any]:
    found = records.queries.request(id)
    assert found is not None
    return found


def test_stretches_follow_each_other_from_arrival_to_admission(crowded: tuple[Records, Bench]) -> None:
    records, bench = crowded
    reasons = set()
    for end in bench.of(RequestFinished):
        shown = detail(records, end.id)
        stretches = shown["waited"]
        reasons |= {one["reason"] for one in stretches}
        if not shown["queue_ms"]:
            assert not stretches
            continue
        assert stretches[0]["from_ms"] == 0 and stretches[-1]["to_ms"] == pytest.approx(shown["queue_ms"])
        for before, after in zip(stretches, stretches[1:], strict=False):
            assert before["to_ms"] == after["from_ms"] and before["from_ms"] < before["to_ms"]
    assert {"slots", "token_budget", "quota"} <= reasons


def test_stretches_sum_to_the_parts_by_reason(crowded: tuple[Records, Bench]) -> None:
    records, bench = crowded
    for end in bench.of(RequestFinished):
        shown, sums = detail(records, end.id), Counter[str]()
        for one in shown["waited"]:
            sums[one["reason"]] += one["to_ms"] - one["from_ms"]
        assert dict(sums) == pytest.approx(shown["waits"]), end.id


def test_a_stretch_names_who_held_what(crowded: tuple[Records, Bench]) -> None:
    records, bench = crowded
    seen = set()
    for end in bench.of(RequestFinished):
        for one in detail(records, end.id)["waited"]:
            if one["reason"] == "step":
                assert one["blockers"] is None
                continue
            blockers = one["blockers"]
            assert blockers["reason"] == one["reason"] and blockers["holders"]
            seen.add(blockers["unit"])
            if one["reason"] == "quota":
                assert blockers["holders"][0]["amount"] == blockers["limit"] == 2
    assert {"slots", "tokens", "requests"} <= seen


def test_how_often_it_was_overtaken_is_stored(crowded: tuple[Records, Bench]) -> None:
    records, bench = crowded
    number = {event.number: event.overtaken for event in bench.of(RequestScheduled) if not event.resumed}
    shown = {end.number: detail(records, end.id)["overtaken"] for end in bench.of(RequestFinished)}
    assert shown == number and max(number.values()) > 0


def test_the_text_says_what_it_waited_for_and_who_held_it(crowded: tuple[Records, Bench]) -> None:
    records, bench = crowded
    texts = [request_text(detail(records, end.id)) for end in bench.of(RequestFinished)]
    assert any("of 3 slots: " in text for text in texts) and any("2 of 2 running" in text for text in texts)
    assert held_by(None) == ""
    kv = {
        "unit": "blocks",
        "limit": 20,
        "holders": [{"tenant": "a", "amount": 12}],
        "rest": 2,
        "needed": 9,
        "head": 3,
        "free": 6,
        "kept": 1,
    }
    assert held_by(kv) == "14 of 20 blocks in use: a 12, others 2; next in line needs 9, 6 free, 1 of them kept"
    again = "(3 more than in use: a block that requests share counts for each)"
    assert (
        held_by(kv | {"free": 9})
        == f"11 of 20 blocks in use: a 12, others 2 {again}; next in line needs 9, 9 free, 1 of them kept"
    )


def test_one_that_still_waits_shows_an_open_stretch(records: Records) -> None:
    bench = make_bench(2, max_num_seqs=1)
    records.begin_life(bench)
    records.accept(make_row("runs"), make_row("waits"))
    records.write(bench.add(make_request("runs", max_tokens=20), make_request("waits")))
    before = len(bench.events)
    bench.step()
    records.write(bench.events[before:])
    (only,) = detail(records, "waits")["waited"]
    assert (only["from_ms"], only["to_ms"], only["reason"]) == (0, None, "slots")
    assert only["blockers"]["holders"] == [{"tenant": "default", "amount": 1}]
