"""batching=merge: a step prefills or decodes, and newcomers join the running batch."""

from __future__ import annotations

from dataclasses import replace

from builders import MS, Bench, make_limits, make_request, make_scheduler, play
from event_log import EventLog

from scheduler.core.batching import MOST_DECODES
from scheduler.core.events import Event, RequestFinished, RequestScheduled, RequestUnparked, StepCompleted
from scheduler.core.policies.catalog import make
from scheduler.core.request import Request, WaitReason
from scheduler.runners.cost_model import DEFAULT_HARDWARE, StepShape, load

H100 = load(DEFAULT_HARDWARE)


def arrivals(n: int = 60, every: int = 15 * MS) -> list[Request]:
    return [
        make_request(f"r{i}", prompt=5 + i * 7 % 40, max_tokens=3 + i * 5 % 30, received_at=1 + i * every) for i in range(n)
    ]


def steps_of(events: list[Event]) -> list[StepCompleted]:
    return [event for event in events if isinstance(event, StepCompleted)]


def waited(events: list[Event]) -> dict[int, int]:
    """Steps between each request's arrival and its first admission, by number."""
    at_step, arrived, waits = 0, dict[int, int](), dict[int, int]()
    for event in events:
        name = type(event).__name__
        at_step += name == "StepCompleted"
        if name == "RequestQueued":
            arrived[event.seq] = at_step
        if isinstance(event, RequestScheduled):
            waits.setdefault(event.number, at_step - arrived[event.number])
    return waits


def test_no_step_mixes_prefill_and_decode_and_everybody_is_served() -> None:
    events = play(make_scheduler(batching="merge", max_num_seqs=8), arrivals())
    steps = steps_of(events)
    assert all(not (step.decodes and step.chunks) for step in steps)
    assert sum(isinstance(event, RequestFinished) for event in events) == 60
    joined = [step for step in steps if step.chunks and step.running > len(step.chunks)]
    assert len(joined) > 5, "newcomers joined a batch that was under way"
    log = EventLog()
    log.fold(events)
    log.check_finished()


def test_between_two_prefills_the_batch_decodes() -> None:
    steps = steps_of(play(make_scheduler(batching="merge", max_num_seqs=8), arrivals(every=MS)))
    under_way = [step for step in steps if step.running > len(step.chunks)]
    assert not any(a.chunks and b.chunks for a, b in zip(under_way, under_way[1:], strict=False) if b.step == a.step + 1)


def test_lone_newcomer_joins_a_large_batch_within_a_bounded_number_of_steps() -> None:
    bench = Bench(make_scheduler(batching="merge", max_num_seqs=16))
    bench.add(*[make_request(prompt=4, max_tokens=200) for _ in range(8)])
    for _ in range(3):
        bench.step()
    bench.add(make_request("late", prompt=8))
    plans = [bench.step() for _ in range(MOST_DECODES + 1)]
    bindings = [plan.binding.name for plan in plans]
    joined = next(i for i, plan in enumerate(plans) if plan.chunks)
    assert joined <= MOST_DECODES and set(bindings[:joined]) == {"STATIC_BATCH"}
    assert bindings[joined] == "STEP" and not plans[joined].decodes and plans[joined].context == 0
    assert len(plans[joined + 1].decodes) == 9 and plans[joined + 1].changed


def test_many_newcomers_join_after_one_step_of_decodes() -> None:
    bench = Bench(make_scheduler(batching="merge", max_num_seqs=16))
    bench.add(*[make_request(prompt=4, max_tokens=200) for _ in range(8)])
    bench.step()
    bench.add(*[make_request(prompt=4) for _ in range(3)])
    assert [len(bench.step().chunks) for _ in range(2)] == [0, 3]


def test_newcomers_do_not_starve_and_wait_a_bounded_number_of_steps_while_there_is_room() -> None:
    events = play(make_scheduler(batching="merge", max_num_seqs=64, blocks=4000, max_num_batched_tokens=256), arrivals(80))
    waits = waited(events)
    assert len(waits) == 80 and max(waits.values()) <= MOST_DECODES + 1


def test_when_nobody_can_be_let_in_the_batch_decodes_on_and_says_why() -> None:
    bench = Bench(make_scheduler(batching="merge", max_num_seqs=2))
    bench.add(*[make_request(prompt=4, max_tokens=50) for _ in range(4)])
    plans = [bench.step() for _ in range(4)]
    assert [plan.binding.name for plan in plans] == ["SLOTS"] * 4
    assert [len(plan.decodes) for plan in plans] == [0, 2, 2, 2]


