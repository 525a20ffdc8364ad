"""The face of the core: the front door, live changes, and holding the engine."""

from __future__ import annotations

import pytest
from builders import MS, Bench, FakeClock, make_limits, make_request, make_scheduler

from scheduler.core.blocks import BlockPool
from scheduler.core.events import RequestFinished, RequestQueued, SettingsChanged, StepCompleted
from scheduler.core.learned_cost import REACH
from scheduler.core.policies.catalog import make
from scheduler.core.policies.fcfs import Fcfs
from scheduler.core.request import FinishReason, RequestState, WaitReason
from scheduler.core.scheduler import Scheduler


def ends(bench: Bench) -> dict[str, RequestFinished]:
    return {event.id: event for event in bench.of(RequestFinished)}


# ---- the front door


def test_prompt_larger_than_the_pool_is_rejected_at_once_and_blocks_nobody() -> None:
    bench = Bench(make_scheduler(blocks=10, block_size=4))
    big, small = make_request("big", prompt=41), make_request("small", prompt=8)
    bench.add(big, small)
    end = ends(bench)["big"]
    assert (end.reason, end.detail, end.number, end.slot) == (FinishReason.REJECTED, "kv_capacity", 0, -1)
    bench.run_to_idle()
    assert ends(bench)["small"].reason is FinishReason.LENGTH


def test_prompt_that_leaves_no_room_for_a_token_is_rejected() -> None:
    bench = Bench(make_scheduler(max_model_len=16))
    bench.add(make_request("full", prompt=16), make_request("fits", prompt=15))
    assert ends(bench)["full"].detail == "context_length"
    bench.run_to_idle()
    assert (ends(bench)["fits"].output_tokens, ends(bench)["fits"].detail) == (1, "context_length")


def test_empty_prompt_is_rejected_and_the_next_request_served() -> None:
    bench = Bench(make_scheduler())
    bench.add(make_request("empty", prompt=0), make_request("next"))
    bench.run_to_idle()
    assert ends(bench)["empty"].detail == "empty_prompt" and ends(bench)["next"].reason is FinishReason.LENGTH


def test_duplicate_of_a_live_id_is_rejected_and_the_id_is_free_again_afterwards() -> None:
    bench = Bench(make_scheduler())
    bench.add(make_request("same", max_tokens=3))
    bench.step()
    bench.add(make_request("same"))
    assert ends(bench)["same"].detail == "duplicate_id"
    assert bench.scheduler.running == 1 and bench.scheduler.waiting == 0
    bench.run_to_idle()
    assert ends(bench)["same"].reason is FinishReason.LENGTH
    assert isinstance(bench.add(make_request("same"))[0], RequestQueued)


def test_full_queue_refuses_by_number_and_by_tokens_but_not_what_was_accepted_before() -> None:
    bench = Bench(make_scheduler(max_num_queued_reqs=2))
    bench.add(make_request("a"), make_request("b"), make_request("c"), make_request("d", resubmitted=True))
    assert {id: end.detail for id, end in ends(bench).items()} == {"c": "queue_full"}
    bench = Bench(make_scheduler(max_num_queued_tokens=20))
    bench.add(make_request("long", prompt=30), make_request("e", prompt=1))
    assert {id: end.detail for id, end in ends(bench).items()} == {"e": "queue_full"}


def test_refused_request_has_spent_its_time_on_the_way() -> None:
    bench = Bench(make_scheduler(), FakeClock(50 * MS))
    bench.add(make_request("late", prompt=0, received_at=20 * MS))
    assert ends(bench)["late"].parts.waits[WaitReason.STEP] == 30 * MS


def test_refused_request_has_ended() -> None:
    bench, request = Bench(make_scheduler()), make_request(prompt=0)
    bench.add(request)
    assert request.state is RequestState.FINISHED


# ---- live changes


