"""A scenario: who asks what, and when, as frozen dataclasses. Knows no file, clock, socket or server.

A Scenario is a set of streams; a stream is an arrival process (when) and turns of mixes (what). Open loop: requests
come on a clock, whatever the server does. Closed loop: a user waits for his answer.
Invariant: values are made by library.py, which checks them; nothing here changes them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from loadgen.curve import Points
from loadgen.params import Param, Value

OPEN, CLOSED = "open", "closed"

ARRIVAL_FIELDS: dict[str, tuple[str, ...]] = {
    "closed": ("users", "spawn_rate", "think_s"),
    "constant": ("rate",),
    "poisson": ("rate",),
    "gamma": ("rate", "cv"),
    "burst": ("rate", "burst_rate", "quiet_s", "burst_s"),
    "list": ("at_s",),
    "shape": ("points",),
    "measured": ("load", "probe_s", "probe_users", "prefill_weight", "max_rate"),
}


@dataclass(frozen=True, slots=True)
class Lengths:
    """How many tokens: fixed (`low` = `high`), uniform in [low, high], or lognormal about `median`, cut to [low, high]."""

    dist: str
    low: int
    high: int
    median: float = 0.0
    sigma: float = 0.0


@dataclass(frozen=True, slots=True)
class Mix:
    """One sort of request. `text` is sent as it stands; otherwise a prompt of about `prompt` tokens is written."""

    kind: str
    tenant: str
    weight: float
    prompt: Lengths
    output: Lengths
    text: str = ""
    priority: int | None = None
    deadline_ms: int | None = None
    cancel_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """`count` requests of this mix, then the next turn."""

    count: int
    mix: tuple[Mix, ...]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When requests come; which fields count depends on `process` (ARRIVAL_FIELDS).

    measured: open loop at `load` times a capacity that a saturating closed loop measures in the first `probe_s`.
    Work is counted in decode tokens; a prompt token weighs `prefill_weight` of one.
    """

    process: str
    rate: float = 0.0
    cv: float = 1.0
    burst_rate: float = 0.0
    quiet_s: float = 0.0
    burst_s: float = 0.0
    at_s: tuple[float, ...] = ()
    points: Points = ()
    users: int = 0
    spawn_rate: float = 100.0
    think_s: float = 0.0
    load: float = 1.0
    probe_s: float = 5.0
    probe_users: int = 24
    prefill_weight: float = 0.25
    max_rate: float = 100.0

    @property
    def loop(self) -> str:
        return CLOSED if self.process == "closed" else OPEN


@dataclass(frozen=True, slots=True)
class Stream:
    """An independent source of requests, alive from `start_s` to `stop_s` of the run."""

    name: str
    start_s: float
    stop_s: float
    arrivals: Arrivals
    turns: tuple[Turn, ...]

    @property
    def asks(self) -> bool:
        """False of a closed loop without users: library.py leaves it out."""
        return self.arrivals.loop == OPEN or self.arrivals.users > 0


@dataclass(frozen=True, slots=True)
class Slo:
    """What a good request keeps; None: no bound."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole scenario with its parameters settled."""

    name: str
    title: str
    description: str
    parameters: tuple[Param, ...]
    values: tuple[tuple[str, Value], ...]
    duration_s: float
    drain_s: float
    timeout_s: float
    endpoint: str
    ignore_eos: bool
    temperature: float
    nonce: bool
    slo: Slo
    scheduler: tuple[tuple[str, Value], ...]
    streams: tuple[Stream, ...]

    @property
    def closed(self) -> Stream | None:
        return next((stream for stream in self.streams if stream.arrivals.loop == CLOSED), None)

    @property
    def users(self) -> int:
        """How many closed-loop users it asks for; 1 where there is no closed loop (Locust wants one)."""
        return self.closed.arrivals.users if self.closed else 1

    def as_json(self) -> dict[str, Any]:
        streams = [{"name": s.name, "loop": s.arrivals.loop, "process": s.arrivals.process} for s in self.streams]
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "parameters": [param.as_json() for param in self.parameters],
            "values": dict(self.values),
            "duration_s": self.duration_s,
            "drain_s": self.drain_s,
            "timeout_s": self.timeout_s,
            "endpoint": self.endpoint,
            "slo": asdict(self.slo),
            "scheduler": dict(self.scheduler),
            "loop": "mixed" if len({s["loop"] for s in streams}) > 1 else streams[0]["loop"],
            "streams": streams,
        }
