"""Rows are folds of the log: what the core counted is what the row says, for one sequence and for many."""

from __future__ import annotations

import pytest
from builders import make_request
from records import MS, WALL, Records, make_bench, make_row, some_requests

from app.store.models import WAIT_COLUMNS
from scheduler.core.events import FirstToken, RequestFinished, RequestScheduled, SettingsChanged, StepCompleted


def columns(records: Records, id: str, *names: str) -> tuple[object, ...]:
    return records.sql(f"SELECT {', '.join(names)} FROM requests WHERE id = ?", id)[0]


def test_every_row_ends_with_the_parts_that_the_core_counted(records: Records) -> None:
    bench = make_bench(2, blocks=8, max_num_seqs=3, max_num_batched_tokens=16)
    records.play(bench, some_requests(9))
    names = (*WAIT_COLUMNS, "prefill_ns", "decode_ns", "stalled_ns", "preempted_ns", "finished_at", "finish", "output_tokens")
    for event in bench.of(RequestFinished):
        expected = (*event.parts.waits, *event.parts[1:], event.at, event.reason.value, event.output_tokens)
        assert columns(records, event.id, *names) == expected
    assert records.sql("SELECT count(*) FROM requests WHERE preemptions > 0")[0][0] > 0


def test_the_parts_of_every_row_sum_to_its_e2e(records: Records) -> None:
    records.play(make_bench(2, max_num_seqs=2), some_requests(6))
    whole = " + ".join((*WAIT_COLUMNS, "prefill_ns", "decode_ns", "stalled_ns", "preempted_ns"))
    rows = records.sql(f"SELECT {whole}, finished_at - received_at, e2e_ms FROM requests")
    assert len(rows) == 6
    assert all(parts == e2e == pytest.approx(ms * 1e6) for parts, e2e, ms in rows)


def test_times_of_the_row_are_those_of_its_events(records: Records) -> None:
    bench = make_bench(2, max_num_seqs=1)
    records.play(bench, some_requests(3))
    numbers = {event.id: event.number for event in bench.of(RequestFinished)}
    for id, number in numbers.items():
        scheduled = next(event.at for event in bench.of(RequestScheduled) if event.number == number)
        first = next(event.at for event in bench.of(FirstToken) if event.number == number)
        found = columns(records, id, "scheduled_at", "first_token_at", "number", "boot", "ttft_ms")
        assert found == (scheduled, first, number, 2, first / 1e6)


def test_tpot_is_the_mean_gap_after_the_first_token(records: Records) -> None:
    records.play(make_bench(2), [make_request("a", max_tokens=5), make_request("one", max_tokens=1)])
    assert columns(records, "a", "tpot_ms") == (10.0,)
    assert columns(records, "one", "tpot_ms") == (None,)


def test_what_is_undefined_is_null(records: Records) -> None:
    bench = make_bench(2)
    records.begin_life(bench)
    records.accept(make_row("giant"))
    bench.add(make_request("giant", prompt=5000))
    records.write(bench.events)
    assert columns(records, "giant", "finish", "scheduled_at", "ttft_ms", "queue_ms", "number") == (
        "rejected",
        None,
        None,
        None,
        None,
    )


def test_sequences_of_one_post_fold_into_one_row(records: Records) -> None:
    bench = make_bench(2, max_num_seqs=2)
    records.begin_life(bench)
    records.accept(make_row("p", sequences=3))
    bench.add(*[make_request(f"p/{i}", prompt=4, max_tokens=2 + 3 * i) for i in range(3)])
    records.write(bench.events)
    half = next(i for i, event in enumerate(bench.run_to_idle()) if isinstance(event, RequestFinished)) + 1
    records.write(bench.events[3:half])
    assert columns(records, "p", "state", "finish") == ("running", None)
    records.write(bench.events[half:])
    last = max(bench.of(RequestFinished), key=lambda event: event.at)
    found = columns(records, "p", "state", "finish", "output_tokens", "prompt_tokens", "finished_at", "decode_ns")
    assert found == ("finished", "length", 2 + 5 + 8, 12, last.at, last.parts.decode)
    assert columns(records, "p", "first_token_at")[0] == bench.of(FirstToken)[0].at
    assert columns(records, "p", "number")[0] == bench.events[0].seq


