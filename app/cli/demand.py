"""What a simulation is fed with: a trace, a recorded run, or a scenario's streams, as one source. Knows no engine.

A scenario's requests are the load generator's own (`python -m loadgen --plan`, whose lines are read); a stream whose rate
is a share of a measured capacity is measured first, on the hardware that is simulated.
Invariant: asks of a trace or of a run are in order of arrival, and counted before the simulation begins.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

from app.cli.failures import CommandError
from app.cli.records import Records, all_requests
from app.cli.traces import BadLine, json_ask, read_trace
from app.store.instants import wall_ns
from app.supervisor import scenarios
from scheduler.core.events import Event, FirstToken, RequestQueued, StepCompleted
from scheduler.simulate import Ask, Requests, Simulation, Source, Together, Trace, Users

MODULE = [sys.executable, "-m", "loadgen"]
SECOND = 1_000_000_000
PROBE_USERS = 512  # as many as the load generator's own measurement ends with
WARM_UP = 0.4  # of the measurement: until then it fills the engine
Simulate = Callable[[Source, Callable[[list[Event]], None]], Simulation]


@dataclass(slots=True)
class Demand:
    """Who comes. requests: how many, None while only users know; until: ns after which nobody waits for an answer.

    `source` makes it, once; about: what the run's row says of it; `close` ends what it has started.
    """

    about: dict[str, Any]
    source: Callable[[Requests], Source]
    requests: int | None = None
    until: int | None = None
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def close(self) -> None:
        """End the load generators that still print."""
        for child in self.children:
            child.kill()
            if child.stdout is not None:
                child.stdout.close()
            child.wait()


def of_trace(path: Path, most: int | None) -> Demand:
    """The first `most` requests of a file, or all of them."""
    asks = list(islice(read_trace(path), most))
    return _of_asks(asks, {"trace": path.name}, f"{path} holds no request")


def of_run(records: Records, run_id: str, most: int | None) -> Demand:
    """The requests of a recorded run, when they came, whatever became of them then.

    Of each as many tokens as it had; begun alike by as many tokens as the prefix cache knew. Policies see what they saw:
    the output that was asked for.
    """
    rows = list(all_requests(records, {"run": run_id, "sort": "received"}, most))
    begun = wall_ns(rows[0]["received"], "received") if rows else 0
    asks = [ask for row in rows for ask in _asks_of(row, begun)]
    return _of_asks(asks, {"replay": run_id}, f"run {run_id} has no requests whose prompts are known")


def of_scenario(name: str, values: Mapping[str, Any], seed: int, simulate: Simulate, say: Callable[[str], None]) -> Demand:
    """Its streams. `simulate` runs a source on the hardware in question, where a capacity must be known."""
    shown = scenarios.describe(name, values)
    slo = {f"slo_{key}": value for key, value in shown["slo"].items()}
    until = round((shown["duration_s"] + shown["drain_s"]) * SECOND)
    demand = Demand({**shown["values"], **slo}, lambda requests: Together([]), until=until)
    command = [*MODULE, f"--scenario={name}", f"--seed={seed}", *(f"--set={key}={value}" for key, value in values.items())]

    def source(requests: Requests) -> Source:
        return Together([_stream(demand, [*command, f"--plan={each}"], requests, simulate, say) for each in _streams(command)])

    demand.source = source
    return demand


# ---- one sort each


def _of_asks(asks: Sequence[Ask], about: dict[str, Any], none: str) -> Demand:
    if not asks:
        raise CommandError(none)
    return Demand(about, lambda requests: Trace(requests.all_of(asks)), requests=len(asks))


def _asks_of(row: Mapping[str, Any], begun: int) -> Iterator[Ask]:
    """A row of several sequences is several requests, with equal shares of its tokens."""
    n = row["sequences"]
    prompt, asked = row["prompt_tokens"], row["max_tokens"]
    output = row["output_tokens"] or asked
    if not prompt or not output:
        return  # it was refused before anybody counted
    for _ in range(n):
        yield Ask(
            at=max(0, wall_ns(row["received"], "received") - begun),
            prompt_tokens=max(1, prompt // n),
            output_tokens=max(1, output // n),
            tenant=row["tenant"],
            kind=row["kind"],
            priority=row["priority"],
            deadline_ms=row["deadline_ms"],
            timeout_ms=row["timeout_ms"],
            expected_output_tokens=asked,
            shared=((0, (row["cached_tokens"] or 0) // n),),
        )


def _streams(command: Sequence[str]) -> list[str]:
    made = subprocess.run([*command, "--check", "--json"], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise CommandError(f"the load generator refuses the scenario: {made.stderr.strip()}")
    return [stream["name"] for stream in json.loads(made.stdout)["streams"]]


def _stream(demand: Demand, command: list[str], requests: Requests, simulate: Simulate, say: Callable[[str], None]) -> Source:
    lines = _lines(demand, command)
    about: dict[str, Any] = json.loads(next(lines))
    if about["process"] == "measured":
        capacity = _capacity(about, _asks(lines), simulate)
        say(f"stream {about['stream']}: a capacity of {capacity:.0f} tokens/s was measured on the simulated hardware")
        lines = _lines(demand, [*command, f"--capacity={capacity!r}"])
        next(lines)
    if about["loop"] == "open":
        return Trace(requests.all_of(_asks(lines)))
    start, stop = (round(about[name] * SECOND) for name in ("start_s", "stop_s"))
    rates = {"spawn_rate": about["spawn_rate"], "think_s": about["think_s"]}
    return Users(_asks(lines), requests, about["users"], **rates, start=start, stop=stop)


def _asks(lines: Iterator[bytes]) -> Iterator[Ask]:
    for line in lines:
        try:
            yield json_ask(line.decode())
        except BadLine as error:
            raise CommandError(f"the load generator printed what it should not: {error}") from error


def _lines(demand: Demand, command: list[str]) -> Iterator[bytes]:
    """A child's lines as they are wanted; it waits meanwhile, and is told to stop by `Demand.close`."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    demand.children.append(child)
    out: IO[bytes] | None = child.stdout
    assert out is not None
    yield from out
    if child.wait() != 0:
        raise CommandError("the load generator failed: see its message above")


def _capacity(about: Mapping[str, Any], asks: Iterator[Ask], simulate: Simulate) -> float:
    """Units of work a second of a saturating closed loop, the beginning left out. A prompt token weighs `prefill_weight`."""
    probe_s: float = about["probe_s"]
    stop, since = round(probe_s * SECOND), round(WARM_UP * probe_s * SECOND)
    weight: float = about["prefill_weight"]
    users = Users(asks, Requests("probe"), PROBE_USERS, spawn_rate=1e6, think_s=0.0, start=0, stop=stop)
    prompts: dict[int, int] = {}
    work = [0.0]  # since then

    def count(events: list[Event]) -> None:
        for event in events:
            if isinstance(event, RequestQueued):
                prompts[event.seq] = event.prompt_tokens
            elif isinstance(event, FirstToken) and event.at >= since:
                work[0] += weight * prompts[event.number]
            elif isinstance(event, StepCompleted) and event.ended_at >= since:
                work[0] += len(event.decodes) + sum(emitted for _, _, emitted in event.chunks)

    simulate(users, count).run(until=stop)
    if not work[0]:
        raise CommandError(f"no token came in the {probe_s:g} s in which a capacity is measured")
    return work[0] * SECOND / (stop - since)