def test_prompt_larger_than_a_step_goes_in_pieces_while_the_decodes_stand_still() -> None:
    bench = Bench(make_scheduler(batching="merge", max_num_batched_tokens=20))
    talker = make_request("talker", prompt=4, max_tokens=50)
    bench.add(talker)
    for _ in range(2):
        bench.step()
    bench.add(make_request("giant", prompt=50), make_request("small", prompt=4))
    plans = [bench.step() for _ in range(4)]
    assert [[chunk.tokens for chunk in plan.chunks] for plan in plans] == [[20], [20], [10], []]
    assert [plan.binding.name for plan in plans] == ["TOKEN_BUDGET", "STATIC_BATCH", "STATIC_BATCH", "STATIC_BATCH"]
    assert [len(plan.decodes) for plan in plans] == [0, 0, 0, 2]


def test_standing_still_changes_no_answer_and_no_end() -> None:
    def ask() -> list[Request]:
        return [make_request(f"r{i}", prompt=[i * 40 + k for k in range(16)], max_tokens=5 + 3 * i) for i in range(9)]

    apart, mixed = ask(), ask()
    for size in (1, 2, 4):
        for requests, mode in ((apart, "merge"), (mixed, "continuous")):
            bench = Bench(make_scheduler(batching=mode, max_num_seqs=4, blocks=400, block_size=size, max_num_batched_tokens=32))
            requests[:] = ask()
            bench.add(*requests)
            bench.run_to_idle()
        assert [list(request.tokens) for request in apart] == [list(request.tokens) for request in mixed]


def test_blocks_run_out_in_a_merged_batch_too() -> None:
    bench = Bench(make_scheduler(batching="merge", blocks=30, block_size=4, max_num_seqs=8, max_num_batched_tokens=32))
    bench.add(*[make_request(f"r{i}", prompt=16, max_tokens=24) for i in range(12)])
    bench.run_to_idle()
    assert any(plan.preempted for plan in bench.runner.plans)
    assert not any(plan.preempted and plan.chunks for plan in bench.runner.plans), "nobody is admitted when blocks run out"


def test_newcomer_leaves_the_decodes_the_blocks_that_they_need_next() -> None:
    bench = Bench(make_scheduler(batching="merge", blocks=10, block_size=4, max_num_seqs=4))
    bench.add(*[make_request(prompt=4, max_tokens=9) for _ in range(2)])
    for _ in range(5):
        bench.step()
    assert bench.scheduler.pool.free == 6, "both hold two full blocks, and need a third one in their next turn"
    bench.add(make_request("newcomer", prompt=24, max_tokens=1))  # 6 blocks
    plans = [bench.step() for _ in range(2)]
    assert [plan.binding.name for plan in plans] == ["KV_BLOCKS"] * 2
    assert [len(plan.decodes) for plan in plans] == [2, 2] and not any(plan.preempted for plan in plans)
    bench.run_to_idle()


def test_decodes_after_a_step_of_standing_still_are_not_those_of_the_last_step() -> None:
    bench = Bench(make_scheduler(batching="merge"))
    bench.add(*[make_request(prompt=4, max_tokens=30) for _ in range(2)])
    for _ in range(3):
        bench.step()
    bench.add(make_request("one token", prompt=4, max_tokens=1))
    plans = [bench.step() for _ in range(3)]
    assert [len(plan.decodes) for plan in plans] == [0, 2, 2]
    assert [plan.changed for plan in plans] == [True, True, False], "nobody joined, but the last step had no decodes"


def test_urgent_newcomer_takes_a_place_at_a_boundary() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), batching="merge", max_num_seqs=2))
    bench.add(*[make_request(prompt=8, max_tokens=300, priority=5) for _ in range(2)])
    for _ in range(3):
        bench.step()
    bench.add(make_request("urgent", prompt=8, max_tokens=2, priority=0))
    plan = bench.step()
    assert [chunk.request.id for chunk in plan.chunks] == ["urgent"] and plan.preempted == 1 and not plan.decodes
    bench.run_to_idle()


