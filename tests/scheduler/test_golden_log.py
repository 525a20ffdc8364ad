"""The golden log: twelve requests through the real core on a simulated clock, compared line by line with docs/golden_log.jsonl.

docs/events.md reads it aloud. Write it anew, after a change that is meant, with GOLDEN=write.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

from builders import MS, FakeClock

from scheduler.core.blocks import BlockPool
from scheduler.core.events import (
    EVENT_TYPES,
    EngineStarted,
    Event,
    RequestFinished,
    RequestParked,
    RequestPreempted,
    RequestScheduled,
    RequestUnparked,
    SettingsChanged,
)
from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.policies.fcfs import Fcfs
from scheduler.core.request import Request, SamplingParams
from scheduler.core.scheduler import Scheduler
from scheduler.settings import SchedulerSettings

LOG = Path(__file__).resolve().parents[2] / "docs/golden_log.jsonl"
SETTINGS = SchedulerSettings(
    max_num_seqs=4, max_num_batched_tokens=24, max_model_len=64, kv_cache_tokens=80, block_size=4, watermark=0.0
)
STOP_TOKEN = 7
SYSTEM_PROMPT = tuple(range(100, 108))  # what r11 and r12 share: two full blocks


def prompt(serial: int, length: int) -> tuple[int, ...]:
    """A prompt that no other request shares."""
    return tuple(1000 * serial + place for place in range(length))


def arrivals() -> list[tuple[int, Request]]:
    """(arrival in ms, request): all that the log shows is caused by these twelve, their lengths and their order."""
    said = SamplingParams
    rows = [
        (0, "r01", prompt(1, 10), said(max_tokens=6), {"tenant": "chat"}),
        (0, "r02", prompt(2, 30), said(max_tokens=8), {"tenant": "docs", "kind": "batch"}),  # longer than the step's budget
        (0, "r03", prompt(3, 12), said(max_tokens=20), {"tenant": "chat"}),
        (0, "r04", prompt(4, 20), said(max_tokens=16), {"tenant": "chat"}),  # it grows, and the cache is too small for all
        (0, "r05", prompt(5, 6), said(max_tokens=3), {"tenant": "chat"}),  # the fifth of four slots: it waits
        (5, "r06", prompt(6, 6), said(max_tokens=8, stop_token_ids=(STOP_TOKEN,)), {"tenant": "chat"}),  # stops early
        (5, "r07", prompt(7, 80), said(max_tokens=8), {"tenant": "docs"}),  # longer than the model: refused at once
        (9, "r08", prompt(8, 8), said(max_tokens=4), {"tenant": "chat", "timeout_at": 24 * MS}),  # times out while waiting
        (9, "r09", prompt(9, 8), said(max_tokens=4), {"tenant": "chat"}),  # its client hangs up while it waits
        (20, "r10", prompt(10, 4), said(max_tokens=2), {"tenant": "chat", "deadline_at": 400 * MS}),
        (90, "r11", (*SYSTEM_PROMPT, 3), said(max_tokens=3), {"tenant": "chat", "run": "golden"}),
        (94, "r12", (*SYSTEM_PROMPT, 4), said(max_tokens=40), {"tenant": "chat"}),  # hits r11's blocks; its client hangs up
    ]
    return [
        (at, Request(name, tokens, params, received_at=at * MS - MS // 2 if at else 0, **extra))
        for at, name, tokens, params, extra in rows
    ]


def run_step(plan: StepPlan) -> StepOutput:
    """A step of 2 ms and 0.1 ms a token; r06 says the stop token as its third."""
    stop = [request.id == "r06" and request.output_tokens == 2 for request in plan.sampling]
    tokens = len(plan.decodes) + plan.prefill_tokens
    return StepOutput([STOP_TOKEN if said else 50 for said in stop], 2 * MS + tokens * MS // 10)


def play() -> list[Event]:
    """The whole log."""
    pool, clock = BlockPool(SETTINGS.kv_cache_tokens // SETTINGS.block_size, SETTINGS.block_size), FakeClock()
    core = Scheduler(SETTINGS, pool, Fcfs(), boot=1)
    events: list[Event] = [start(core, pool)]
    due, hang_ups, changed = arrivals(), {"r09": 25 * MS, "r12": 100 * MS}, False
    while due or not core.idle:
        if core.idle and due[0][0] * MS > clock.now:
            clock.now = due[0][0] * MS
        while due and due[0][0] * MS <= clock.now:
            events += core.add(due.pop(0)[1], clock.now)
        for name in [name for name, at in hang_ups.items() if at <= clock.now]:
            events += core.abort(name, clock.now, "client_gone")
            del hang_ups[name]
        if not changed and clock.now >= 60 * MS:
            events += more_slots(core, clock.now)
            changed = True
        plan = core.schedule(clock.now)
        events += plan.events
        if not plan.empty:
            output = run_step(plan)
            events += core.commit(plan, output, clock.tick(output.elapsed))
        core.check()
    return events


def start(core: Scheduler, pool: BlockPool) -> EngineStarted:
    """The first event of every boot."""
    return core.record(
        EngineStarted, 0, wall=1_800_000_000_000_000_000, mono=0, settings=SETTINGS.as_pairs(), blocks_total=pool.total,
        block_size=pool.size, runner="simulated", hardware=None, model="golden",
    )  # fmt: skip


def more_slots(core: Scheduler, now: int) -> list[Event]:
    """A live change between two steps: six slots instead of four."""
    core.set_limits(SETTINGS.change({"max_num_seqs": 6}, live=True), now)
    return [core.record(SettingsChanged, now, version=2, changes=(("max_num_seqs", 6),))]


def line(event: Event) -> str:
    """One line of the log: the kind, then the fields in the order of events.py."""
    return json.dumps({"event": type(event).__name__} | {spec.name: plain(getattr(event, spec.name)) for spec in fields(event)})


def plain(value: Any) -> Any:
    """Enums as their lower-case names, so that the file can be read without the code."""
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(item) for name, item in value._asdict().items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def test_twelve_requests_give_the_golden_log() -> None:
    lines = [line(event) for event in play()]
    if os.environ.get("GOLDEN") == "write":
        LOG.write_text("\n".join(lines) + "\n", "utf-8")
    assert lines == LOG.read_text("utf-8").splitlines(), "the log changed: if that is meant, run again with GOLDEN=write"


def test_the_same_calls_give_the_same_log() -> None:
    assert [line(event) for event in play()] == [line(event) for event in play()]


def test_golden_log_shows_every_kind_that_the_core_emits() -> None:
    parked = {RequestParked, RequestUnparked}  # for causes of a request's own (quotas): no policy of this version parks
    assert {type(event) for event in play()} == set(EVENT_TYPES) - parked


def test_golden_log_ends_each_request_once_and_accounts_for_its_time() -> None:
    ends = [event for event in play() if isinstance(event, RequestFinished)]
    received = {request.id: request.received_at for _, request in arrivals()}
    assert sorted(event.id for event in ends) == sorted(received)
    assert {event.reason.value for event in ends} == {"length", "stop", "abort", "timeout", "rejected"}
    assert all(event.parts.total == event.at - received[event.id] for event in ends)


def test_golden_log_shows_a_prefix_hit_and_a_memory_preemption() -> None:
    events = play()
    hits = [event for event in events if isinstance(event, RequestScheduled) and event.cached_tokens and not event.resumed]
    evicted = [event for event in events if isinstance(event, RequestPreempted)]
    assert len(hits) == 1 and hits[0].cached_tokens == len(SYSTEM_PROMPT)
    assert evicted and not any(event.urgency for event in evicted)
    assert all(
        any(back.number == event.number for back in events if isinstance(back, RequestScheduled) and back.resumed)
        for event in evicted
    )
