"""What a seed asks for: settings, clients, an operator's acts, faults. Values only; made before anything runs.

Each kind of fault is on or off for a whole seed (swarm testing: a fault that is always there hides others).
Invariant: equal seeds give equal plans, and all faults are over at CALM.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from simulation.disk import KINDS
from simulation.transport import Weather
from simulation.world import MS, S

from scheduler.core.policies.catalog import CATALOG

CALM = 20 * S  # after the start; by then whatever is to happen has been set going
LEAVE = ("sent", "opened", "midway", "told")  # when a client hangs up
FAULTS = ("kill engine", "stop engine", "kill web", "disk", "leave", "time-outs", "settings", "hold", "cancel", "late copies",
          "cuts", "outbox", "row errors", "cannot start")  # fmt: skip


@dataclass(frozen=True)
class ClientPlan:
    """One POST."""

    id: str
    at: int
    prompts: tuple[tuple[int, ...], ...]
    max_tokens: int
    stream: bool
    priority: int = 0
    tenant: str = "default"
    timeout: int = 600 * S
    stop: tuple[str, ...] = ()
    leaves: str | None = None
    patience: int = 0
    slow: bool = False


@dataclass(frozen=True)
class Act:
    """Something done to the system at an instant after the start; `what` names it."""

    at: int
    what: str
    value: Any = None
    lasts: int = 0


@dataclass(frozen=True)
class Plan:
    """A whole life."""

    settings: dict[str, Any]
    clients: tuple[ClientPlan, ...]
    acts: tuple[Act, ...]
    weather: Weather
    row_errors: float = 0.0
    pace: float = 1.0
    on: tuple[str, ...] = field(default=())


def make(seed: int) -> Plan:
    """The plan of `seed`."""
    chance = Random(f"plan {seed}")
    on = tuple(fault for fault in FAULTS if chance.random() < 0.4)
    span = chance.choice((50, 200, 600)) * MS
    settings = _settings(chance) | _newer(Random(f"newer settings {seed}"))
    clients = tuple(sorted((_client(chance, f"r{n}", span, on, settings) for n in range(chance.randint(2, 9))), key=_at))
    weather = Weather(
        latency=chance.choice((1, MS // 10, 2 * MS)),
        cut=0.5 if "cuts" in on else 0.02,
        late_copies=0.05 if "late copies" in on else 0.0,
        outbox=chance.choice((200, 1000)) if "outbox" in on else 1 << 20,
        load=chance.choice((1, 50, 2000)) * MS,
        fails_to_start=0.15 if "cannot start" in on else 0.0,
    )
    acts = tuple(sorted(_acts(chance, on, span), key=_at))
    return Plan(settings, clients, acts, weather, 0.05 if "row errors" in on else 0.0, chance.choice((0.02, 0.1, 1.0)), on)


def _at(one: ClientPlan | Act) -> int:
    return one.at


def _settings(chance: Random) -> dict[str, Any]:
    seqs = chance.randint(1, 5)
    block = chance.choice((4, 8, 16))
    return {
        "policy": chance.choice(sorted(CATALOG)),
        "max_num_seqs": seqs,
        "max_num_batched_tokens": max(seqs, chance.choice((6, 16, 64))),
        "max_model_len": chance.choice((48, 2048)),
        "kv_cache_tokens": chance.choice((64, 96, 256)),
        "block_size": block,
        "watermark": chance.choice((0.0, 0.1)),
        "enable_prefix_caching": chance.random() < 0.6,
        "enable_chunked_prefill": chance.random() < 0.7,
        "batching": "static" if chance.random() < 0.15 else "continuous",
        "allocation": "reserve" if chance.random() < 0.2 else "on_demand",
        "max_num_queued_reqs": 2 if chance.random() < 0.15 else 10_000,
    }


def _newer(chance: Random) -> dict[str, Any]:
    """Settings that came later, drawn apart, so that the seeds kept for their faults stay the lives that they were."""
    settings: dict[str, Any] = {}
    if chance.random() < 0.3:
        settings["itl_target_ms"] = chance.choice((1.0, 15.0))
    if chance.random() < 0.3:
        settings["max_head_skips"] = chance.choice((1, 3))
    if chance.random() < 0.3:
        settings["long_prefill_token_threshold_adaptive"] = True
    if chance.random() < 0.2:
        settings["tenant_max_running"] = chance.choice((1, 2))
    if chance.random() < 0.2:
        settings["tenant_max_tokens"] = chance.choice((40, 120))
    return settings


def _client(chance: Random, id: str, span: int, on: tuple[str, ...], settings: dict[str, Any]) -> ClientPlan:
    longest = min(40, settings["kv_cache_tokens"] - 1)
    prompts = []
    for _ in range(2 if chance.random() < 0.2 else 1):
        shared = chance.random() < 0.4
        length = chance.randint(1, longest)
        prompts.append(tuple(97 + i % 26 if shared else chance.randint(32, 126) for i in range(length)))
    leaves = chance.choice(LEAVE) if "leave" in on and chance.random() < 0.5 else None
    return ClientPlan(
        id=id,
        at=chance.randrange(span),
        prompts=tuple(prompts),
        max_tokens=chance.choice((1, 2, 5, 12, 30)),
        stream=chance.random() < 0.7,
        priority=chance.randint(-1, 2),
        tenant=chance.choice("ab"),
        timeout=chance.choice((5, 50, 300)) * MS if "time-outs" in on and chance.random() < 0.5 else 600 * S,
        stop=(chance.choice(("queue", "batch", "e", "step runs")),) if chance.random() < 0.15 else (),
        leaves=leaves,
        patience=chance.randrange(span // 2),
        slow=leaves == "midway" and chance.random() < 0.3,
    )


def _acts(chance: Random, on: tuple[str, ...], span: int) -> list[Act]:
    acts: list[Act] = []

    def some(fault: str, most: int, value: Any = None, lasts: Any = None) -> None:
        for _ in range(chance.randint(1, most) if fault in on else 0):
            at = chance.randrange(2 * span) if chance.random() < 0.8 else chance.randrange(CALM // 2)
            acts.append(Act(at, fault, value() if value else None, lasts() if lasts else 0))

    some("kill engine", 4)
    some("stop engine", 2, lasts=lambda: chance.choice((20 * MS, 2 * S, 10_000 * S)))
    some("kill web", 2, lasts=lambda: chance.randrange(500 * MS))
    some("disk", 3, lambda: (chance.choice(KINDS), chance.choice((1, 1, 2, 3, 8, -1))), lambda: chance.choice((10, 1000)) * MS)
    some("settings", 4, lambda: _change(chance))
    some("hold", 3, lambda: chance.randint(0, 3), lambda: chance.choice((5, 50, 500)) * MS)
    some("cancel", 3, lambda: f"r{chance.randint(0, 8)}")
    return acts


def _change(chance: Random) -> dict[str, Any]:
    return dict(
        [
            chance.choice(
                (
                    ("policy", chance.choice(sorted(CATALOG))),
                    ("max_num_seqs", chance.randint(1, 6)),
                    ("max_num_batched_tokens", chance.choice((6, 16, 64))),
                    ("enable_chunked_prefill", chance.random() < 0.5),
                    ("batching", chance.choice(("static", "continuous"))),
                    ("allocation", chance.choice(("reserve", "on_demand"))),
                    ("watermark", chance.choice((0.0, 0.2))),
                    ("long_prefill_token_threshold", chance.choice((0, 4))),
                    ("max_num_queued_reqs", chance.choice((1, 10_000))),
                    ("block_size", 32),  # needs a restart: refused
                )
            )
        ]
    )
