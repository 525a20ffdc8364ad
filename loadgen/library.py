"""The library of scenarios: TOML files into checked dataclasses. Knows no clock, socket or server.

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
from pathlib import Path
from typing import Any

from loadgen.params import ScenarioError, Value, settle
from loadgen.scenario import ARRIVAL_FIELDS, Arrivals, Lengths, Mix, Scenario, Slo, Stream, Turn
from loadgen.tables import Table, read_params

FOLDER = Path(__file__).parent / "scenarios"


def names(folder: Path = FOLDER) -> list[str]:
    home = folder.resolve()  # a link that leads elsewhere is none of them
    return sorted(path.stem for path in folder.glob("*.toml") if path.resolve().parent == home)


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
        streams=tuple(stream for each in table.children("streams") if (stream := _stream(each, duration_s)).asks),
    )
    table.done()
    table.all_used()
    _check_streams(scenario)
    return scenario


def _check_streams(scenario: Scenario) -> None:
    if not scenario.streams:
        raise ScenarioError("streams", "a scenario needs at least one that asks")
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
        elif name == "points":
            fields[name] = table.points(name)
        elif name in ("users", "probe_users"):
            fields[name] = table.integer(name, low=0 if name == "users" else 1, high=100_000)
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
