"""The scheduler's behaviours, one by one: what the field's issue trackers report as broken elsewhere, and our own law."""

from __future__ import annotations

import pytest
from builders import MS, Bench, FakeClock, FakeRunner, make_limits, make_request, make_scheduler, run_to_idle
from event_log import EventLog

from scheduler.core.events import RequestFinished, RequestQueued, RequestScheduled, SettingsChanged, StepCompleted
from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.policies.catalog import make
from scheduler.core.request import FinishReason, RequestState, WaitReason


def ends(bench: Bench) -> dict[str, RequestFinished]:
    return {event.id: event for event in bench.of(RequestFinished)}


def output(plan: StepPlan, **fields: object) -> StepOutput:
    return StepOutput([200 + i for i in range(len(plan.sampling))], 10 * MS, **fields)  # type: ignore[arg-type]


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


# ---- growth and its end


def test_request_that_would_outgrow_the_pool_ends_by_length_with_what_fits() -> None:
    bench = Bench(make_scheduler(blocks=8, block_size=4))
    bench.add(make_request("alone", prompt=20, max_tokens=500))
    bench.run_to_idle(most=50)
    end = ends(bench)["alone"]
    assert (end.reason, end.detail, end.preemptions) == (FinishReason.LENGTH, "kv_capacity", 0)
    assert end.output_tokens == 8 * 4 + 1 - 20  # 32 computed positions, and one token that nothing is computed from
    assert bench.scheduler.pool.free == 8


def test_request_ends_at_max_model_len() -> None:
    bench = Bench(make_scheduler(max_model_len=24))
    bench.add(make_request("long", prompt=20, max_tokens=500))
    bench.run_to_idle(most=50)
    assert (ends(bench)["long"].output_tokens, ends(bench)["long"].detail) == (4, "context_length")


def test_stop_id_ends_a_request_after_min_tokens_only() -> None:
    bench = Bench(make_scheduler(), runner=FakeRunner(token=lambda request: 7))
    bench.add(
        make_request("now", max_tokens=9, stop_token_ids=(7,)),
        make_request("later", max_tokens=9, stop_token_ids=(7,), min_tokens=3),
        make_request("never", max_tokens=9),
    )
    bench.run_to_idle()
    got = {id: (end.reason.value, end.output_tokens) for id, end in ends(bench).items()}
    assert got == {"now": ("stop", 1), "later": ("stop", 3), "never": ("length", 9)}


def test_stop_string_that_the_text_stage_reports_ends_the_request_in_its_own_step() -> None:
    bench = Bench(make_scheduler())
    bench.add(make_request("a", max_tokens=9), make_request("b", max_tokens=9, min_tokens=5))
    bench.step()
    bench.step(lambda plan: output(plan, stopped={0: "END", 1: "END"}))
    assert (ends(bench)["a"].reason, ends(bench)["a"].output_tokens) == (FinishReason.STOP, 2)
    assert "b" not in ends(bench)


# ---- the end in every state


def test_abort_while_waiting_running_and_preempted_gives_everything_back_once() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), blocks=30, max_num_seqs=2))
    bench.add(*[make_request(id, prompt=10, max_tokens=40, priority=5) for id in ("run", "pre", "wait")])
    bench.step()
    bench.add(make_request("urgent", prompt=4, max_tokens=40, priority=0))
    bench.step()
    states = {id: request.state for id, request in bench.scheduler.requests.items()}
    assert states["pre"] is RequestState.PREEMPTED and states["wait"] is RequestState.WAITING
    for id in ("run", "pre", "wait", "urgent"):
        bench.events += bench.scheduler.abort(id, bench.clock.tick(), "client_gone")
        bench.scheduler.check()
        assert bench.scheduler.abort(id, bench.clock.now) == []
    assert bench.scheduler.idle and bench.scheduler.pool.free == 30
    assert {(end.reason, end.detail) for end in bench.of(RequestFinished)} == {(FinishReason.ABORT, "client_gone")}


def test_request_that_is_aborted_during_a_step_takes_nothing_from_it() -> None:
    bench = Bench(make_scheduler())
    gone, stays = make_request("gone", max_tokens=9), make_request("stays", max_tokens=9)
    bench.add(gone, stays)
    bench.step()

    def leave(plan: StepPlan) -> StepOutput:
        bench.events += bench.scheduler.abort("gone", bench.clock.tick())
        return output(plan)

    bench.step(leave)
    assert gone.output_tokens == 1 and stays.output_tokens == 2
    assert bench.of(StepCompleted)[-1].failed == (gone.number,)