def test_lower_limit_drains_and_preempts_nobody() -> None:
    bench = Bench(make_scheduler(max_num_seqs=4, max_num_batched_tokens=8))
    bench.add(*[make_request(prompt=1, max_tokens=6) for _ in range(4)], make_request("next", prompt=1))
    bench.step()
    bench.scheduler.set_limits(make_limits(max_num_seqs=2, max_num_batched_tokens=2), bench.clock.now)
    plan = bench.step()
    assert plan.running == 4 and plan.preempted == 0 and plan.token_budget == 4 and plan.binding is WaitReason.SLOTS
    bench.run_to_idle()
    assert max(step.running for step in bench.of(StepCompleted) if step.started_at > 60 * MS) <= 2
    bench.scheduler.set_limits(make_limits(max_num_seqs=6), bench.clock.now)
    bench.add(*[make_request() for _ in range(6)])
    assert bench.step().running == 6


def test_policy_swap_takes_over_who_waits() -> None:
    bench = Bench(make_scheduler(max_num_seqs=1))
    bench.add(*[make_request(id, priority=p, max_tokens=2) for id, p in (("a", 3), ("b", 2), ("c", 1), ("d", 1))])
    bench.step()
    bench.scheduler.set_policy(make("priority", {}), bench.clock.now)
    bench.run_to_idle()
    assert [event.id for event in bench.of(RequestFinished)] == ["a", "c", "d", "b"]


def test_held_engine_books_paused_time_and_a_single_step_its_own() -> None:
    bench = Bench(make_scheduler(max_num_seqs=1))
    bench.scheduler.pause(bench.clock.now)
    bench.add(make_request("a", max_tokens=1), make_request("b", max_tokens=1))
    bench.clock.tick(100 * MS)
    bench.step()  # 10 ms, one step while held: b waits for the slot
    bench.clock.tick(50 * MS)
    bench.scheduler.resume(bench.clock.now)
    bench.run_to_idle()
    assert ends(bench)["a"].parts.waits[WaitReason.PAUSED] == 100 * MS
    waits = ends(bench)["b"].parts.waits
    assert (waits[WaitReason.PAUSED], waits[WaitReason.SLOTS]) == (150 * MS, 10 * MS)


def test_recorded_event_is_in_sequence() -> None:
    scheduler = make_scheduler(boot=9)
    scheduler.add(make_request(), 5)
    event = scheduler.record(SettingsChanged, 6, version=2, changes=(("policy", "edf"),))
    assert (event.boot, event.seq, event.at) == (9, 2, 6)
    assert Scheduler(make_limits(), BlockPool(8, 4), Fcfs()).boot == 0, "a life that nobody has numbered"


def test_engine_that_goes_on_holds_nobody_back() -> None:
    bench = Bench(make_scheduler())
    bench.scheduler.pause(0)
    assert bench.scheduler.paused
    bench.scheduler.resume(0)
    assert not bench.scheduler.paused
    bench.add(make_request("later", max_tokens=1))
    bench.clock.tick(MS)
    bench.run_to_idle()
    assert ends(bench)["later"].parts.waits[WaitReason.PAUSED] == 0


def test_new_limits_hold_at_the_front_door_at_once() -> None:
    bench = Bench(make_scheduler())
    bench.scheduler.set_limits(make_limits(max_num_queued_reqs=1), 0)
    bench.add(make_request("a"), make_request("b"))
    assert ends(bench)["b"].detail == "queue_full"


@pytest.mark.parametrize("held", [True, False])
def test_step_of_nobody_leaves_a_held_engine_held_and_another_free(held: bool) -> None:
    bench = Bench(make_scheduler())
    if held:
        bench.scheduler.pause(0)
    assert bench.step().empty
    bench.add(make_request("later", max_tokens=1))
    bench.clock.tick(3 * MS)
    bench.run_to_idle()
    waits = ends(bench)["later"].parts.waits
    assert waits[WaitReason.PAUSED if held else WaitReason.STEP] == sum(waits) == 3 * MS


def test_engine_whose_cost_nobody_knows_learns_it_from_what_its_steps_took() -> None:
    limits = {"itl_target_ms": 20.0, "max_num_batched_tokens": 4096, "max_model_len": 4096}
    bench = Bench(make_scheduler(blocks=1000, **limits), FakeClock(1000 * MS))
    bench.add(make_request(prompt=3000, max_tokens=1))
    assert [bench.step().token_budget for _ in range(6)] == [REACH * 2**n for n in range(6)], "each takes half of the target"
