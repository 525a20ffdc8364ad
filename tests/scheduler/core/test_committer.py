"""What a step's output does: growth, stops, ends in every state, row errors."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from builders import MS, Bench, FakeRunner, make_limits, make_request, make_scheduler

from scheduler.core.events import RequestFinished, StepCompleted
from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.policies.catalog import make
from scheduler.core.policies.fcfs import Fcfs
from scheduler.core.request import FinishReason, Request, RequestState


def ends(bench: Bench) -> dict[str, RequestFinished]:
    return {event.id: event for event in bench.of(RequestFinished)}


def output(plan: StepPlan, **fields: object) -> StepOutput:
    return StepOutput([200 + i for i in range(len(plan.sampling))], 10 * MS, **fields)  # type: ignore[arg-type]


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


def test_who_leaves_while_the_step_computes_its_prompt_gains_nothing_whatever_came_before_it() -> None:
    bench = Bench(make_scheduler())
    bench.add(make_request("stays"), make_request("leaves"), make_request("stays too"))

    def run(plan: StepPlan) -> StepOutput:
        bench.events += bench.scheduler.abort("leaves", bench.clock.now)
        return output(plan)

    bench.step(run)
    assert [row.emitted for row in bench.of(StepCompleted)[-1].slices] == [1, 0, 1]


def test_error_of_a_prefill_row_is_a_slice_that_gained_nothing() -> None:
    bench = Bench(make_scheduler())
    bench.add(make_request("bad"), make_request("good"))
    bench.step(lambda plan: output(plan, errors={0: "internal"}))
    step = bench.of(StepCompleted)[-1]
    assert [row.emitted for row in step.slices] == [0, 1] and step.step == bench.scheduler.step == 1
    assert bench.step().token_budget == step.token_budget == 64, "nothing says that it was too large"


@pytest.mark.parametrize("trouble", ["errors", "stopped"])
def test_what_befalls_the_first_prefill_row_befalls_no_decode(trouble: str) -> None:
    bench = Bench(make_scheduler())
    bench.add(make_request("decodes"))
    bench.step()
    bench.add(make_request("begins", max_tokens=9))
    bench.step(lambda plan: output(plan, **{trouble: {1: "internal"}}))
    assert list(ends(bench)) == ["begins"] and bench.scheduler.requests["decodes"].output_tokens == 2


def test_order_hears_of_every_step_and_of_who_got_a_token_in_it() -> None:
    heard: list[list[str]] = []

    class Listening(Fcfs):
        def tick(self, decodes: Sequence[Request], changed: bool) -> None:
            heard.append([request.id for request in decodes])

    bench = Bench(make_scheduler(Listening(), max_num_batched_tokens=8))
    bench.add(make_request("a", prompt=16, max_tokens=3))
    bench.run_to_idle()
    assert heard == [[], [], ["a"], ["a"]]
