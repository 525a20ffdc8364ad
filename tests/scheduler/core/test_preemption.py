"""Preemption: who yields, what is kept, and what must never happen."""

from __future__ import annotations

from builders import MS, Bench, make_limits, make_request, make_scheduler

from scheduler.core.events import FirstToken, RequestFinished, RequestPreempted, RequestScheduled, StepCompleted
from scheduler.core.policies.catalog import make
from scheduler.core.request import Request, WaitReason
from scheduler.core.victims import may_yield


def small_pool(**limits: object) -> Bench:
    """12 requests that together need far more than the pool."""
    bench = Bench(make_scheduler(blocks=30, block_size=4, max_num_seqs=8, max_num_batched_tokens=32, **limits))
    bench.add(*[make_request(f"r{i}", prompt=16, max_tokens=24) for i in range(12)])
    return bench


def outputs(bench: Bench, requests: list[Request]) -> list[list[int]]:
    bench.add(*requests)
    bench.run_to_idle()
    return [list(request.tokens) for request in requests]


def test_when_blocks_run_out_the_newest_yields_and_nobody_is_admitted_in_that_step() -> None:
    bench = small_pool()
    bench.run_to_idle()
    assert bench.of(RequestPreempted), "the pool was meant to be too small"
    for plan in bench.runner.plans:
        if plan.preempted:
            assert plan.binding is WaitReason.KV_BLOCKS
            assert not any(isinstance(event, RequestScheduled) for event in plan.events)
    first = bench.of(RequestPreempted)[0]
    running = [event.number for event in bench.of(RequestScheduled) if event.seq < first.seq]
    assert first.number == max(running) and not first.urgency


def test_nobody_is_preempted_twice_without_a_token_in_between_and_little_is_computed_again() -> None:
    bench = small_pool()
    bench.run_to_idle()
    computed = sum(step.prefill_tokens + len(step.decodes) for step in bench.of(StepCompleted))
    least = sum(end.prompt_tokens + end.output_tokens - 1 for end in bench.of(RequestFinished))
    assert computed <= 1.5 * least
    last: dict[int, int] = {}
    emitted = 0
    for event in bench.events:
        if isinstance(event, StepCompleted):
            for row in event.slices:
                emitted += row.emitted
                if row.emitted:
                    last.pop(row.request, None)
        if isinstance(event, RequestPreempted):
            assert event.number not in last
            last[event.number] = emitted


def test_whoever_decodes_has_had_a_token_since_it_came_so_it_may_yield() -> None:
    bench, back = small_pool(), 0
    while not bench.scheduler.idle:
        bench.step()
        decodes = list(bench.scheduler._life.group.everyone())
        assert all(request.progressed for request in decodes)
        assert set(may_yield(bench.scheduler._life)) >= set(decodes)
        back += sum(request.preemptions > 0 for request in decodes)
    assert back, "somebody was meant to be back"


def test_preempted_request_answers_the_same() -> None:
    def ask() -> list[Request]:
        return [make_request(f"r{i}", prompt=[i * 40 + k for k in range(16)], max_tokens=24) for i in range(6)]

    roomy = outputs(Bench(make_scheduler(blocks=400, max_num_seqs=8)), ask())
    tight = Bench(make_scheduler(blocks=30, max_num_seqs=8))
    assert outputs(tight, ask()) == roomy
    assert tight.of(RequestPreempted)


def test_preempted_request_resumes_as_a_prefix_hit_while_nobody_took_its_blocks() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), block_size=4, max_num_seqs=1))
    slow = make_request("slow", prompt=10, max_tokens=30, priority=5)
    bench.add(slow)
    for _ in range(8):
        bench.step()  # 17 tokens computed: 4 full blocks
    bench.add(make_request("urgent", priority=0))
    bench.run_to_idle()
    lost = bench.of(RequestPreempted)[0]
    resumed = next(event for event in bench.of(RequestScheduled) if event.resumed)
    assert (lost.computed_tokens_lost, lost.blocks_freed, resumed.cached_tokens) == (17, 5, 16)
    assert slow.cached_tokens == 0, "what it gave back to itself is no saving"


def test_reserve_never_preempts_for_memory() -> None:
    bench = small_pool(allocation="reserve")
    bench.run_to_idle()
    assert not bench.of(RequestPreempted)
    assert len(bench.of(RequestFinished)) == 12


def test_allocation_can_change_live() -> None:
    bench = small_pool()
    for _ in range(6):
        bench.step()
    limits = make_limits(allocation="reserve", max_num_seqs=8, max_num_batched_tokens=32)
    bench.scheduler.set_limits(limits, bench.clock.now)
    bench.run_to_idle()
    assert len(bench.of(RequestFinished)) == 12


def test_urgent_request_meets_full_slots_and_runs_in_the_next_step() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), max_num_seqs=2))
    slow = [make_request(f"slow{i}", prompt=8, max_tokens=300, priority=5) for i in range(2)]
    bench.add(*slow)
    for _ in range(3):
        bench.step()
    urgent = make_request("urgent", prompt=8, max_tokens=4, priority=0)
    bench.add(urgent)
    plan = bench.step()
    assert [chunk.request.id for chunk in plan.chunks] == ["urgent"] and plan.preempted == 1
    assert bench.of(RequestPreempted)[0].urgency
    assert bench.of(RequestPreempted)[0].number == slow[1].number, "of equals, the newest yields"
    bench.run_to_idle()
    alone = Bench(make_scheduler())
    twin = make_request("twin", prompt=slow[1].tokens[:8], max_tokens=300)
    assert outputs(alone, [twin]) == [list(slow[1].tokens)], "the victim's answer is the same"


