"""Filters mean what they say, figures are those of the rows, and nothing wrong is ignored in silence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from builders import Bench, make_request
from records import MS, WALL, Records, make_bench, make_row, some_requests

from app.store.errors import QueryError, StoreFailed
from app.store.filters import filters, limit, order
from app.store.instants import iso, wall_ns
from app.store.queries import Queries
from app.store.summary import histogram
from scheduler.core.events import RequestFinished, StepCompleted
from scheduler.metrics import percentile


@pytest.fixture(scope="module")
def played(module_url: str) -> Iterator[tuple[Records, Bench]]:
    """Ten requests through a crowded scheduler; one is rejected."""
    records = Records(url=module_url)
    bench = make_bench(2, blocks=8, max_num_seqs=3, max_num_batched_tokens=16)
    records.play(bench, [*some_requests(9), make_request("giant", prompt=5000, tenant="a")], run="one")
    yield records, bench
    records.close()


def ids(records: Records, **params: str) -> set[str]:
    return {item["id"] for item in records.queries.requests({"limit": "100", **params})["items"]}


def test_an_item_has_the_fields_of_the_contract(played: tuple[Records, Bench]) -> None:
    records, _ = played
    item = records.queries.requests({"limit": "1", "finish": "length"})["items"][0]
    assert set(item) == {
        "id", "run", "client_request_id", "endpoint", "stream", "model", "tenant", "kind", "priority", "policy", "state",
        "finish", "detail", "status_code", "received", "finished", "prompt_tokens", "cached_tokens", "output_tokens",
        "max_tokens", "sequences", "queue_ms", "ttft_ms", "tpot_ms", "e2e_ms", "prefill_ms", "decode_ms", "stalled_ms",
        "preempted_ms", "waits", "top_wait", "preemptions", "overtaken", "deadline_ms", "timeout_ms", "ignored_fields", "boot",
        "number",
    }  # fmt: skip
    assert item["received"] == iso(WALL) and item["finished"] > item["received"]
    parts = sum(item["waits"].values()) + item["prefill_ms"] + item["decode_ms"] + item["stalled_ms"] + item["preempted_ms"]
    assert parts == pytest.approx(item["e2e_ms"])


def test_filters_select_the_rows_they_name(played: tuple[Records, Bench]) -> None:
    records, _ = played
    everyone = ids(records)
    assert len(everyone) == 10
    assert ids(records, finish="rejected") == {"giant"}
    assert ids(records, finish="rejected,length") == everyone
    assert ids(records, tenant="b") == {f"r{i}" for i in (1, 3, 5, 7)}
    assert ids(records, state="running") == set()
    assert ids(records, run="other") == set() and ids(records, run="one") == everyone
    assert ids(records, client_request_id="c-r3") == {"r3"}
    assert ids(records, since=str(iso(WALL))) == everyone and ids(records, until=str(iso(WALL))) == set()
    slow = {item["id"] for item in records.queries.requests({"limit": "100"})["items"] if (item["ttft_ms"] or 0) >= 30}
    assert ids(records, min_ttft_ms="30") == slow and 0 < len(slow) < 9
    assert ids(records, min_ttft_ms="30", max_ttft_ms="29") == set()


def test_wait_selects_those_who_waited_for_it(played: tuple[Records, Bench]) -> None:
    records, _ = played
    expected = {item["id"] for item in records.queries.requests({"limit": "100"})["items"] if "kv_blocks" in item["waits"]}
    assert ids(records, wait="kv_blocks") == expected != set()


def test_a_bad_parameter_is_named() -> None:
    wrong = {
        "colour": "red",
        "state": "gone",
        "wait": "x",
        "since": "soon",
        "min_ttft_ms": "nan",
        "max_x_ms": "1",
        "until": "-5",
    }
    for name, value in wrong.items():
        with pytest.raises(QueryError) as caught:
            filters({name: value})
        assert caught.value.param == name
    for bad in ("0", "1001", "ten", "-1", "\u0663", "0" * 12 + "1001", "9" * 5000):
        with pytest.raises(QueryError) as caught:
            limit(bad)
        assert caught.value.param == "limit"
    with pytest.raises(QueryError) as caught:
        order("prompt_text; DROP TABLE requests")
    assert caught.value.param == "sort"


def test_values_never_reach_the_sql_text(played: tuple[Records, Bench]) -> None:
    records, _ = played
    assert ids(records, tenant="' OR 1=1 --") == set()


def test_instants_come_back() -> None:
    assert wall_ns("2026-11-29T14:03:22.118Z", "x") == wall_ns("2026-11-29T15:03:22.118+01:00", "x")
    assert wall_ns("2026-11-29T14:03:22.118", "x") == 1_795_961_002_118_000_000 == wall_ns("1795961002118", "x")
    assert iso(1_795_961_002_118_000_000) == "2026-11-29T14:03:22.118000Z"


def test_detail_shows_every_token_step_by_step(played: tuple[Records, Bench]) -> None:
    records, bench = played
    for event in bench.of(RequestFinished):
        detail = records.queries.request(event.id)
        assert detail is not None
        slices = detail["slices"]
        assert sum(slices["emitted"]) == event.output_tokens
        mine = [
            (s.step, row) for s in bench.of(StepCompleted) for row in s.slices if row.request == event.number and event.number
        ]
        assert list(zip(slices["step"], slices["tokens"], slices["kind"], strict=True)) == [
            (n, r.tokens, r.kind) for n, r in mine
        ]
        assert [e["kind"] for e in detail["events"]][-1] == "RequestFinished"
        assert len({len(column) for column in slices.values()}) == 1


def test_batch_mates_are_those_who_shared_most_steps(played: tuple[Records, Bench]) -> None:
    records, bench = played
    detail = records.queries.request("r0")
    assert detail is not None
    number = detail["number"]
    together = [{row.request for row in step.slices} for step in bench.of(StepCompleted)]
    for mate in detail["batch_mates"]:
        assert mate["steps"] == sum(number in step and mate["number"] in step for step in together) > 0
        assert mate["id"] != "r0" and mate["id"].startswith("r")


def test_an_absent_request_is_none(played: tuple[Records, Bench]) -> None:
    assert played[0].queries.request("nobody") is None


def test_summary_figures_are_those_of_the_rows(played: tuple[Records, Bench]) -> None:
    records, _ = played
    found = records.queries.summary({"group_by": "tenant", "finish": "length"})
    items = records.queries.requests({"limit": "100", "finish": "length"})["items"]
    for group in found["groups"]:
        mine = [item for item in items if item["tenant"] == group["key"]]
        assert group["count"] == len(mine)
        assert group["e2e_ms"]["p95"] == percentile(sorted(item["e2e_ms"] for item in mine), 95)
    assert found["total"]["finish"] == {"length": 9}
    assert sum(found["histogram"]["counts"]) == 9
    with pytest.raises(QueryError, match="group_by"):
        records.queries.summary({"group_by": "id"})


@pytest.mark.parametrize("values", [[], [None], [5.0], [1.0, 1.0], [0.0, 1e6], [1.0, 2.0, 1000.0, None]])
def test_a_histogram_counts_every_defined_value_once(values: list[float | None]) -> None:
    found = histogram(values, 10)
    known = [value for value in values if value is not None]
    assert sum(found["counts"]) == len(known)
    assert known == [] or (found["edges"][0] == min(known) and found["edges"][-1] == max(known))


def test_steps_are_columns_of_one_length_in_order(played: tuple[Records, Bench]) -> None:
    records, bench = played
    found = records.queries.steps({})
    steps = bench.of(StepCompleted)
    columns = found["steps"]
    assert columns["seq"] == [step.seq for step in steps]
    assert columns["t"] == [step.ended_at / 1e6 for step in steps]
    assert columns["kv_used"] == [bench.scheduler.pool.total - step.blocks_free for step in steps]
    assert columns["by_reason"]["slots"] == [step.waiting_by_reason[1] for step in steps]
    assert {len(column) for name, column in columns.items() if name != "by_reason"} == {len(steps)}
    assert found["boots"][2]["blocks_total"] == bench.scheduler.pool.total and not found["truncated"]


def test_steps_can_be_asked_by_seq_by_time_and_up_to_a_limit(played: tuple[Records, Bench]) -> None:
    records, bench = played
    steps = bench.of(StepCompleted)
    some = records.queries.steps({"from_seq": str(steps[2].seq), "to_seq": str(steps[4].seq)})
    assert some["steps"]["step"] == [step.step for step in steps[2:5]]
    since = records.queries.steps({"since": str(iso(WALL + steps[3].ended_at))})
    assert since["steps"]["step"] == [step.step for step in steps[3:]]
    short = records.queries.steps({"limit": "2"})
    assert len(short["steps"]["seq"]) == 2 and short["truncated"]
    for params in ({"colour": "x"}, {"from_seq": "-1"}, {"run": "nobody"}, {"boot": "x"}):
        with pytest.raises(QueryError) as caught:
            records.queries.steps(params)
        assert caught.value.param == next(iter(params))


def test_bars_of_a_request_are_whole_and_in_order(played: tuple[Records, Bench]) -> None:
    records, bench = played
    found = records.queries.segments({"run": "one"})
    columns = found["segments"]
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    for event in bench.of(RequestFinished):
        mine = [row for row in rows if row["id"] == event.id]
        if event.number == 0:
            assert mine == []
            continue
        assert mine[0]["phase"] == "queued" and mine[0]["t0"] == 0.0
        assert all(here["t1"] == there["t0"] for here, there in zip(mine, mine[1:], strict=False))
        assert mine[-1]["t1"] == event.at / 1e6 and mine[-1]["reason"] == event.reason.value
        assert all((row["slot"] >= 0) == (row["phase"] in ("prefill", "decode")) for row in mine)
        total = {
            phase: sum(row["t1"] - row["t0"] for row in mine if row["phase"] == phase) for phase in ("queued", "preempted")
        }
        assert total["queued"] * 1e6 == pytest.approx(sum(event.parts.waits))
        assert total["preempted"] * 1e6 == pytest.approx(event.parts.preempted)


def test_a_resumed_request_prefills_until_it_is_caught_up(played: tuple[Records, Bench]) -> None:
    records, bench = played
    columns = records.queries.segments({"run": "one"})["segments"]
    for event in bench.of(RequestFinished):
        if not event.preemptions:
            continue
        spans = [
            (columns["phase"][i], columns["t1"][i] - columns["t0"][i])
            for i in range(len(columns["id"]))
            if columns["id"][i] == event.id
        ]
        assert sum(ms for phase, ms in spans if phase == "decode") * 1e6 == pytest.approx(event.parts.decode)


def test_too_many_bars_are_cut_and_it_says_so(played: tuple[Records, Bench]) -> None:
    found = played[0].queries.segments({"run": "one", "max": "3"})
    assert len(found["segments"]["id"]) == 3 and found["truncated"] and found["total"] > 3


def test_without_a_window_bars_are_those_of_the_last_minute(played: tuple[Records, Bench]) -> None:
    assert played[0].queries.segments({})["total"] == played[0].queries.segments({"run": "one"})["total"]


def test_a_reader_sees_rows_that_are_not_finished(records: Records) -> None:
    records.accept(make_row("open", 3 * MS))
    item: dict[str, Any] = records.queries.requests({"state": "waiting"})["items"][0]
    assert item["finished"] is None and item["e2e_ms"] is None and item["waits"] == {} and item["prefill_ms"] is None


def test_an_end_that_the_web_authored_comes_last(records: Records) -> None:
    bench = make_bench(records.writer.next_boot())
    records.begin_life(bench)
    records.accept(make_row("a"))
    bench.add(make_request("a", max_tokens=9))
    bench.step()
    bench.step()
    records.write(bench.events)
    records.writer.end("a", "error", "engine_crash", 70 * MS)
    records.flush()
    detail = records.queries.request("a")
    assert detail is not None
    assert [event["t_ms"] for event in detail["events"]] == [0.0, 0.0, 10.0, 70.0]
    assert sum(detail["slices"]["emitted"]) == 2
    columns = records.queries.segments({})["segments"]
    assert columns["phase"] == ["queued", "prefill", "decode"]
    assert columns["t1"] == [0.0, 10.0, 70.0] and columns["reason"] == [None, None, "error"]


def test_a_database_that_cannot_be_reached_is_a_failure_of_the_records() -> None:
    with pytest.raises(StoreFailed, match="cannot be read"):
        Queries("sqlite:////nowhere/records.sqlite3").runs()


def test_an_empty_database_answers_every_question(records: Records) -> None:
    assert records.queries.requests({})["total"] == 0
    assert records.queries.steps({})["steps"]["seq"] == []
    assert records.queries.segments({})["segments"]["id"] == []
    assert records.queries.summary({})["total"]["count"] == 0
    assert records.queries.runs() == {"items": [], "next_before": None, "total": 0}
