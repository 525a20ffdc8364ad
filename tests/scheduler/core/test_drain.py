"""What the core measures of its own queue: rates over saturated steps, running sums of what waits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import MS, Bench, make_request, make_scheduler

from scheduler.core.drain import HORIZON_NS, Drain, Pressure, Rate


def shedding(**limits: object) -> Bench:
    return Bench(make_scheduler(admission="shed", ttft_slo_ms=86_400_000, **limits))


def pressure(bench: Bench) -> Pressure:
    found = bench.scheduler.pressure()
    assert found is not None
    return found


def test_bounded_admission_measures_no_pressure() -> None:
    assert make_scheduler().pressure() is None


def test_a_rate_is_unmeasured_at_first_and_forgets_what_is_long_past() -> None:
    rate = Rate()
    assert rate.each_ns == 0.0
    rate.add(10 * MS, 0)
    assert rate.each_ns == 10 * MS, "none has come in that time: at least that long"
    for _ in range(100):
        rate.add(10 * MS, 10)
    for _ in range(20 * HORIZON_NS // (10 * MS)):
        rate.add(10 * MS, 5)
    assert round(rate.each_ns / MS, 3) == 2.0


def test_the_prefill_rate_counts_only_steps_that_left_prefill_undone() -> None:
    bench = shedding(max_num_batched_tokens=16)
    bench.add(make_request(prompt=8, max_tokens=50))
    bench.step()
    bench.step()
    assert pressure(bench).token_ns == 0.0
    bench.add(make_request(prompt=100, max_tokens=2))
    bench.step()
    one = pressure(bench)
    assert one.token_ns == 10 * MS / 15 and one.tokens == 85, "one decode takes its token of the sixteen first"


def test_tokens_found_in_the_cache_leave_the_queue_too() -> None:
    bench = shedding(max_num_batched_tokens=16, max_num_seqs=4)
    shared = list(range(40))
    bench.add(make_request(prompt=shared, max_tokens=1))
    bench.run_to_idle()
    bench.add(make_request(prompt=[*shared, *range(900, 960)], max_tokens=1))
    before = pressure(bench).token_ns
    bench.step()
    assert round(before) == 10 * MS // 16 and pressure(bench).token_ns < before


def test_places_are_requests_that_must_end_before_a_newcomer_begins() -> None:
    bench = shedding(max_num_seqs=2, max_num_batched_tokens=64)
    assert pressure(bench).places == -1 and not pressure(bench).busy
    bench.add(*[make_request(prompt=4, max_tokens=3) for _ in range(5)])
    bench.step()
    assert pressure(bench).places == 4 and pressure(bench).place_ns == 10 * MS
    bench.step()
    bench.step()
    found = pressure(bench)
    assert found.places == 2, "two have ended, three wait: two of these take their slots"
    assert 14 * MS < found.place_ns < 16 * MS


def test_free_slots_are_of_no_use_while_memory_holds_the_queue_back() -> None:
    bench = shedding(blocks=8, max_num_seqs=4)
    bench.add(*[make_request(prompt=16, max_tokens=8) for _ in range(3)])
    bench.step()
    assert bench.scheduler.running < 3 and pressure(bench).places == bench.scheduler.waiting + 1


def test_an_estimate_takes_the_longer_of_computing_and_places() -> None:
    one = Pressure(busy=True, tokens=100, token_ns=1.0, places=4, place_ns=10.0, step_ns=5.0, safety=1.0)
    assert one.first_token_ns(7) == 100 + 7 + 5
    assert one.first_token_ns(7, places=5) == 10 * (9 + 3) + 7 + 5
    assert one.first_token_ns(7, tokens=50) == 150 + 7 + 5
    assert one.misses(112, 0, 8) and not one.misses(113, 0, 8)


def test_a_request_that_is_shed_is_rejected_by_name_and_never_waits() -> None:
    bench = shedding(max_num_batched_tokens=16)
    bench.add(make_request(prompt=160, max_tokens=2))
    bench.step()
    late, wide = make_request(prompt=8, deadline_at=bench.clock.now + 50 * MS), make_request(prompt=8)
    events = bench.add(late, wide)
    assert [getattr(event, "detail", "queued") for event in events] == ["shed", "queued"]
    assert late.id not in bench.scheduler.requests and bench.scheduler.waiting == 1
    bench.run_to_idle()


def test_an_estimate_adds_nobody_who_was_not_named() -> None:
    one = Pressure(busy=True, tokens=30, token_ns=1.0, places=4, place_ns=10.0, step_ns=5.0, safety=2.0)
    assert one.first_token_ns(7) == 10 * (4 + 2) + 7 + 5
    assert one.misses(2 * 72 - 1, 0, 7) and not one.misses(2 * 72, 0, 7)
    assert replace(one, tokens=0).first_token_ns(7, places=-9) == 7 + 5, "no fewer than nobody is before it"
    idle = Pressure(busy=False, tokens=0, token_ns=1.0, places=4, place_ns=10.0, step_ns=5.0, safety=1.0)
    assert not idle.misses(0, 10**9, 7) and idle.misses(0, 10**9, 7, tokens=1)


def test_an_engine_is_busy_while_anybody_waits_or_runs() -> None:
    busy = {(waiting, running): Drain().pressure(waiting, 0, running, 4, 1.0).busy for waiting in (0, 1) for running in (0, 1)}
    assert busy == {(0, 0): False, (0, 1): True, (1, 0): True, (1, 1): True}


def test_who_is_parked_for_a_quota_is_before_nobody() -> None:
    bench = shedding(max_num_batched_tokens=64, max_num_seqs=4, tenant_max_running=1)
    bench.add(make_request(prompt=4, tenant="ann", max_tokens=9))
    bench.step()
    before = pressure(bench)
    bench.add(make_request(prompt=30, tenant="ann"))
    assert bench.scheduler.parked == 1
    assert (pressure(bench).tokens, pressure(bench).places) == (before.tokens, before.places)


def test_a_newcomer_meets_the_length_of_a_step_and_no_token_that_nobody_lacks() -> None:
    bench = shedding()
    bench.add(make_request(prompt=4, max_tokens=30))
    for _ in range(3):
        bench.step()
    assert pressure(bench).step_ns == pytest.approx(10 * MS) and pressure(bench).tokens == 0
