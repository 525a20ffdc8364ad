"""Scenarios: typed TOML files into frozen dataclasses. Knows no clock, socket or server.

A file names who asks what, and when:

    title, description          for people
    duration_s                  arrivals come for so long; drain_s more is granted to what is in flight
    [params.NAME]               type, default, low, high, choices, help: what `--set NAME=value` may change
    [slo] [scheduler]           ttft_ms and tpot_ms; settings that the server applies while the run lasts
    [[streams]]                 independent sources of requests: `arrivals` (when) and `mix` or `turns` (what)

Any value may be written "$NAME": the value of that parameter. `mix` is drawn by weight; `turns` alternate: so many
requests of one mix, then of the next. Invariant: a Scenario that exists is valid, and no key of its file was ignored.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadgen.params import Param, ScenarioError, Value, settle
from loadgen.tables import Table, read_params

FOLDER = Path(__file__).parent / "scenarios"
OPEN, CLOSED = "open", "closed"

ARRIVAL_FIELDS: dict[str, tuple[str, ...]] = {
    "closed": ("users", "spawn_rate", "think_s"),
    "constant": ("rate",),
    "poisson": ("rate",),
    "gamma": ("rate", "cv"),
    "burst": ("rate", "burst_rate", "quiet_s", "burst_s"),
    "list": ("at_s",),
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


def names(folder: Path = FOLDER) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.toml"))


def load(name: str, overrides: Mapping[str, object] | None = None, folder: Path = FOLDER) -> Scenario:
    """The scenario `name` of the library with `overrides`; raises ScenarioError naming what is wrong."""
    if name not in names(folder):
        raise ScenarioError("scenario", f"there is no {name!r}; known: {', '.join(names(folder))}")
    text = (folder / f"{name}.toml").read_text(encoding="utf-8")
    return parse(name, text, overrides)


def parse(name: str, text: str, overrides: Mapping[str, object] | None = None) -> Scenario:
    """A scenario from the text of its file."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(name, f"is not TOML: {error}") from error
    parameters = read_params(data.pop("params", {}))
    values = settle(parameters, overrides or {})
    table = Table(data, "", values)
    duration_s = table.number("duration_s", low=0.1, high=604_800)
    scenario = Scenario(
        name=name,
        title=table.text("title"),
        description=table.text("description").strip(),
        parameters=parameters,
        values=tuple(values.items()),
        duration_s=duration_s,
        drain_s=table.number("drain_s", 5.0, low=0, high=3600),
        timeout_s=table.number("timeout_s", 600.0, low=0.01, high=86_400),
        endpoint=table.text("endpoint", "completions", choices=("completions", "chat")),
        ignore_eos=table.flag("ignore_eos", True),
        temperature=table.number("temperature", 0.0, low=0, high=2),
        nonce=table.flag("nonce", True),
        slo=_slo(table.child("slo")),
        scheduler=_scheduler(table.child("scheduler")),
        streams=tuple(_stream(each, duration_s) for each in table.children("streams")),
    )
    table.done()
    table.all_used()
    _check_streams(scenario)
    return scenario


def _check_streams(scenario: Scenario) -> None:
    if not scenario.streams:
        raise ScenarioError("streams", "a scenario needs at least one")
    if len({stream.name for stream in scenario.streams}) < len(scenario.streams):
        raise ScenarioError("streams", "names must differ")
    for special in ("closed", "measured"):
        if sum(stream.arrivals.process == special for stream in scenario.streams) > 1:
            raise ScenarioError("streams", f"at most one stream may be {special!r}")


def _slo(table: Table) -> Slo:
    slo = Slo(table.maybe_number("ttft_ms", low=0), table.maybe_number("tpot_ms", low=0))
    table.done()
    return slo


def _scheduler(table: Table) -> tuple[tuple[str, Value], ...]:
    """Taken as they are: which settings exist is the server's knowledge, not ours."""
    return tuple((name, table.scalar(name)) for name in table.names())


