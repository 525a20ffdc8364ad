"""A head that does not fit, and those behind it; a long prefill, and those behind it (scheduler.md 4.9 to 4.11)."""

from __future__ import annotations

import random

import pytest
from builders import MS, Bench, make_limits, make_request, make_scheduler, play
from event_log import EventLog

from scheduler.core.events import RequestFinished, RequestParked, RequestScheduled, RequestUnparked, StepCompleted
from scheduler.core.head_skips import ASIDE
from scheduler.core.policies.catalog import make
from scheduler.core.request import Request, WaitReason


def blocked(skips: int, *, behind: int = 30, **limits: object) -> tuple[Bench, Request, list[Request]]:
    """12 of 20 blocks are free; the head needs 16 of them, each behind it 2."""
    bench = Bench(make_scheduler(blocks=20, block_size=4, max_num_seqs=16, max_head_skips=skips, caching=False, **limits))
    bench.add(make_request("holds", prompt=30, max_tokens=200))
    bench.step()
    head = make_request("head", prompt=64, max_tokens=2)
    small = [make_request(f"s{i}", prompt=7, max_tokens=2) for i in range(behind)]
    bench.add(head, *small)
    return bench, head, small


def ends(bench: Bench) -> dict[str, RequestFinished]:
    return {event.id: event for event in bench.of(RequestFinished)}


def scheduled(bench: Bench) -> list[int]:
    return [event.number for event in bench.of(RequestScheduled)]


# ---- KV memory


def test_small_request_behind_a_head_that_does_not_fit_runs_in_the_next_step() -> None:
    bench, head, small = blocked(4, behind=1)
    plan = bench.step()
    assert [chunk.request.id for chunk in plan.chunks] == ["s0"]
    assert plan.binding is WaitReason.STEP and plan.waiting_by_reason[WaitReason.KV_BLOCKS] == 1
    assert [event.cause for event in bench.of(RequestParked)] == [WaitReason.KV_BLOCKS]


def test_head_is_passed_at_most_so_often_and_then_everybody_behind_it_waits() -> None:
    bench, head, small = blocked(4)
    bench.run_to_idle()
    order = scheduled(bench)
    assert order.index(head.number) == 1 + 4, "the one before it, and four that passed it"
    assert order[:5] + order[6:] == sorted(order[:5] + order[6:]), "those behind it keep their order"
    moves = [type(event) for event in bench.events if getattr(event, "number", 0) == head.number]
    assert head.passed == 4 and moves[:3] == [RequestParked, RequestUnparked, RequestScheduled], "looked at once more, in vain"


def test_without_skips_nobody_passes() -> None:
    bench, head, small = blocked(0)
    bench.run_to_idle()
    assert scheduled(bench) == sorted(scheduled(bench)) and not bench.of(RequestParked)


def test_skipped_head_waits_for_blocks_on_its_own_clock_while_the_others_wait_for_what_binds() -> None:
    bench, head, small = blocked(100, behind=3, max_num_batched_tokens=16)
    plan = bench.step()
    assert plan.binding is WaitReason.TOKEN_BUDGET
    reasons = plan.waiting_by_reason
    assert (reasons[WaitReason.KV_BLOCKS], reasons[WaitReason.TOKEN_BUDGET]) == (1, 2)
    began = bench.clock.now
    bench.run_to_idle()
    end = ends(bench)["head"]
    assert end.parts.waits[WaitReason.KV_BLOCKS] >= began - head.received_at
    assert sum(end.parts.waits) == end.parts.waits[WaitReason.KV_BLOCKS]
    assert ends(bench)["s2"].parts.waits[WaitReason.KV_BLOCKS] == 0
    log = EventLog()
    log.fold(bench.events)
    log.check_finished()


def test_head_that_stands_aside_is_not_looked_at_until_enough_is_free() -> None:
    bench, head, small = blocked(100, behind=1)
    for _ in range(50):
        bench.step()
    assert len(bench.of(RequestParked)) == 1 and not bench.of(RequestUnparked)
    bench.scheduler.abort("holds", bench.clock.now)
    plan = bench.step()
    assert [chunk.request.id for chunk in plan.chunks] == ["head"]


