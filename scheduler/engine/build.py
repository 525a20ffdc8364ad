"""Build an EngineLoop from what Hello says. Knows every part of the engine; decides only defaults by device.

Invariant: the settings returned are those in effect, whatever was left open filled in from the device's defaults.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from scheduler.core.blocks import BlockPool
from scheduler.core.policies import catalog
from scheduler.core.policies.base import PolicyInfo
from scheduler.core.request import Request
from scheduler.core.scheduler import Scheduler
from scheduler.engine.clock import Clock, LiveClock, PacedClock
from scheduler.engine.loop import EngineLoop, Publish
from scheduler.engine.messages import Submit
from scheduler.engine.text_stage import TextStage
from scheduler.errors import SettingsError
from scheduler.runners.base import Capacity, Runner
from scheduler.runners.cost_model import DEFAULT_HARDWARE
from scheduler.runners.cost_model import load as load_cost_model
from scheduler.runners.null import NullRunner
from scheduler.runners.simulated import SimulatedRunner, cost_of
from scheduler.settings import ModelSettings, SchedulerSettings
from scheduler.text import bundle


def light_runner(model: ModelSettings) -> Runner:
    """The runners that need no torch; raises SettingsError for any other."""
    if model.runner == "simulated":
        return SimulatedRunner(load_cost_model(model.hardware or DEFAULT_HARDWARE))
    if model.runner == "null":
        return NullRunner()
    raise SettingsError(f"runner {model.runner!r} needs the engine process", "runner")


def settings_for(capacity: Capacity, explicit: Mapping[str, Any]) -> SchedulerSettings:
    """The device's defaults, then what was asked for; raises SettingsError when the runner cannot hold it."""
    accelerated = capacity.device == "cuda" or capacity.hardware is not None
    base = {spec.name: spec.metadata["cuda"] for spec in fields(SchedulerSettings)} if accelerated else {}
    base["max_model_len"] = capacity.max_model_len if accelerated else min(2048, capacity.max_model_len)
    if capacity.kv_tokens:
        base["kv_cache_tokens"] = capacity.kv_tokens
    settings = SchedulerSettings().change({**base, **explicit})
    if settings.max_model_len > capacity.max_model_len:
        raise SettingsError(f"max_model_len is over the model's {capacity.max_model_len}", "max_model_len")
    return settings.fit(capacity.kv_tokens)


def build(
    boot: int,
    explicit: Mapping[str, Any],
    model: ModelSettings,
    runner: Runner,
    publish: Publish,
    known: Mapping[str, PolicyInfo] = catalog.CATALOG,
) -> EngineLoop:
    """A loop ready to step; `known`: the policies that it may be given, by name."""
    capacity = runner.capacity()
    settings = settings_for(capacity, explicit)
    blocks = settings.kv_cache_tokens // settings.block_size
    runner.allocate(blocks, settings.block_size)
    pool = BlockPool(blocks, settings.block_size, settings.enable_prefix_caching, settings.prefix_salt_by_tenant)
    policy = catalog.make(settings.policy, settings.policy_params, pool, known)
    clock: Clock = LiveClock() if runner.live else PacedClock()
    scheduler = Scheduler(settings, pool, policy, boot=boot, cost=cost_of(runner))
    return EngineLoop(scheduler, runner, clock, TextStage(bundle.load(model)), settings, publish, known)


def request_of(submit: Submit, eos_token_ids: tuple[int, ...]) -> Request:
    """A Request from its message: end-of-text ids join the stops, and a seed is fixed from the id if none was given."""
    params, prompt = submit.params, array("I")
    prompt.frombytes(submit.prompt)
    if not params.ignore_eos:
        params = replace(params, stop_token_ids=tuple(dict.fromkeys((*params.stop_token_ids, *eos_token_ids))))
    if params.seed is None:
        params = replace(params, seed=int.from_bytes(hashlib.sha256(submit.id.encode()).digest()[:8]))
    return Request(
        submit.id,
        prompt,
        params,
        received_at=submit.received_at,
        tenant=submit.tenant,
        kind=submit.kind,
        priority=submit.priority,
        deadline_at=submit.deadline_at,
        timeout_at=submit.timeout_at,
        expected_output_tokens=submit.expected_output_tokens,
        run=submit.run,
        resubmitted=submit.resubmitted,
    )