def test_mode_can_change_live() -> None:
    bench = Bench(make_scheduler(batching="merge", max_num_seqs=6))
    bench.add(*[make_request(prompt=9, max_tokens=30) for _ in range(12)])
    for step in range(40):
        mode = ("merge", "continuous", "static")[step // 2 % 3]
        bench.scheduler.set_limits(make_limits(batching=mode, max_num_seqs=6), bench.clock.now)
        bench.step()
    bench.run_to_idle()
    assert len(bench.of(RequestFinished)) == 12


def test_throughput_lies_between_that_of_static_and_of_continuous_batching() -> None:
    def takes(mode: str) -> int:
        scheduler = make_scheduler(batching=mode, blocks=400, block_size=64, max_num_seqs=16, max_num_batched_tokens=2048)
        bench = Bench(scheduler)
        bench.add(*[make_request(f"r{i}", prompt=512, max_tokens=20 + i * 53 % 200) for i in range(96)])
        while not scheduler.idle:
            bench.step(lambda plan: replace(bench.runner.run(plan), elapsed=round(H100.step_ms(StepShape.of(plan)) * MS)))
        return bench.clock.now

    static, merge, continuous = (takes(mode) for mode in ("static", "merge", "continuous"))
    assert static > 1.2 * merge and merge > 1.02 * continuous


def test_waits_of_a_merged_batch_are_for_the_batch() -> None:
    events = play(make_scheduler(batching="merge", max_num_seqs=64, blocks=4000), arrivals())
    waits = [event.parts.waits for event in events if isinstance(event, RequestFinished)]
    reasons = {reason: sum(wait[reason] for wait in waits) for reason in WaitReason}
    assert max(reasons, key=lambda reason: reasons[reason]) is WaitReason.STATIC_BATCH and not reasons[WaitReason.SLOTS]


def test_order_is_told_whenever_the_decodes_are_others_than_in_the_step_before() -> None:
    bench = Bench(make_scheduler(batching="merge", max_num_seqs=8))
    for wave in range(6):
        bench.add(*[make_request(max_tokens=6 + wave) for _ in range(3)])
        for _ in range(5):
            bench.step()
    plans = bench.runner.plans
    others = [now for before, now in zip(plans, plans[1:], strict=False) if now.decode_numbers != before.decode_numbers]
    assert all(plan.changed for plan in others)
    assert {bool(plan.decodes) for plan in others} == {True, False}, "they stood still, and went on"
    assert not all(plan.changed for plan in plans)


def test_lone_newcomer_waits_for_exactly_so_many_decodes_as_the_rule_says() -> None:
    bench = Bench(make_scheduler(batching="merge", max_num_seqs=12))
    bench.add(*[make_request(max_tokens=90) for _ in range(8)])
    bench.step()
    bench.add(make_request("late"))
    for _ in range(MOST_DECODES):
        assert not bench.step().chunks
    assert [chunk.request.id for chunk in bench.step().chunks] == ["late"]


def test_who_stood_aside_comes_back_in_the_step_that_lets_it_in_and_that_step_decodes_nobody() -> None:
    bench = Bench(make_scheduler(batching="merge", blocks=44, block_size=4, max_num_seqs=8, max_head_skips=5, caching=False))
    bench.add(make_request("stays", prompt=8, max_tokens=80), make_request("ends", prompt=56, max_tokens=9))
    bench.step()
    head = make_request("head", prompt=120, max_tokens=1)
    bench.add(head, make_request("tiny", prompt=4, max_tokens=2))
    bench.run_to_idle()
    let_in = [event.at for event in bench.of(RequestScheduled) if event.number == head.number]
    freed = next(event.at for event in bench.of(RequestFinished) if event.id == "ends")
    assert let_in == [event.at for event in bench.of(RequestUnparked)] and let_in[0] > freed, "the batch decoded on meanwhile"
    assert not any(plan.decodes and plan.chunks for plan in bench.runner.plans)


def test_decodes_that_go_on_since_nobody_can_be_let_in_say_so_when_one_of_them_must_yield() -> None:
    bench = Bench(make_scheduler(batching="merge", blocks=8, block_size=4, max_num_seqs=2))
    bench.add(*[make_request(prompt=12, max_tokens=12) for _ in range(2)])
    bench.step()
    bench.add(make_request("waits"))
    bench.run_to_idle()
    yielding = [plan for plan in bench.runner.plans if plan.preempted]
    assert yielding and {plan.binding for plan in yielding} == {WaitReason.KV_BLOCKS}, "a slot is free now"


def test_urgent_newcomer_takes_no_more_than_the_budget_while_the_decodes_stand_still() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), batching="merge", max_num_seqs=2, max_num_batched_tokens=16))
    bench.add(*[make_request(prompt=4, max_tokens=90, priority=5) for _ in range(2)])
    for _ in range(3):
        bench.step()
    bench.add(make_request("urgent", prompt=40, priority=0))
    plan = bench.step()
    assert [(chunk.request.id, chunk.tokens) for chunk in plan.chunks] == [("urgent", 16)] and not plan.decodes