def test_without_preempt_the_urgent_request_waits_for_a_slot_and_says_so() -> None:
    bench = Bench(make_scheduler(make("priority", {}), max_num_seqs=1))
    bench.add(make_request(prompt=8, max_tokens=30, priority=5))
    bench.step()
    bench.add(make_request("urgent", priority=0))
    assert bench.step().binding is WaitReason.SLOTS
    bench.run_to_idle()
    end = next(event for event in bench.of(RequestFinished) if event.id == "urgent")
    assert end.parts.waits[WaitReason.SLOTS] > 200 * MS


def test_urgency_takes_blocks_too_and_is_bounded_in_a_step() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), blocks=24, max_num_seqs=6))
    bench.add(*[make_request(prompt=12, max_tokens=40, priority=5) for _ in range(6)])
    bench.step()
    bench.add(make_request("urgent", prompt=24, max_tokens=2, priority=0))
    plan = bench.step()
    assert [chunk.request.id for chunk in plan.chunks] == ["urgent"]
    assert 1 < plan.preempted <= 4
    bench.run_to_idle()


def test_urgency_that_cannot_help_takes_nothing() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), blocks=40, max_num_seqs=10, max_num_batched_tokens=256))
    bench.add(*[make_request(prompt=12, max_tokens=30, priority=5) for _ in range(10)])
    assert bench.step().running == 10
    bench.add(make_request("too large", prompt=64, max_tokens=2, priority=0))
    assert len(bench.step().decodes) == 10, "no four of them make room for it"
    bench.run_to_idle()


def test_equal_priority_never_displaces() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), max_num_seqs=1))
    bench.add(make_request(max_tokens=5, priority=1))
    bench.step()
    bench.add(make_request(priority=1))
    bench.run_to_idle()
    assert not bench.of(RequestPreempted)


def test_preempted_request_keeps_its_arrival_rank() -> None:
    for policy in ("fcfs", "priority", "priority_aging", "edf"):
        bench = Bench(make_scheduler(make(policy, {}), blocks=30, block_size=4, max_num_seqs=8, max_num_batched_tokens=32))
        requests = [make_request(f"r{i}", prompt=16, max_tokens=24) for i in range(12)]
        for request in requests:
            bench.clock.tick()
            bench.add(request)
        bench.run_to_idle()
        firsts: set[int] = set()
        waiting_again: list[int] = []
        for event in bench.events:
            if isinstance(event, RequestPreempted):
                waiting_again.append(event.number)
            if isinstance(event, RequestScheduled):
                assert event.number == min([event.number, *waiting_again]), f"{policy}: somebody passed a preempted request"
                if event.resumed:
                    waiting_again.remove(event.number)
                firsts.add(event.number)
        assert len(firsts) == 12 and bench.of(RequestPreempted)


def test_resumed_request_is_left_alone_until_it_has_given_a_token_again() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), caching=False, max_num_seqs=1, max_num_batched_tokens=8))
    low = make_request("low", prompt=30, max_tokens=9, priority=5)
    bench.add(low)
    for _ in range(5):
        bench.step()
    bench.add(make_request("first", prompt=4, max_tokens=1, priority=0))
    bench.step()
    assert low.preemptions == 1
    bench.step()  # low is computed again, 8 tokens a step
    bench.add(make_request("second", prompt=4, max_tokens=1, priority=0))
    before = low.output_tokens
    while low.preemptions == 1:
        assert bench.step().running == 1
    assert low.output_tokens > before
    bench.run_to_idle()


def test_tokens_of_the_decodes_that_yield_are_there_for_the_urgent_one() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), max_num_seqs=2, max_num_batched_tokens=2))
    bench.add(*[make_request(prompt=1, max_tokens=30, priority=5) for _ in range(2)])
    bench.step()
    assert len(bench.step().decodes) == 2, "the whole budget"
    bench.add(make_request("urgent", prompt=5, priority=0))
    plan = bench.step()
    assert plan.preempted == 1 and [(chunk.request.id, chunk.tokens) for chunk in plan.chunks] == [("urgent", 1)]


def test_who_has_given_a_token_again_may_yield_again_and_its_first_token_is_told_once() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), max_num_seqs=1))
    low = make_request("low", prompt=8, max_tokens=30, priority=5)
    bench.add(low)
    for turn in range(1, 4):
        for _ in range(3):
            bench.step()
        bench.add(make_request(prompt=4, max_tokens=1, priority=0))
        bench.step()
        assert low.preemptions == turn
    bench.run_to_idle()
    assert [event.number for event in bench.of(FirstToken)].count(low.number) == 1
    lost = [event.computed_tokens_lost for event in bench.of(RequestPreempted)]
    assert len(lost) == low.preemptions and all(lost), "each time it had computed something"
    assert [event.resumed for event in bench.of(RequestScheduled) if event.number == low.number] == [False] + [True] * len(lost)


def test_two_urgent_ones_take_two_places_in_one_step() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), max_num_seqs=2))
    bench.add(*[make_request(max_tokens=30, priority=5) for _ in range(2)])
    bench.step()
    bench.add(make_request("one", priority=0), make_request("two", priority=0))
    assert [chunk.request.id for chunk in bench.step().chunks] == ["one", "two"] and len(bench.of(RequestPreempted)) == 2


def test_room_that_is_left_for_a_preempted_one_is_for_what_it_still_lacks() -> None:
    bench = Bench(make_scheduler(blocks=10, block_size=4, caching=False))
    yields = make_request(prompt=12, max_tokens=12)
    bench.add(make_request(prompt=8, max_tokens=100), yields)
    while not yields.preemptions:
        bench.step()
    left = yields.params.max_tokens - yields.output_tokens
    plan = bench.step()
    assert 0 < left < 6 and plan.head == yields.number and plan.kept == bench.scheduler.pool.blocks_for(2 * left)
