"""Who gets tokens, slots and blocks in a step, and what it says of those who get none."""

from __future__ import annotations

from builders import MS, Bench, make_request, make_scheduler

from scheduler.core.events import RequestFinished, RequestScheduled, StepCompleted
from scheduler.core.policies.catalog import make
from scheduler.core.request import WaitReason


def ends(bench: Bench) -> dict[str, RequestFinished]:
    return {event.id: event for event in bench.of(RequestFinished)}


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


def test_what_was_computed_behind_a_shared_prefix_can_be_hit_behind_that_prefix_and_nowhere_else() -> None:
    bench = Bench(make_scheduler(block_size=4))
    head, tail, last = [*range(50, 58)], [*range(70, 78)], [9]
    for prompt, hit in ((head, 0), (head + tail, 8), (tail + head, 0), (head + tail, 16)):
        request = make_request(prompt=prompt + last, max_tokens=1)
        bench.add(request)
        bench.run_to_idle()
        assert request.cached_tokens == hit


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


# ---- what a step says of itself


def test_a_prompt_computed_in_pieces_can_be_hit_whole() -> None:
    bench = Bench(make_scheduler(block_size=4, max_num_batched_tokens=10))
    bench.add(make_request(prompt=range(50, 90), max_tokens=1))
    bench.run_to_idle()
    again = make_request(prompt=range(50, 90), max_tokens=1)
    bench.add(again)
    bench.step()
    assert again.cached_tokens == 36


def test_who_takes_anothers_place_computes_what_it_cannot_hit_and_no_more() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), block_size=4, max_num_seqs=1))
    bench.add(make_request(prompt=range(50, 70), max_tokens=1))
    bench.run_to_idle()
    bench.add(make_request("low", max_tokens=20, priority=5))
    bench.step()
    bench.add(make_request("urgent", prompt=range(50, 70), priority=0))
    chunk = bench.step().chunks[0]
    assert (chunk.request.id, chunk.start, chunk.tokens, len(chunk.request.blocks)) == ("urgent", 16, 4, 5)


def test_nothing_is_kept_free_before_blocks_have_ever_run_out() -> None:
    bench = Bench(make_scheduler(blocks=8, block_size=4))
    bench.add(*[make_request(prompt=16, max_tokens=9) for _ in range(2)])
    assert len(bench.step().chunks) == 2 and bench.scheduler.pool.free == 0
    bench.run_to_idle()


def test_context_of_a_step_is_all_tokens_of_its_decodes() -> None:
    bench = Bench(make_scheduler())
    bench.add(*[make_request(prompt=3 + i, max_tokens=9) for i in range(3)])
    bench.step()
    for had in range(1, 9):
        assert bench.step().context == 3 + 4 + 5 + 3 * had


def test_step_whose_tokens_are_spent_says_so_also_when_memory_is_short_too() -> None:
    bench = Bench(make_scheduler(blocks=8, block_size=4, max_num_batched_tokens=24))
    bench.add(make_request(prompt=24), make_request(prompt=12))
    assert bench.step().binding is WaitReason.TOKEN_BUDGET
    assert bench.step().binding is WaitReason.KV_BLOCKS


def test_prompt_that_the_step_cannot_hold_whole_displaces_nobody() -> None:
    limits = {"enable_chunked_prefill": False, "max_num_seqs": 2, "max_num_batched_tokens": 8}
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), **limits))
    bench.add(*[make_request(prompt=4, max_tokens=30, priority=5) for _ in range(2)])
    bench.step()
    bench.add(make_request("urgent", prompt=8, priority=0))
    plan = bench.step()
    assert not plan.preempted and not plan.chunks and len(plan.decodes) == 2


def test_prefill_that_goes_on_takes_the_last_token_that_the_decodes_leave() -> None:
    bench = Bench(make_scheduler(max_num_seqs=4, max_num_batched_tokens=4))
    bench.add(*[make_request(prompt=1, max_tokens=30) for _ in range(3)])
    bench.step()
    bench.add(make_request(prompt=6))
    for _ in range(3):
        plan = bench.step()
        assert len(plan.decodes) == 3 and [chunk.tokens for chunk in plan.chunks] == [1]


def test_once_nobody_waits_any_more_nothing_is_kept_free_for_the_running() -> None:
    bench = Bench(make_scheduler(blocks=8, block_size=4))
    bench.add(*[make_request(prompt=12, max_tokens=12) for _ in range(3)])
    bench.run_to_idle()
    assert any(plan.preempted for plan in bench.runner.plans), "memory was meant to run out"
    bench.add(*[make_request(prompt=16, max_tokens=2) for _ in range(2)])
    assert len(bench.step().chunks) == 2
    bench.run_to_idle()