def test_time_out_ends_a_request_in_every_state() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), max_num_seqs=2))
    low = {"prompt": 10, "max_tokens": 400, "priority": 5, "timeout_at": 500 * MS}
    bench.add(make_request("run", **low), make_request("pre", **low), make_request("wait", **low))
    bench.step()
    bench.add(make_request("urgent", prompt=4, max_tokens=4, priority=0))
    bench.run_to_idle()
    assert {id: end.reason.value for id, end in ends(bench).items()} == {
        "run": "timeout", "pre": "timeout", "wait": "timeout", "urgent": "length",
    }  # fmt: skip
    assert all(end.at >= 500 * MS for id, end in ends(bench).items() if id != "urgent")


def test_row_error_ends_that_request_alone_and_publishes_none_of_its_blocks() -> None:
    bench = Bench(make_scheduler(block_size=4))
    bad, good = make_request("bad", prompt=range(8), max_tokens=9), make_request("good", prompt=8, max_tokens=3)
    bench.add(bad, good)
    bench.step(lambda plan: output(plan, errors={0: "nan_logits"}))
    assert (ends(bench)["bad"].reason, ends(bench)["bad"].detail) == (FinishReason.ERROR, "nan_logits")
    again = make_request("again", prompt=range(8), max_tokens=2)
    bench.add(again)
    bench.run_to_idle()
    assert again.cached_tokens == 0 and ends(bench)["good"].reason is FinishReason.LENGTH


def test_error_of_a_decode_row_ends_it_without_a_token() -> None:
    bench = Bench(make_scheduler())
    bench.add(make_request("bad", max_tokens=9), make_request("good", max_tokens=9))
    bench.step()
    bench.step(lambda plan: output(plan, errors={0: "internal"}))
    step = bench.of(StepCompleted)[-1]
    assert ends(bench)["bad"].output_tokens == 1
    assert [row.emitted for row in step.slices] == [0, 1]


def test_oom_halves_the_budget_until_limits_are_set_anew() -> None:
    bench = Bench(make_scheduler(max_num_batched_tokens=64))
    bench.add(make_request("big", prompt=60), make_request("next", prompt=60))
    bench.step(lambda plan: output(plan, errors={0: "oom"}))
    bench.step()
    assert bench.of(StepCompleted)[-1].token_budget == 32
    bench.scheduler.set_limits(make_limits(), bench.clock.now)
    bench.step()
    assert bench.of(StepCompleted)[-1].token_budget == 64


# ---- who gets tokens


def test_short_prompt_is_not_held_back_by_a_long_prefill_under_the_threshold() -> None:
    bench = Bench(make_scheduler(blocks=2000, max_num_batched_tokens=256, long_prefill_token_threshold=64, max_model_len=8192))
    talker = make_request("talker", prompt=4, max_tokens=100)
    bench.add(talker)
    bench.step()
    bench.add(make_request("long", prompt=3584), make_request("short", prompt=16))
    before = talker.output_tokens
    plan = bench.step()
    assert [(chunk.request.id, chunk.tokens) for chunk in plan.chunks] == [("long", 64), ("short", 16)]
    for _ in range(5):
        bench.step()
    assert talker.output_tokens == before + 6, "a decode gets one token in every step"


def test_prompt_goes_whole_or_not_at_all_without_chunked_prefill() -> None:
    bench = Bench(make_scheduler(max_num_batched_tokens=20, enable_chunked_prefill=False))
    bench.add(make_request("a", prompt=12), make_request("b", prompt=12))
    plan = bench.step()
    assert [(chunk.request.id, chunk.tokens, chunk.last) for chunk in plan.chunks] == [("a", 12, True)]
    assert plan.binding is WaitReason.TOKEN_BUDGET
    assert [chunk.tokens for chunk in bench.step().chunks] == [12]


def test_prompt_larger_than_the_whole_budget_is_served_in_pieces_without_chunked_prefill() -> None:
    bench = Bench(make_scheduler(max_num_batched_tokens=20, enable_chunked_prefill=False))
    bench.add(make_request("small", prompt=5, max_tokens=9), make_request("big", prompt=50, max_tokens=2))
    pieces = [[(chunk.request.id, chunk.tokens) for chunk in bench.step().chunks] for _ in range(5)]
    assert pieces == [[("small", 5)], [("big", 19)], [("big", 19)], [("big", 12)], []]


def test_head_that_does_not_fit_blocks_those_behind_it_as_fcfs_says() -> None:
    bench = Bench(make_scheduler(blocks=20, block_size=4))
    bench.add(make_request("holds", prompt=32, max_tokens=20))
    bench.step()
    bench.add(make_request("head", prompt=60, max_tokens=2), make_request("tiny", prompt=4, max_tokens=2))
    plan = bench.step()
    assert plan.binding is WaitReason.KV_BLOCKS and plan.waiting_by_reason[WaitReason.KV_BLOCKS] == 2
    bench.run_to_idle()
    starts = [event.number for event in bench.of(RequestScheduled)]
    assert starts == sorted(starts)
    assert ends(bench)["tiny"].parts.waits[WaitReason.KV_BLOCKS] > 0