def _stream(table: Table, duration_s: float) -> Stream:
    stream = Stream(
        name=table.text("name"),
        start_s=table.number("start_s", 0.0, low=0),
        stop_s=min(duration_s, table.number("stop_s", duration_s, low=0)),
        arrivals=_arrivals(table.child("arrivals")),
        turns=_turns(table),
    )
    table.done()
    return stream


def _arrivals(table: Table) -> Arrivals:
    process = table.text("process", choices=tuple(ARRIVAL_FIELDS))
    wanted = ARRIVAL_FIELDS[process]
    optional = {"spawn_rate", "think_s", "probe_users", "prefill_weight", "max_rate", "probe_s"}
    fields: dict[str, Any] = {}
    for name in wanted:
        if name in optional and name not in table.names():
            continue
        if name == "at_s":
            fields[name] = table.numbers(name)
        elif name in ("users", "probe_users"):
            fields[name] = table.integer(name, low=1, high=100_000)
        else:
            fields[name] = table.number(name, low=0.0, high=1e6)
    table.done()
    arrivals = Arrivals(process=process, **fields)
    for name in ("rate", "cv", "load", "probe_s", "max_rate", "spawn_rate"):
        if name in fields and fields[name] <= 0 and not (name == "rate" and process == "burst"):
            raise ScenarioError(f"{table.where}.{name}", "must be above 0")
    if process == "burst" and arrivals.quiet_s + arrivals.burst_s <= 0:
        raise ScenarioError(f"{table.where}.burst_s", "quiet_s + burst_s must be above 0")
    if list(arrivals.at_s) != sorted(arrivals.at_s):
        raise ScenarioError(f"{table.where}.at_s", "must be in order")
    return arrivals


def _turns(table: Table) -> tuple[Turn, ...]:
    turns = [Turn(each.integer("count", low=1, high=1_000_000), _mixes(each)) for each in table.children("turns")]
    if turns and "mix" in table.names():
        raise ScenarioError(table.where, "has both mix and turns; choose one")
    return tuple(turns) or (Turn(1, _mixes(table)),)


def _mixes(table: Table) -> tuple[Mix, ...]:
    mixes = tuple(_mix(each) for each in table.children("mix"))
    if not mixes:
        raise ScenarioError(f"{table.where}.mix", "needs at least one entry")
    if sum(mix.weight for mix in mixes) <= 0:
        raise ScenarioError(f"{table.where}.mix", "weights must not all be 0")
    return mixes


def _mix(table: Table) -> Mix:
    text = table.text("text", "")
    mix = Mix(
        kind=table.text("kind"),
        tenant=table.text("tenant", "default"),
        weight=table.number("weight", 1.0, low=0),
        prompt=Lengths("fixed", 0, 0) if text else _lengths(table.child("prompt")),
        output=_lengths(table.child("output")),
        text=text,
        priority=table.maybe_integer("priority"),
        deadline_ms=table.maybe_integer("deadline_ms", low=1),
        cancel_after_ms=table.maybe_integer("cancel_after_ms", low=1),
    )
    table.done()
    return mix


def _lengths(table: Table) -> Lengths:
    dist = table.text("dist", "fixed", choices=("fixed", "uniform", "lognormal"))
    if dist == "fixed":
        tokens = table.integer("tokens", low=1, high=1_000_000)
        lengths = Lengths(dist, tokens, tokens)
    elif dist == "uniform":
        lengths = Lengths(dist, table.integer("low", low=1), table.integer("high", low=1))
    else:
        lengths = Lengths(
            dist,
            table.integer("low", 1, low=1),
            table.integer("high", 1_000_000, low=1),
            table.number("median", low=1),
            table.number("sigma", low=0, high=4),
        )
    if lengths.high < lengths.low:
        raise ScenarioError(f"{table.where}.high", f"must be at least low ({lengths.low})")
    table.done()
    return lengths
