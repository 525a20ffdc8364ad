"""Who leaves before the end: aborted in any state, gone from his connection, or never let in since his id is taken.

Cases 12, 14 and 15 of the bug catalogue; the links are the public reports.
"""

from __future__ import annotations

import pytest
from builders import Bench, make_request, make_scheduler

from scheduler.core.events import RequestFinished, RequestPreempted
from scheduler.core.policies.catalog import make
from scheduler.core.request import Request, RequestState


def crowded() -> Bench:
    """One slot, one quota: somebody runs, somebody waits, somebody is parked; and whoever is urgent displaces."""
    here = Bench(make_scheduler(make("priority", {"preempt": 1}), max_num_seqs=1, tenant_max_running=1, caching=False))
    here.add(make_request("runs", tenant="ann", priority=5, max_tokens=30), make_request("waits", tenant="bob", priority=6))
    here.step()
    here.step()
    here.add(make_request("parked", tenant="ann", priority=7))
    return here


def brought_to(here: Bench, state: str) -> Request:
    if state == "preempted":
        here.add(make_request("urgent", tenant="cyd", priority=0))
        here.step()
        return here.scheduler.requests["runs"]
    return here.scheduler.requests[{"running": "runs"}.get(state, state)]


@pytest.mark.parametrize("state", ["waits", "parked", "running", "preempted"])
def test_an_abort_ends_once_and_gives_everything_back(state: str) -> None:  # 12: vllm/pull/18829, /pull/18485
    here = crowded()
    leaver = brought_to(here, state)
    assert (leaver.state is RequestState.PREEMPTED) == (state == "preempted") == bool(here.of(RequestPreempted))
    first = here.scheduler.abort(leaver.id, here.clock.now, "client_gone")
    assert [type(event) for event in first] == [RequestFinished]
    here.scheduler.check()
    assert here.scheduler.abort(leaver.id, here.clock.now, "client_gone") == []
    here.events += first
    here.run_to_idle()
    ends = [event for event in here.of(RequestFinished) if event.id == leaver.id]
    assert [(end.reason.value, end.detail) for end in ends] == [("abort", "client_gone")]
    assert here.scheduler.pool.free == here.scheduler.pool.total


def test_output_of_a_step_that_ran_when_it_left_is_ignored() -> None:  # 12
    here = crowded()
    leaver = here.scheduler.requests["runs"]
    plan = here.scheduler.schedule(here.clock.now)
    tokens = len(leaver.tokens)
    (end,) = here.scheduler.abort("runs", here.clock.now, "client_gone")
    events = here.scheduler.commit(plan, here.runner.run(plan), here.clock.tick())
    here.scheduler.check()
    assert len(leaver.tokens) == tokens and not any(isinstance(event, RequestFinished) for event in events)
    assert isinstance(end, RequestFinished) and end.output_tokens == tokens - leaver.prompt_tokens


def test_who_hung_up_frees_his_slot_and_blocks_for_the_next_step() -> None:  # 14: vllm/issues/54947
    here = crowded()
    before = here.scheduler.pool.free
    here.events += here.scheduler.abort("runs", here.clock.now, "client_gone")
    assert here.scheduler.pool.free > before and here.scheduler.running == 0
    plan = here.step()
    assert [chunk.request.id for chunk in plan.chunks] == ["waits"]
    (end,) = here.of(RequestFinished)
    assert (end.reason.value, end.detail) == ("abort", "client_gone")


@pytest.mark.parametrize("state", ["waits", "parked", "running", "preempted"])
def test_a_taken_id_is_refused_and_the_first_is_unharmed(state: str) -> None:  # 15: vllm/issues/10583, /issues/15041
    here = crowded()
    first = brought_to(here, state)
    counts = here.scheduler.waiting, here.scheduler.parked, here.scheduler.running
    (refused,) = here.add(make_request(first.id, tenant="ann"))
    assert isinstance(refused, RequestFinished) and (refused.detail, refused.number) == ("duplicate_id", 0)
    assert (here.scheduler.waiting, here.scheduler.parked, here.scheduler.running) == counts
    assert here.scheduler.requests[first.id] is first
    here.run_to_idle()
    assert [end.reason.value for end in here.of(RequestFinished) if end.id == first.id] == ["rejected", "length"]
    here.add(make_request(first.id))
    here.run_to_idle()
    assert [end.reason.value for end in here.of(RequestFinished) if end.id == first.id][-1] == "length"


# ---- what it held of its tenant's quota


def test_who_left_while_it_was_parked_holds_no_place_of_its_tenant() -> None:
    here = Bench(make_scheduler(tenant_max_running=2))
    for name, tokens in (("ends", 3), ("stays", 40), ("leaves", 3), ("next", 3)):
        here.add(make_request(name, tenant="ann", max_tokens=tokens))
    here.step()
    here.events += here.scheduler.abort("leaves", here.clock.now)
    while "ends" in here.scheduler.requests:
        here.step()
    assert [chunk.request.id for chunk in here.step().chunks] == ["next"]


def test_who_left_while_it_was_parked_lets_those_behind_it_pass() -> None:
    here = Bench(make_scheduler(tenant_max_tokens=30))
    for name, prompt in (("runs", 8), ("large", 40), ("small", 2)):
        here.add(make_request(name, tenant="ann", prompt=prompt, max_tokens=8))
    here.step()
    assert here.scheduler.parked == 2
    here.events += here.scheduler.abort("large", here.clock.now)
    here.scheduler.check()
    assert [chunk.request.id for chunk in here.step().chunks] == ["small"]


def test_who_left_while_it_was_preempted_claims_nothing_any_more() -> None:
    here = crowded()
    leaver = brought_to(here, "preempted")
    assert leaver.state is RequestState.PREEMPTED
    here.events += here.scheduler.abort(leaver.id, here.clock.now)
    here.run_to_idle()
    assert [end.reason.value for end in here.of(RequestFinished) if end.id == "parked"] == ["length"]