def test_idle_engine_admits_whatever_fits_the_pool_despite_the_watermark() -> None:
    bench = Bench(make_scheduler(blocks=10, block_size=4, watermark=0.5))
    bench.add(make_request("whole", prompt=40, max_tokens=1), make_request("after", prompt=4, max_tokens=1))
    plan = bench.step()
    assert [chunk.request.id for chunk in plan.chunks] == ["whole"] and plan.binding is WaitReason.KV_BLOCKS
    bench.run_to_idle()


def test_watermark_keeps_blocks_free_at_admission() -> None:
    bench = Bench(make_scheduler(blocks=10, block_size=4, watermark=0.5))
    bench.add(*[make_request(prompt=8, max_tokens=1) for _ in range(4)])
    assert len(bench.step().chunks) == 2
    assert bench.of(StepCompleted)[-1].binding is WaitReason.KV_BLOCKS


def test_each_step_names_what_bound_admission() -> None:
    bench = Bench(make_scheduler(max_num_seqs=2, max_num_batched_tokens=16))
    bench.add(make_request(prompt=20, max_tokens=3), make_request(prompt=4, max_tokens=3), make_request(prompt=4, max_tokens=3))
    assert [bench.step().binding.name for _ in range(2)] == ["TOKEN_BUDGET", "SLOTS"]
    bench.run_to_idle()
    assert bench.of(StepCompleted)[-1].binding is WaitReason.STEP


def test_running_request_holds_the_lowest_free_slot_and_keeps_it() -> None:
    bench = Bench(make_scheduler(max_num_seqs=3))
    first, second, third = (make_request(max_tokens=n) for n in (9, 2, 9))
    bench.add(first, second, third)
    bench.step()
    assert [request.slot for request in (first, second, third)] == [0, 1, 2]
    bench.step()
    late = make_request(max_tokens=2)
    bench.add(late)
    bench.step()
    assert [request.slot for request in (first, second, third, late)] == [0, -1, 2, 1]


# ---- prefix cache


def test_shared_prefix_is_computed_once_and_only_after_it_was_committed() -> None:
    bench = Bench(make_scheduler(block_size=4))
    prompt = list(range(50, 70))
    first, beside, after = (make_request(id, prompt=prompt, max_tokens=6) for id in "abc")
    bench.add(first, beside)
    bench.step()
    assert beside.cached_tokens == 0, "nothing is shared within the step that computes it"
    bench.add(after)
    bench.step()
    assert after.cached_tokens == 16, "the last block is computed again: its last token gives the next one"
    assert after.blocks[:4] == first.blocks[:4]


def test_answer_of_a_finished_request_is_a_prefix_for_the_next_turn() -> None:
    bench = Bench(make_scheduler(block_size=4))
    first = make_request(prompt=range(50, 58), max_tokens=9)
    bench.add(first)
    bench.run_to_idle()
    second = make_request(prompt=list(first.tokens) + [1, 2, 3], max_tokens=1)
    bench.add(second)
    bench.step()
    assert second.cached_tokens == 16  # 8 prompt tokens and 8 computed output tokens


def test_without_caching_nothing_is_shared() -> None:
    bench = Bench(make_scheduler(block_size=4, caching=False))
    for id in "ab":
        bench.add(make_request(id, prompt=range(50, 70)))
        bench.run_to_idle()
    assert [event.cached_tokens for event in bench.of(RequestScheduled)] == [0, 0]


# ---- static batching


def test_nobody_joins_an_open_static_batch() -> None:
    bench = Bench(make_scheduler(batching="static", max_num_seqs=2))
    bench.add(*[make_request(id, max_tokens=n) for id, n in (("a", 2), ("b", 5), ("c", 2))])
    plans = [bench.step() for _ in range(6)]
    assert [plan.binding.name for plan in plans] == ["SLOTS", *["STATIC_BATCH"] * 4, "STEP"]
    assert [len(plan.chunks) for plan in plans] == [2, 0, 0, 0, 0, 1]
    assert ends(bench)["a"].at < bench.of(RequestScheduled)[-1].at
    bench.run_to_idle()
    assert ends(bench)["c"].parts.waits[WaitReason.STATIC_BATCH] == 40 * MS


def test_static_batch_takes_whole_prompts_within_the_budget() -> None:
    bench = Bench(make_scheduler(batching="static", max_num_batched_tokens=20))
    bench.add(*[make_request(id, prompt=9, max_tokens=1) for id in "abc"])
    assert [[chunk.request.id for chunk in bench.step().chunks] for _ in range(2)] == [["a", "b"], ["c"]]


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


# ---- time


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
