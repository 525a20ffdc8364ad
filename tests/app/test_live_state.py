"""LiveState: a fold of events that every reader sees alike."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from browser.live_script import MS, ScriptedEngine

from app import live_bars, live_figures
from app.live_state import LiveState
from scheduler.core import events as ev
from scheduler.core.holders import Blockers, Holding
from scheduler.core.request import NO_WAITS, FinishReason, WaitReason


class Clock:
    """A clock that stands until told."""

    def __init__(self) -> None:
        self.at = 0

    def __call__(self) -> int:
        return self.at


def busy(requests: int = 40, steps: int = 60, **sizes: int) -> tuple[LiveState, ScriptedEngine, list[ev.Event]]:
    """A state after `steps` steps of an overloaded engine, the engine, and its events."""
    engine = ScriptedEngine(**sizes)
    log: list[ev.Event] = [engine.begin()]
    for index in range(requests):
        log.append(
            engine.submit(f"req_{index}", prompt=80 + index % 5 * 40, output=20 + index % 30 * 3, tenant="ab"[index % 2])
        )
    for _ in range(steps):
        log += engine.step()
    clock = Clock()
    clock.at = engine.now
    state = LiveState(clock)
    state.engine_status("up")
    for event in log:
        state.apply(event)
    return state, engine, log


def test_gauges_agree_with_the_engine() -> None:
    state, engine, _ = busy(steps=15)
    gauges = state.gauges()
    assert gauges["waiting"] == len(engine.waiting) > 0
    assert gauges["running"] == len(engine.running) > 0
    assert gauges["preempted"] == len(engine.preempted)
    assert gauges["blocks_total"] - gauges["blocks_free"] == engine.used
    assert sum(gauges["waiting_by_reason"].values()) == gauges["waiting"]
    assert set(gauges["waiting_by_reason"]) == {reason.name.lower() for reason in WaitReason}


def test_a_held_engine_makes_no_tokens_whoever_waits() -> None:
    state, _, _ = busy(steps=15)
    assert (state.gauges()["output_tok_s"] or 0) > 0
    state.engine_status("paused")
    gauges = state.gauges()
    assert gauges["waiting"] > 0
    assert (gauges["output_tok_s"], gauges["prefill_tok_s"]) == (0.0, 0.0)


def test_two_readers_at_one_seq_see_the_same_whatever_the_clock_says_but_for_latencies_that_are_too_old() -> None:
    state, _, _ = busy(requests=8, steps=400)
    assert state.fold.idle
    first = state.snapshot()
    state._now.at += 60_000 * MS  # type: ignore[attr-defined]
    later = state.snapshot()
    assert json.dumps(later | {"gauges": {}}) == json.dumps(first | {"gauges": {}})
    other = {name for name, value in later["gauges"].items() if value != first["gauges"][name]}
    assert other and all(name.startswith(("ttft_", "itl_")) for name in other)
    assert state.gauges()["output_tok_s"] == 0.0


@pytest.mark.parametrize("status", ["up", "paused", "down"])
def test_latencies_run_out_by_time_also_when_nothing_happens(status: str) -> None:
    state, engine, _ = busy(requests=8, steps=400)
    state.engine_status(status)
    clock: Clock = state._now  # type: ignore[assignment]
    seen = list[int]()
    for second in range(40):
        clock.at = engine.now + second * 1_000 * MS
        seen.append(state.gauges()["itl_n"])
    assert seen[0] > 0 == seen[30] and seen == sorted(seen, reverse=True)
    assert (len(set(seen[:30])) == 1) == (status != "down"), "at rest they stand, and then are gone as one"
    gauges = state.gauges()
    assert gauges["ttft_n"] == 0 and gauges["ttft_p95_ms"] is None and gauges["itl_p50_ms"] is None


def test_each_step_carries_the_slots_in_force_when_it_ran() -> None:
    state, engine, _ = busy(steps=3)
    state.apply(ev.SettingsChanged(*engine.key(), 2, (("max_num_seqs", 4),)))
    for event in engine.step():
        state.apply(event)
    assert state.snapshot()["steps"]["slots"] == [16, 16, 16, 4]
    frame = state.frame(0)
    assert frame is not None and frame["steps"]["slots"] == [16, 16, 16, 4]


def test_itl_percentiles_are_those_of_every_gap_between_tokens() -> None:
    state, _, log = busy(blocks=60, steps=400)
    last: dict[int, int] = {}
    gaps: list[float] = []
    for event in log:
        if isinstance(event, ev.StepCompleted):
            for row in event.slices:
                if row.emitted:
                    if row.request in last:
                        gaps.append((event.ended_at - last[row.request]) / MS)
                    last[row.request] = event.ended_at
    assert any(isinstance(event, ev.RequestPreempted) for event in log)
    gauges = state.gauges()
    assert gauges["itl_n"] == len(gaps)
    assert gauges["itl_p50_ms"] == pytest.approx(_quantile(gaps, 0.5))
    assert gauges["itl_p95_ms"] == pytest.approx(_quantile(gaps, 0.95))
    assert gauges["itl_p99_ms"] == pytest.approx(_quantile(gaps, 0.99))


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    rank = share * (len(ordered) - 1)
    low = int(rank)
    return ordered[low] + (rank - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def test_latencies_older_than_30_s_do_not_count() -> None:
    samples = live_figures.Samples()
    samples.add(0, 5 * MS)
    samples.add(20_000 * MS, 9 * MS, 3)
    assert tuple(samples.gauges("itl", 20_000 * MS).values()) == (9.0, 9.0, 9.0, 4)
    assert tuple(samples.gauges("itl", 30_000 * MS).values()) == (9.0, 9.0, 9.0, 3)
    assert tuple(samples.gauges("itl", 60_000 * MS).values()) == (None, None, None, 0)


def test_output_rate_is_tokens_over_the_last_two_seconds_of_steps() -> None:
    ring = live_figures.StepRing()
    assert ring.rates() == (None, None)
    for index in range(40):
        began = index * 100 * MS
        ring.append(live_figures.Step(index + 1, index + 1, began, began + 100 * MS, 7, 4, 4, 64, "step", (), 4, 9, 0))
    output, prefill = ring.rates()
    assert output == pytest.approx(40.0) and prefill == pytest.approx(70.0)
    assert ring.budget_used() == pytest.approx(11 / 64)


def test_undefined_is_none_never_zero() -> None:
    state = LiveState(Clock())
    state.engine_status("up")
    gauges = state.gauges()
    for name in ("output_tok_s", "step_ms_p50", "budget_used", "ttft_p95_ms", "itl_p50_ms", "observe_us_step", "binding"):
        assert gauges[name] is None, name


def rebuild(snapshot: dict[str, Any], frames: list[dict[str, Any]]) -> dict[str, Any]:
    """What a page holds after a snapshot and frames: its steps, and its bars by (number, t0)."""
    steps = {name: list(column) for name, column in snapshot["steps"].items() if name != "by_reason"}
    bars = _bars(snapshot["segments"])
    at = snapshot["seq"]
    for frame in frames:
        assert frame["from"] == at
        at = frame["to"]
        for name, column in steps.items():
            column += frame["steps"][name]
        bars |= _bars(frame["changes"])
    return {"seq": at, "steps": steps, "bars": bars}


def _bars(table: dict[str, list[Any]]) -> dict[tuple[int, float], tuple[Any, ...]]:
    rows = zip(*table.values(), strict=True)
    return {(row[1], row[4]): row for row in rows}


@pytest.mark.parametrize("every", [1, 7, 50])
def test_a_snapshot_and_any_frames_after_it_are_the_later_snapshot(every: int) -> None:
    engine, clock = ScriptedEngine(blocks=60, start=5), Clock()
    state = LiveState(clock)
    state.apply(engine.begin())
    first, frames, last = state.snapshot(), [], state.seq
    for index in range(120):
        if index < 40:
            state.apply(engine.submit(f"r{index}", prompt=60 + index, output=60))
        for event in engine.step():
            clock.at = engine.now
            state.apply(event)
        if index % every == 0:
            frame = state.frame(last)
            assert frame is not None
            frames.append(json.loads(json.dumps(frame)))
            last = frame["to"]
    frames.append(state.frame(last) or {})
    now = state.snapshot()
    page = rebuild(first, frames)
    assert page["seq"] == now["seq"]
    assert page["bars"] == _bars(now["segments"])
    assert page["steps"] == {name: column for name, column in now["steps"].items() if name != "by_reason"}


def test_the_bars_of_a_request_join_without_a_gap_and_end_with_its_reason() -> None:
    state, _, log = busy(requests=30, steps=900, blocks=60)
    bars = state.snapshot()["segments"]
    rows: dict[int, list[tuple[float, float | None, str, str | None]]] = {}
    for number, phase, t0, t1, reason in zip(*(bars[name] for name in ("number", "phase", "t0", "t1", "reason")), strict=True):
        rows.setdefault(number, []).append((t0, t1, phase, reason))
    assert len(rows) == 30
    phases = set()
    for parts in rows.values():
        parts.sort()
        phases |= {part[2] for part in parts}
        assert parts[0][2] == "queued" and parts[-1][3] == "length"
        for before, after in zip(parts, parts[1:], strict=False):
            assert before[1] == after[0] and before[3] is None
    assert phases == {"queued", "prefill", "decode", "preempted"}
    assert sum(isinstance(event, ev.RequestFinished) for event in log) == 30


def test_steps_carry_the_reasons_that_occur_and_no_others() -> None:
    state, _, _ = busy(steps=20)
    steps = state.snapshot()["steps"]
    assert set(steps["by_reason"]) <= {"slots", "kv_blocks", "token_budget"} and steps["by_reason"]
    for index, waiting in enumerate(steps["waiting"]):
        assert sum(column[index] for column in steps["by_reason"].values()) == waiting


def test_waiting_now_names_the_binding_the_cause_or_the_step() -> None:
    state, engine, _ = busy(steps=12)
    binding = state.gauges()["binding"]
    assert {row["reason"] for row in state.snapshot()["waiting_now"]} == {binding}
    engine.now += MS
    late = engine.submit("late")
    state.apply(late)
    parked = state.snapshot()["waiting_now"][0]["number"]
    state.apply(ev.RequestParked(*engine.key(), parked, WaitReason.QUOTA))
    shown = state.snapshot()
    assert shown["waiting_now"][0]["reason"] == "quota"
    counts = shown["gauges"]["waiting_by_reason"]
    assert counts["step"] == 1 and counts["quota"] == 1 and counts[binding] == shown["gauges"]["waiting"] - 2
    state.apply(ev.RequestUnparked(*engine.key(), parked))
    assert state.gauges()["waiting_by_reason"]["quota"] == 0


def test_who_holds_what_stands_beside_those_who_wait_for_it() -> None:
    state, engine, log = busy(steps=12)
    last = [event for event in log if isinstance(event, ev.StepCompleted)][-1]
    common = Blockers(16, (Holding("a", 9), Holding("b", 4)), 3)
    state.apply(replace(last, seq=engine.key()[1], blockers=common))
    rows = state.snapshot()["waiting_now"]
    assert {row["reason"] for row in rows} == {last.binding.name.lower()}
    assert all(row["blockers"] == common.named(last.binding) for row in rows)
    own = Blockers(2, (Holding("a", 2),), needed=40)
    state.apply(ev.RequestParked(*engine.key(), rows[0]["number"], WaitReason.QUOTA, own))
    assert state.snapshot()["waiting_now"][0]["blockers"] == own.named(WaitReason.QUOTA)
    assert all("beneath" not in row for row in state.snapshot()["waiting_now"])
    state.engine_status("paused")
    held = state.snapshot()["waiting_now"]
    assert all(row["blockers"] is None for row in held)
    assert held[0]["beneath"] == {"reason": "quota", "blockers": own.named(WaitReason.QUOTA)}
    assert all(row["beneath"]["blockers"] == common.named(last.binding) for row in held[1:])


def test_while_held_or_down_everybody_waits_for_that() -> None:
    state, _, _ = busy(steps=10)
    for status, reason in (("paused", "paused"), ("down", "engine_down")):
        state.engine_status(status, "why")
        gauges = state.gauges()
        assert gauges["binding"] == reason and gauges["waiting_by_reason"][reason] == gauges["waiting"] > 0
    assert {row["reason"] for row in state.snapshot()["waiting_now"]} == {"engine_down"}


def test_a_request_refused_or_ended_while_waiting_leaves_nothing_behind() -> None:
    state, engine, _ = busy(requests=2, steps=0)
    parts = ev.Parts(NO_WAITS, 0, 0, 0, 0)
    state.apply(ev.RequestParked(*engine.key(), 2, WaitReason.QUOTA))
    for number, name in ((2, "req_0"), (3, "req_1"), (0, "never")):
        state.apply(ev.RequestFinished(*engine.key(), number, name, -1, FinishReason.ABORT, "operator", 1, 0, 0, 0, parts))
    gauges = state.gauges()
    assert state.fold.idle and gauges["waiting"] == 0 and gauges["finished"] == 3
    assert sum(gauges["waiting_by_reason"].values()) == 0


def test_events_of_a_dead_engine_are_ignored_and_a_new_life_begins_anew() -> None:
    state, _, _ = busy(steps=10)
    young = ScriptedEngine(boot=2, start=10_000 * MS)
    state.apply(young.begin())
    assert (state.boot, state.seq) == (2, 1)
    assert state.snapshot()["segments"]["id"] == [] and state.gauges()["waiting"] == 0
    before = state.revision
    state.apply(ScriptedEngine(boot=1).submit("ghost"))
    assert state.revision == before
    assert state.snapshot()["markers"][0]["kind"] == "engine"


def test_a_change_of_settings_reaches_server_and_markers() -> None:
    state, engine, _ = busy(steps=3)
    state.apply(ev.SettingsChanged(*engine.key(), 2, (("max_num_seqs", 4),)))
    assert state.server["max_num_seqs"] == state.gauges()["max_num_seqs"] == 4
    assert state.server["settings"]["max_num_batched_tokens"] == 256 and state.server["settings_version"] == 2
    assert state.snapshot()["markers"][-1]["text"] == "max_num_seqs 16 → 4"


def test_a_marker_says_settings_as_the_pages_do() -> None:
    state, engine, _ = busy(steps=3)
    first = (("enable_chunked_prefill", True), ("ttft_slo_ms", None), ("policy_params", {}))
    state.apply(ev.SettingsChanged(*engine.key(), 2, first))
    second = (("enable_chunked_prefill", False), ("ttft_slo_ms", 9.5), ("policy_params", {"weight.a": 2}))
    state.apply(ev.SettingsChanged(*engine.key(), 3, second))
    said = "enable_chunked_prefill true → false, ttft_slo_ms — → 9.5, policy_params — → weight.a=2"
    assert state.snapshot()["markers"][-1]["text"] == said


def test_a_run_leaves_a_marker_at_its_start_and_its_end() -> None:
    state, _, _ = busy(steps=3)
    run = {"id": "run_1", "scenario": "first_look", "name": None, "status": "pending"}
    for status in ("pending", "running", "running", "draining", "finished"):
        state.run_changed(run | {"status": status})
    state.run_changed(None)
    assert [mark["kind"] for mark in state.snapshot()["markers"]] == ["run_start", "run_end"]


def test_a_change_of_rate_is_marked_once_at_its_own_instant() -> None:
    state, engine, _ = busy(steps=3)
    run = {"id": "run_1", "scenario": "poisson", "name": None, "status": "running", "elapsed_s": 31.5, "rate_changes": []}
    state.run_changed(run)
    changed = run | {"rate_changes": [{"at_s": 31.4, "factor": 2.0}]}
    for told in (changed, changed | {"elapsed_s": 32.0}, changed | {"status": "finished"}):
        state.run_changed(told)
    start, rate, _ = state.snapshot()["markers"]
    assert (rate["kind"], rate["text"]) == ("rate", "rate × 2")
    assert rate["t"] == pytest.approx(start["t"] - 100)
    state.run_changed(run | {"id": "run_2", "rate_changes": None})
    assert [mark["kind"] for mark in state.snapshot()["markers"]] == ["run_start", "rate", "run_end", "run_start"]


def test_what_the_rings_no_longer_hold_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_figures, "RING", 10)
    state, _, _ = busy(steps=40)
    assert state.frame(1) is None
    assert state.frame(state.seq + 1) is None
    assert state.frame(state.seq) is not None
    monkeypatch.setattr(live_bars, "MAX_CHANGES", 5)
    state, _, _ = busy(steps=5)
    assert state.frame(2) is None


def test_bars_that_ended_over_a_minute_ago_are_gone() -> None:
    state, engine, _ = busy(requests=3, steps=100)
    engine.now += 61_000 * MS
    state.apply(engine.submit("later"))
    assert state.snapshot()["segments"]["id"] == ["later"]


def test_observer_cost_is_the_mean_of_the_last_60_steps() -> None:
    state, _, _ = busy(steps=3)
    for cost in [10**9] * 5 + [2_000] * 30 + [4_000] * 30:
        state.step_cost(cost, host_late_ns=cost > 10**8)
    assert state.gauges()["observe_us_step"] == pytest.approx(3.0)
    assert state.gauges()["host_late"] == 5


def test_an_engine_that_loads_after_its_death_is_shown_as_down_until_it_is_up() -> None:
    state, _, _ = busy(steps=3)
    shown = []
    for status in ("loading", "up", "down", "loading", "paused", "loading"):
        state.engine_status(status, f"it is {status}")
        shown.append((state.gauges()["engine"], state.gauges()["engine_text"]))
    assert [status for status, _ in shown] == ["loading", "up", "down", "down", "paused", "loading"]
    assert shown[3][1] == "it is loading"


def test_the_ring_is_as_long_as_asked() -> None:
    engine, state = ScriptedEngine(), LiveState(Clock(), ring=5)
    for event in (engine.begin(), engine.submit("r", output=40)):
        state.apply(event)
    seqs = [event.seq for _ in range(12) for event in engine.step() if state.apply(event) is None]
    assert state.snapshot()["steps"]["step"] == [8, 9, 10, 11, 12]
    assert state.frame(seqs[0]) is None and state.frame(state.seq) is not None
