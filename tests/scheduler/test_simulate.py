"""A simulation: what a run is and where it stops, and that nothing of the host is in it."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import replace
from itertools import repeat
from typing import Any

import pytest
from builders import make_limits

from scheduler.core.events import EngineStarted, Event, RequestFinished, StepCompleted
from scheduler.core.request import FinishReason
from scheduler.errors import SettingsError
from scheduler.runners import cost_model
from scheduler.runners.cost_model import CALIBRATED
from scheduler.simulate import Ask, Progress, Requests, Simulation, Source, Trace, Users, on_hardware, settings_on

COST = cost_model.load(cost_model.DEFAULT_HARDWARE)
SECOND = 1_000_000_000
ASKS = [Ask(n * SECOND // 50, 40 + 30 * (n % 7), 3 + n % 11, tenant="ab"[n % 2]) for n in range(60)]


def simulation(source: Source, events: list[Event], **changes: Any) -> Simulation:
    return on_hardware(COST, settings_on(COST, changes), source, events.extend)


def run(asks: Iterable[Ask], **changes: Any) -> list[Event]:
    events: list[Event] = []
    simulation(Trace(Requests("run").all_of(asks)), events, **changes).run()
    return events


def ends(events: list[Event]) -> list[RequestFinished]:
    return [event for event in events if isinstance(event, RequestFinished)]


def test_equal_runs_are_equal_to_the_event() -> None:
    assert run(ASKS) == run(ASKS)


def test_a_step_takes_what_the_cost_model_says_and_no_more() -> None:
    steps = [event for event in run([Ask(0, 100, 5)]) if isinstance(event, StepCompleted)]
    shapes = [cost_model.StepShape(0, 0, ((100, 0),), 1)] + [cost_model.StepShape(1, 101 + n, (), 0) for n in range(4)]
    assert [step.ended_at - step.started_at for step in steps] == [round(COST.step_ms(shape) * 1e6) for shape in shapes]
    assert [step.started_at for step in steps[1:]] == [step.ended_at for step in steps[:-1]], "no time between steps"


def test_a_trace_comes_when_it_comes_and_everybody_ends() -> None:
    events = run(ASKS, max_num_seqs=2)
    assert len(ends(events)) == len(ASKS)
    assert {event.reason for event in ends(events)} == {FinishReason.LENGTH}
    assert [event.output_tokens for event in sorted(ends(events), key=lambda event: event.number)] == [
        ask.output_tokens for ask in ASKS
    ]


def test_the_clock_jumps_over_the_time_in_which_nobody_is_there() -> None:
    events = run([Ask(0, 8, 1), Ask(86_400 * SECOND, 8, 1)])
    assert sum(isinstance(event, StepCompleted) for event in events) == 2
    assert events[-1].at > 86_400 * SECOND


def test_users_keep_as_many_in_flight_as_there_are() -> None:
    events: list[Event] = []
    source = Users(repeat(Ask(0, 50, 20)), Requests("run"), 3, spawn_rate=1e6, think_s=0, start=0, stop=2 * SECOND)
    simulation(source, events).run()
    assert max(event.running for event in events if isinstance(event, StepCompleted)) == 3
    assert len(ends(events)) > 30 and ends(events)[-1].at >= 2 * SECOND


def test_a_user_whom_a_full_queue_turns_away_does_not_stop_the_clock() -> None:
    events: list[Event] = []
    source = Users(repeat(Ask(0, 50, 200)), Requests("run"), 4, spawn_rate=1e6, think_s=0, start=0, stop=2 * SECOND)
    simulation(source, events, max_num_seqs=1, max_num_queued_reqs=1).run()
    refused = [event for event in ends(events) if event.reason is FinishReason.REJECTED]
    assert 2 <= len(refused) <= 2 * 4 * 4


def test_until_ends_it_and_who_is_left_can_be_ended() -> None:
    events: list[Event] = []
    made = simulation(Trace(Requests("run").all_of(ASKS)), events)
    progress = made.run(until=SECOND // 4)
    assert SECOND // 4 <= progress.now < SECOND // 2 and 0 < progress.finished < len(ASKS)
    assert not made.scheduler.idle
    made.abort("client_gone")
    assert made.scheduler.idle
    assert [event.detail for event in ends(events) if event.reason is FinishReason.ABORT]


def test_who_watches_may_stop_it() -> None:
    seen: list[Progress] = []

    def watch(progress: Progress) -> bool:
        seen.append(progress)
        return len(seen) < 3

    assert simulation(Trace(Requests("run").all_of(ASKS)), []).run(on_progress=watch, every=5).steps == 15
    assert [progress.steps for progress in seen] == [5, 10, 15]


def test_for_records_it_begins_like_any_life_of_an_engine() -> None:
    events: list[Event] = []
    made = simulation(Trace(iter(())), events)
    made.begin("h", "m")
    (started,) = events
    assert isinstance(started, EngineStarted) and (started.runner, started.hardware, started.model) == ("simulated", "h", "m")
    assert (started.wall, started.mono, started.blocks_total) == (0, 0, COST.kv_capacity_tokens // started.block_size)


def test_settings_are_an_accelerators_with_the_memory_of_the_hardware() -> None:
    settings = settings_on(COST, {"policy": "sjf"})
    assert (settings.kv_cache_tokens, settings.max_num_seqs, settings.policy) == (COST.kv_capacity_tokens, 256, "sjf")


def test_no_more_memory_is_simulated_than_the_hardware_holds() -> None:
    most = COST.kv_capacity_tokens
    assert settings_on(COST, {"kv_cache_tokens": most}).kv_cache_tokens == most
    with pytest.raises(SettingsError, match=f"^kv_cache_tokens is over the {most} that fit$") as caught:
        settings_on(COST, {"kv_cache_tokens": most + 16})
    assert caught.value.param == "kv_cache_tokens"
    fitted = replace(COST, id=f"{CALIBRATED}run_1")
    assert settings_on(fitted, {"kv_cache_tokens": most + 16}).kv_cache_tokens == most + 16, "its machine may hold more"


def test_without_memory_there_is_no_simulation() -> None:
    with pytest.raises(SettingsError, match="kv_cache_tokens"):
        on_hardware(COST, make_limits(kv_cache_tokens=0), Trace(iter(())), lambda events: None)


def test_the_cycle_collector_is_as_it_was() -> None:
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        simulation(Trace(Requests("run").all_of(ASKS)), []).run(on_progress=lambda progress: bool(1 / 0), every=1)
    assert gc.isenabled()
