"""Figures are folds over the log: exact, and the same as numpy's and as the core's own counting."""

from __future__ import annotations

from builders import MS, Bench, make_request, make_scheduler
from hypothesis import given
from hypothesis import strategies as st
from numpy import percentile as numpy_percentile

from scheduler import metrics
from scheduler.core.events import FirstToken, RequestFinished, StepCompleted

floats = st.floats(0, 1e9, allow_nan=False)


def crowded_bench() -> Bench:
    """Few blocks and slots: requests queue, are preempted, one is rejected, one aborted while it waits."""
    bench = Bench(make_scheduler(blocks=8, max_num_seqs=3, max_num_batched_tokens=16))
    for i in range(9):
        bench.add(make_request(f"r{i}", prompt=6 + i % 3, max_tokens=4 + i % 7, tenant="ab"[i % 2]))
        bench.clock.tick(3 * MS)
    bench.add(make_request("giant", prompt=500))
    bench.step()
    bench.events += bench.scheduler.abort("r8", bench.clock.now)
    bench.run_to_idle()
    return bench


@given(st.lists(floats, min_size=1, max_size=50), st.sampled_from([0, 1, 50, 90, 95, 99, 100]))
def test_a_percentile_is_numpys(values: list[float], q: int) -> None:
    found = metrics.percentile(sorted(values), q)
    assert found is not None
    assert abs(found - float(numpy_percentile(values, q))) <= 1e-9 * max(values) + 1e-9


def test_undefined_values_are_left_out_and_nothing_of_nothing_is_none() -> None:
    assert metrics.percentiles([None, None]) == {
        "p50": None,
        "p90": None,
        "p95": None,
        "p99": None,
        "n": 0,
        "few": ["p50", "p90", "p95", "p99"],
    }
    assert metrics.percentiles([3.0, None, 1.0])["p50"] == 2.0


def test_a_percentile_is_few_when_less_than_one_value_lies_beyond_it() -> None:
    assert not metrics.few(100, 99) and metrics.few(99, 99)
    assert metrics.percentiles(range(20))["few"] == ["p99"]


def test_jain_is_one_when_all_are_equal_and_one_nth_when_one_has_all() -> None:
    assert metrics.jain([5, 5, 5]) == 1.0
    assert metrics.jain([7, 0, 0, 0]) == 0.25
    assert metrics.jain([]) is None and metrics.jain([0, 0]) is None


def test_the_parts_of_every_life_sum_to_its_e2e() -> None:
    lives = metrics.lives(crowded_bench().events)
    assert len(lives) == 10
    for life in lives.values():
        assert life.parts is not None and life.parts.total == life.e2e


def test_queue_time_is_the_sum_of_the_waits() -> None:
    bench = crowded_bench()
    lives = [life for life in metrics.lives(bench.events).values() if life.scheduled_at is not None]
    assert any(life.preemptions for life in lives)
    assert all(life.parts is not None and life.queue == sum(life.parts.waits) for life in lives)


def test_little_holds_to_the_nanosecond() -> None:
    area, waited = metrics.little(list(metrics.lives(crowded_bench().events).values()))
    assert area == waited > 0


def test_the_staircase_starts_and_ends_empty_and_peaks_where_most_waited() -> None:
    depth = metrics.depth(metrics.lives(crowded_bench().events).values())
    assert depth.stairs[-1][1] == 0
    assert depth.peak >= 6


def test_wait_attribution_adds_up_over_reasons() -> None:
    lives = list(metrics.lives(crowded_bench().events).values())
    by_reason = metrics.waits(lives)
    assert tuple(by_reason) == metrics.WAIT_REASONS
    assert sum(by_reason.values()) == sum(sum(life.parts.waits) for life in lives if life.parts)
    assert by_reason["slots"] > 0


def test_token_times_agree_with_counts_and_first_tokens() -> None:
    bench = crowded_bench()
    times = metrics.token_times(bench.events)
    for event in bench.of(RequestFinished):
        assert len(times.get((event.boot, event.number), [])) == event.output_tokens
    for event in bench.of(FirstToken):
        assert times[event.boot, event.number][0] == event.at
    gaps = metrics.inter_token(times)
    assert len(gaps) == sum(len(stamps) - 1 for stamps in times.values()) and min(gaps) > 0


def test_tpot_needs_two_tokens_and_a_good_end() -> None:
    bench = Bench(make_scheduler())
    bench.add(make_request("one", max_tokens=1), make_request("four", max_tokens=4))
    lives = metrics.lives(bench.run_to_idle())
    assert lives[1, "one"].tpot is None and lives[1, "one"].ttft == 10 * MS
    assert lives[1, "four"].tpot == 10 * MS


def test_one_token_meets_the_slo_and_no_token_does_not() -> None:
    assert metrics.meets(5, None, 10, 10)
    assert not metrics.meets(None, None, 10, 10)
    assert not metrics.meets(5, 11, 10, 10)


def test_attainment_counts_rejected_and_aborted_requests_as_missed() -> None:
    lives = list(metrics.lives(crowded_bench().events).values())
    assert metrics.attainment(lives, 1e9, 1e9) == 8 / 10
    assert metrics.attainment([], 1, 1) is None


def test_service_weighs_output_twice() -> None:
    assert metrics.service([("a", 10, 5), ("b", 1, 1), ("a", 0, 1)]) == {"a": 22, "b": 3}


def test_every_step_stands_by_itself() -> None:
    bench = crowded_bench()
    for step in bench.of(StepCompleted):
        assert sum(row.tokens for row in step.slices) == step.prefill_tokens + len(step.decodes)
