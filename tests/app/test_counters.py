"""Counters: the Prometheus text says what the events said."""

from __future__ import annotations

import re

from web_builders import ENGINE_BOOT, finished, first_token, queued, scheduled, step

from app.counters import Counters
from scheduler.core.events import EngineStarted, Event, RequestPreempted
from scheduler.core.request import FinishReason

STARTED = EngineStarted(ENGINE_BOOT, 1, 0, 0, 0, (), 10, 16, "null", None, "m")


def figures(*events: Event, **gauges: float) -> dict[str, float]:
    counters = Counters()
    for event in events:
        counters.apply(event)
    lines = [line for line in counters.render(gauges).splitlines() if not line.startswith("#")]
    found = {}
    for line in lines:
        match = re.fullmatch(r'batchscope:(\w+)\{model_name="m"(.*)\} (\S+)', line)
        assert match, line
        found[match[1] + match[2]] = float(match[3])
    return found


def test_waiting_and_running_follow_a_request_through_its_life() -> None:
    life: list[Event] = [STARTED, queued(seq=1), queued("req_b", 2)]
    assert figures(*life)["num_requests_waiting"] == 2
    life += [scheduled(1), scheduled(2), RequestPreempted(ENGINE_BOOT, 12, 5, 2, 1, 3, 8, False)]
    assert (figures(*life)["num_requests_waiting"], figures(*life)["num_requests_running"]) == (0, 1)
    life += [scheduled(2, resumed=True), finished("req_a", 1), finished("req_b", 2, FinishReason.ABORT)]
    ended = figures(*life)
    assert (ended["num_requests_waiting"], ended["num_requests_running"], ended["num_preemptions_total"]) == (0, 0, 1)
    assert ended['request_success_total,finished_reason="abort"'] == 1


def test_who_ends_while_waiting_or_preempted_is_not_counted_as_running() -> None:
    life = [STARTED, queued(seq=1), finished("req_a", 1, FinishReason.TIMEOUT, slot=-1)]
    assert (figures(*life)["num_requests_waiting"], figures(*life)["num_requests_running"]) == (0, 0)
    evicted = RequestPreempted(ENGINE_BOOT, 12, 5, 1, 1, 3, 8, False)
    life = [STARTED, queued(seq=1), scheduled(1), evicted, finished("req_a", 1, FinishReason.ABORT, slot=-1, preemptions=1)]
    assert (figures(*life)["num_requests_waiting"], figures(*life)["num_requests_running"]) == (0, 0)


def test_a_refused_request_counts_as_an_end_only() -> None:
    life = [STARTED, finished("req_x", 0, FinishReason.REJECTED, slot=-1)]
    found = figures(*life)
    assert found['request_success_total,finished_reason="rejected"'] == 1 and found["num_requests_waiting"] == 0
    assert found["e2e_request_latency_seconds_count"] == 0


def test_tokens_and_blocks_come_from_steps() -> None:
    found = figures(STARTED, step(decodes=(1, 2), failed=(2,), chunks=((3, 20, 1), (4, 5, 0)), blocks_free=4))
    assert found["generation_tokens_total"] == 2 and found["prefill_tokens_total"] == 25
    assert found["kv_cache_usage_perc"] == 0.6 and found["step_duration_seconds_count"] == 1


def test_histograms_are_cumulative() -> None:
    found = figures(STARTED, queued(seq=1), scheduled(1, at=3_000_000), first_token(1, at=30_000_000))
    name = "time_to_first_token_seconds_bucket"
    assert found[name + ',le="0.02"'] == 0 and found[name + ',le="0.04"'] == found[name + ',le="+Inf"'] == 1
    assert found["request_queue_time_seconds_sum"] == 0.003


def test_a_new_engine_begins_with_empty_gauges_and_old_totals() -> None:
    found = figures(STARTED, queued(seq=1), STARTED, records_lost=3)
    assert found["num_requests_waiting"] == 0 and found["prompt_tokens_total"] == 3 and found["records_lost"] == 3