def test_the_gravest_end_of_its_sequences_is_the_posts(records: Records) -> None:
    bench = make_bench(2)
    records.begin_life(bench)
    records.accept(make_row("p", sequences=2))
    bench.add(make_request("p/0", max_tokens=2), make_request("p/1", max_tokens=50))
    bench.step()
    bench.step()
    bench.events += bench.scheduler.abort("p/1", bench.clock.now, "client_gone")
    records.write(bench.run_to_idle())
    assert columns(records, "p", "finish", "detail") == ("abort", "client_gone")


def test_the_policy_is_the_one_in_force_when_it_was_queued(records: Records) -> None:
    bench = make_bench(2)
    records.begin_life(bench, {"policy": "sjf"})
    records.accept(make_row("a"), make_row("b"))
    bench.add(make_request("a"))
    bench.events.append(bench.scheduler.record(SettingsChanged, bench.clock.now, version=2, changes=(("policy", "edf"),)))
    bench.add(make_request("b"))
    records.write(bench.run_to_idle())
    assert columns(records, "a", "policy") == ("sjf",) and columns(records, "b", "policy") == ("edf",)
    assert records.sql("SELECT version, changes, wall FROM settings_changes") == [(2, '{"policy":"edf"}', WALL)]


def test_a_resubmitted_request_counts_anew_and_keeps_its_arrival(records: Records) -> None:
    first = make_bench(2)
    records.begin_life(first)
    records.accept(make_row("a"))
    first.add(make_request("a", prompt=100, max_tokens=4))
    first.step()
    records.write(first.events)
    assert columns(records, "a", "state", "scheduled_at") == ("running", 0)
    second = make_bench(3)
    second.clock.now = 500 * MS
    records.begin_life(second)
    request = make_request("a", prompt=100, max_tokens=4, resubmitted=True)
    records.write(second.scheduler.add(request, second.clock.now))
    assert columns(records, "a", "state", "scheduled_at", "boot") == ("waiting", None, 3)
    records.write(second.run_to_idle())
    found = columns(records, "a", "state", "received_at", "queue_ms", "top_wait", "wait_engine_down_ns")
    assert found == ("finished", 0, 500.0, "engine_down", 500 * MS)


def test_the_web_ends_what_the_engine_cannot(records: Records) -> None:
    bench = make_bench(2)
    records.begin_life(bench)
    records.accept(make_row("a", stream=True))
    bench.add(make_request("a", max_tokens=9))
    bench.step()
    records.write(bench.events)
    records.writer.end("a", "error", "engine_crash", 70 * MS, output_tokens=1)
    records.flush()
    names = ("finish", "detail", "e2e_ms", "ttft_ms", "status_code", "output_tokens", "wait_slots_ns")
    assert columns(records, "a", *names) == ("error", "engine_crash", 70.0, 10.0, 200, 1, None)
    assert records.sql("SELECT boot FROM request_events WHERE terminal") == [(records.writer.web_boot,)]


def test_a_refused_post_has_a_row_and_one_terminal_event(records: Records) -> None:
    records.writer.refuse(make_row("a", 5 * MS, run="run1", client_request_id="c"), 429, "queue_full", 6 * MS)
    records.flush()
    assert columns(records, "a", "state", "finish", "detail", "status_code", "e2e_ms", "run") == (
        "finished", "rejected", "queue_full", 429, 1.0, "run1",
    )  # fmt: skip
    assert records.sql("SELECT terminal FROM request_events") == [(1,)]


def test_what_the_web_answered_is_kept(records: Records) -> None:
    records.accept(make_row("giant"))
    bench = make_bench(2)
    bench.add(make_request("giant", prompt=5000))
    records.writer.events(bench.events)
    records.writer.amend("giant", status_code=400, output_text="")
    records.flush()
    assert columns(records, "giant", "status_code", "output_text") == (400, "")


def test_a_step_row_holds_its_composition(records: Records) -> None:
    bench = make_bench(2, max_num_seqs=2)
    records.play(bench, some_requests(4))
    steps = bench.of(StepCompleted)
    rows = records.sql("SELECT step, prefill_tokens, decode_tokens, binding, waiting, ended_wall FROM steps ORDER BY seq")
    assert rows == [
        (s.step, s.prefill_tokens, len(s.decodes), s.binding.name.lower(), sum(s.waiting_by_reason), WALL + s.ended_at)
        for s in steps
    ]


def test_how_late_the_host_was_is_kept_with_the_step(records: Records) -> None:
    bench = make_bench(2)
    records.begin_life(bench)
    bench.add(make_request("a", max_tokens=1))
    records.write(bench.run_to_idle(), host_late_ns=5)
    assert records.sql("SELECT host_late_ns FROM steps") == [(5,)]
