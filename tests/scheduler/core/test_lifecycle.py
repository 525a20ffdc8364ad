"""Where a request's time goes, exactly; and lawful moves only."""

from __future__ import annotations

import pytest
from builders import MS, Bench, FakeClock, make_request, make_scheduler, run_to_idle
from event_log import EventLog

from scheduler.core.events import RequestFinished
from scheduler.core.lifecycle import _move
from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.request import LAWFUL, RequestState, WaitReason


def ends(bench: Bench) -> dict[str, RequestFinished]:
    return {event.id: event for event in bench.of(RequestFinished)}


def output(plan: StepPlan, **fields: object) -> StepOutput:
    return StepOutput([200 + i for i in range(len(plan.sampling))], 10 * MS, **fields)  # type: ignore[arg-type]


def test_time_parts_of_a_chunked_request_are_exact() -> None:
    bench = Bench(make_scheduler(max_num_batched_tokens=10, max_num_seqs=3))
    bench.clock.now = 100 * MS
    request = make_request("x", prompt=25, max_tokens=3, received_at=93 * MS)
    bench.add(request)
    bench.clock.tick(2 * MS)  # the loop needs a moment to begin
    bench.run_to_idle()
    parts = ends(bench)["x"].parts
    assert parts.waits[WaitReason.STEP] == 9 * MS
    assert (parts.prefill, parts.decode, parts.stalled, parts.preempted) == (30 * MS, 20 * MS, 0, 0)


def test_prefill_that_gets_no_tokens_is_stalled() -> None:
    bench = Bench(make_scheduler(max_num_batched_tokens=8, max_num_seqs=4))
    bench.add(make_request("first", prompt=14, max_tokens=1))
    bench.step()
    bench.add(make_request("second", prompt=14, max_tokens=1))
    bench.step()  # 6 of first, 2 of second
    bench.clock.tick(7 * MS)
    bench.run_to_idle()
    assert ends(bench)["second"].parts.stalled == 7 * MS


def test_resubmitted_request_books_the_gap_as_engine_down() -> None:
    bench = Bench(make_scheduler(), FakeClock(900 * MS))
    bench.add(make_request("x", received_at=100 * MS, resubmitted=True))
    bench.run_to_idle()
    assert ends(bench)["x"].parts.waits[WaitReason.ENGINE_DOWN] == 800 * MS


def test_time_never_goes_back() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request(received_at=5), 10)
    with pytest.raises(AssertionError, match="time went back"):
        scheduler.schedule(9)


def test_waits_by_reason_can_be_rebuilt_from_the_steps_alone() -> None:
    bench = Bench(make_scheduler(blocks=24, max_num_seqs=3, max_num_batched_tokens=16))
    for _ in range(6):
        bench.add(*[make_request(prompt=11, max_tokens=7) for _ in range(3)])
        bench.step()
    bench.run_to_idle()
    log = EventLog()
    log.fold(bench.events)
    log.check_finished()
    bounds = [(step.started_at, step.binding) for step in log.steps]
    ends_at = [start for start, _ in bounds[1:]] + [bench.clock.now]
    reasons = set()
    for row in log.rows.values():
        assert row.finished is not None
        rebuilt = [0] * len(WaitReason)
        for (start, binding), end in zip(bounds, ends_at, strict=True):
            rebuilt[binding] += max(0, min(end, row.scheduled_at[0]) - max(start, row.received_at))
        assert tuple(rebuilt) == row.finished.parts.waits
        reasons |= {reason.name for reason in WaitReason if rebuilt[reason]}
    assert {"SLOTS", "TOKEN_BUDGET"} <= reasons


def test_idle_engine_charges_a_newcomer_with_nothing_old() -> None:
    bench = Bench(make_scheduler(max_num_seqs=1))
    bench.add(make_request("a", max_tokens=1), make_request("b"))
    bench.step(lambda plan: (bench.events.extend(bench.scheduler.abort("b", bench.clock.tick())), output(plan))[1])
    bench.clock.tick(500 * MS)
    bench.add(make_request("c"))
    bench.clock.tick(3 * MS)
    bench.run_to_idle()
    assert ends(bench)["c"].parts.waits[WaitReason.STEP] == 3 * MS


def test_run_to_idle_of_the_builders_ends_everybody() -> None:
    events = run_to_idle(make_scheduler(), [make_request() for _ in range(9)])
    assert sum(isinstance(event, RequestFinished) for event in events) == 9


@pytest.mark.parametrize("state", list(RequestState))
def test_only_lawful_moves_are_made(state: RequestState) -> None:
    for target in RequestState:
        request = make_request()
        request.state = state
        if target in LAWFUL[state]:
            _move(request, target)
            assert request.state is target
        else:
            with pytest.raises(AssertionError, match="cannot become"):
                _move(request, target)


def test_who_leaves_between_two_pieces_of_its_prompt_was_stalled_until_then() -> None:
    bench = Bench(make_scheduler(max_num_batched_tokens=8))
    bench.add(make_request("leaves", prompt=30))
    bench.step()
    bench.clock.tick(3 * MS)
    bench.events += bench.scheduler.abort("leaves", bench.clock.now)
    parts = ends(bench)["leaves"].parts
    assert (parts.prefill, parts.stalled, parts.decode) == (10 * MS, 3 * MS, 0)