def test_head_alone_does_not_stand_aside_for_nobody() -> None:
    bench, head, small = blocked(100, behind=0)
    assert bench.step().binding is WaitReason.KV_BLOCKS and not bench.of(RequestParked)


def test_of_many_that_do_not_fit_a_bounded_number_stands_aside() -> None:
    bench = Bench(make_scheduler(blocks=20, block_size=4, max_num_seqs=16, max_head_skips=50, caching=False))
    bench.add(make_request("holds", prompt=30, max_tokens=20))
    bench.step()
    bench.add(*[make_request(f"large{i}", prompt=64, max_tokens=1) for i in range(ASIDE + 5)], make_request("tiny", prompt=4))
    plan = bench.step()
    assert plan.binding is WaitReason.KV_BLOCKS and plan.waiting_by_reason[WaitReason.KV_BLOCKS] == ASIDE + 6
    assert len(bench.of(RequestParked)) == ASIDE
    bench.run_to_idle()
    assert len(bench.of(RequestFinished)) == ASIDE + 7


def test_head_that_may_displace_others_does_not_stand_aside() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), blocks=20, block_size=4, max_head_skips=50, caching=False))
    bench.add(make_request("holds", prompt=30, max_tokens=20))
    bench.step()
    bench.add(make_request("head", prompt=64), make_request("tiny", prompt=4))
    assert bench.step().binding is WaitReason.KV_BLOCKS and not bench.of(RequestParked)


def test_bound_of_0_brings_everybody_back_at_once() -> None:
    bench, head, small = blocked(100, behind=6)
    bench.step()
    bench.scheduler.set_limits(make_limits(max_num_seqs=16), bench.clock.now)
    before = len(scheduled(bench))
    plan = bench.step()
    assert len(bench.of(RequestUnparked)) == 1 and plan.binding is (WaitReason.STEP if before == 8 else WaitReason.KV_BLOCKS)
    bench.run_to_idle()


@pytest.mark.parametrize("what", ["abort", "timeout"])
def test_head_can_end_while_it_stands_aside(what: str) -> None:
    bench, head, small = blocked(100, behind=1)
    bench.step()
    if what == "abort":
        bench.events += bench.scheduler.abort("head", bench.clock.tick())
    else:
        other = make_request("other", prompt=64, timeout_at=bench.clock.now + 5 * MS)
        bench.add(other, make_request(prompt=4))
        bench.step()
        bench.clock.tick(10 * MS)
        bench.step()
    bench.run_to_idle()
    assert len(bench.of(RequestFinished)) == len({event.id for event in bench.of(RequestFinished)})
    assert bench.scheduler.pool.free == bench.scheduler.pool.total


def test_order_can_change_while_somebody_stands_aside() -> None:
    bench, head, small = blocked(100)
    bench.step()
    for name in ("sjf", "edf", "fcfs", "priority_aging", "weighted_score"):
        bench.scheduler.set_policy(make(name, {}), bench.clock.now)
        bench.step()
    bench.run_to_idle()
    assert len(bench.of(RequestFinished)) == 32


def test_random_lives_with_skips_bound_what_a_head_is_passed() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        requests = [
            make_request(
                f"r{i}", prompt=rng.choice([3, 7, 40, 70]), max_tokens=rng.randrange(1, 20), received_at=1 + i * 4 * MS
            )
            for i in range(40)
        ]
        scheduler = make_scheduler(
            make(rng.choice(["fcfs", "sjf", "priority_aging"]), {}), blocks=24, max_num_seqs=8, max_head_skips=3,
            caching=rng.random() < 0.5, batching=rng.choice(["continuous", "merge"]),
        )  # fmt: skip
        events = play(scheduler, requests)
        assert max(request.passed for request in requests) <= 3
        log = EventLog()
        log.fold(events)
        log.check_finished()


# ---- a long prefill


def test_short_prompt_behind_a_long_prefill_begins_within_two_steps_under_the_cap_and_decodes_go_on() -> None:
    bench = Bench(make_scheduler(blocks=2000, max_num_batched_tokens=256, max_model_len=8192, long_prefill_token_threshold=64))
    talkers = [make_request(prompt=4, max_tokens=200) for _ in range(2)]
    bench.add(*talkers)
    bench.step()
    bench.add(make_request("long", prompt=3584), make_request("short", prompt=16))
    before = [request.output_tokens for request in talkers]
    plans = [bench.step() for _ in range(20)]
    first = next(i for i, plan in enumerate(plans) if any(chunk.request.id == "short" for chunk in plan.chunks))
    assert first < 2
    assert [request.output_tokens - had for request, had in zip(talkers, before, strict=True)] == [20, 20]


def test_prefill_that_the_cap_cuts_is_in_the_step_not_stalled_and_nobody_waits_for_the_cap() -> None:
    bench = Bench(make_scheduler(blocks=2000, max_num_seqs=2, max_num_batched_tokens=256, long_prefill_token_threshold=16))
    bench.add(make_request("a", prompt=200, max_tokens=1), make_request("b", prompt=200, max_tokens=1), make_request("c"))
    plan = bench.step()
    assert [chunk.tokens for chunk in plan.chunks] == [16, 16] and plan.binding is WaitReason.SLOTS
    bench.run_to_idle()
    assert ends(bench)["a"].parts.stalled == 0 and ends(bench)["a"].parts.prefill == 13 * 10 * MS
    waits = ends(bench)["c"].parts.waits
    assert waits[WaitReason.SLOTS] == sum(waits) and not waits[WaitReason.PREFILL_CAP]


def test_adaptive_cap_gives_a_few_prefills_their_fair_share_and_one_alone_everything() -> None:
    bench = Bench(
        make_scheduler(
            blocks=2000,
            max_num_seqs=4,
            max_num_batched_tokens=240,
            long_prefill_token_threshold=16,
            long_prefill_token_threshold_adaptive=True,
        )  # fmt: skip
    )
    bench.add(make_request("alone", prompt=480, max_tokens=1))
    assert [chunk.tokens for chunk in bench.step().chunks] == [240]
    bench.add(*[make_request(prompt=200, max_tokens=1) for _ in range(2)])
    assert [chunk.tokens for chunk in bench.step().chunks] == [80, 80, 80]
    bench.add(*[make_request(prompt=2, max_tokens=1) for _ in range(27)])
    assert [chunk.tokens for chunk in bench.step().chunks][:3] == [16, 16, 16]


# ---- progress


@pytest.mark.parametrize("mode", ["continuous", "merge", "static"])
def test_when_nobody_runs_and_somebody_waits_a_token_is_scheduled_or_a_request_rejected(mode: str) -> None:
    for seed in range(25):
        rng = random.Random(seed)
        limits = {
            "batching": mode, "max_num_seqs": rng.randrange(1, 5), "max_num_batched_tokens": rng.choice([4, 16, 64]),
            "allocation": rng.choice(["on_demand", "reserve"]), "watermark": rng.choice([0.0, 0.3]),
            "max_head_skips": rng.choice([0, 2]), "itl_target_ms": rng.choice([0.0, 1.0]),
            "enable_chunked_prefill": rng.random() < 0.5, "tenant_max_running": rng.choice([0, 1]),
        }  # fmt: skip
        bench = Bench(make_scheduler(blocks=rng.randrange(6, 20), caching=rng.random() < 0.5, **limits))
        for i in range(25):
            bench.add(
                make_request(f"r{i}", prompt=rng.randrange(1, 90), max_tokens=rng.randrange(1, 9), tenant=rng.choice("ab"))
            )
        while not bench.scheduler.idle:
            stuck = not bench.scheduler.running
            plan = bench.step()
            assert not stuck or plan.chunks, f"{seed}: {plan}"
        steps = bench.of(StepCompleted)
        assert len(steps) < 3000
