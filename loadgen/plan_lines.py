"""What a scenario would ask, as JSON lines, without asking anybody: for whoever plays it on a clock of his own.

The first line describes the stream; each other one is a request: `arrival_ms` (open loops; a closed loop's users ask when
they are free), `prompt_tokens`, `output_tokens`, `tenant`, `kind` and, where the scenario names them, `priority` and
`deadline_ms`. A closed loop has no end, nor have the requests with which a capacity would be measured: read as many as are
wanted, and hang up. Knows no server and no clock.
Invariant: request k is the one that a load run with the same seed sends as its k-th, but for the words of its prompt.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict
from itertools import count, islice
from typing import Any

from loadgen.arrivals import due_times, measured_times
from loadgen.params import ScenarioError
from loadgen.scenario import CLOSED, Scenario, Stream
from loadgen.workload import Ask, Limits, draw, draw_any, works

CHARACTERS_A_TOKEN = 4  # of a text that is sent as it stands
MEANT_OVER = 1000


def plan_lines(scenario: Scenario, stream: str, seed: int, limits: Limits, capacity: float | None) -> Iterator[dict[str, Any]]:
    """The stream's description, then its requests. `capacity`: units of work a second, for arrivals that are `measured`."""
    found = next((each for each in scenario.streams if each.name == stream), None)
    if found is None:
        raise ScenarioError("stream", f"there is no {stream!r}; known: {', '.join(each.name for each in scenario.streams)}")
    yield _described(scenario, found)
    process = found.arrivals.process
    if found.arrivals.loop == CLOSED:
        yield from (_line(draw(found, k, seed, "", limits)) for k in count())
    elif process == "measured" and capacity is None:
        yield from (_line(draw_any(found, k, seed, "", limits)) for k in count())
    else:
        for k, due in enumerate(_dues(found, seed, capacity)):
            yield {"arrival_ms": 1e3 * (found.start_s + due)} | _line(draw(found, k, seed, "", limits))


def _dues(stream: Stream, seed: int, capacity: float | None) -> list[float]:
    """Seconds from the stream's start. Of a measured one, so many as a run has left once it has measured."""
    arrivals, length = stream.arrivals, stream.stop_s - stream.start_s
    if capacity is None:
        return due_times(arrivals, length, random.Random(f"{seed}/{stream.name}/arrivals"))
    mean = sum(islice(works(stream), MEANT_OVER)) / MEANT_OVER
    power = min(arrivals.load * capacity, mean * arrivals.max_rate)
    rng = random.Random(f"{seed}/{stream.name}/arrivals/0")
    return measured_times(works(stream), power, length - arrivals.probe_s, rng)


def _described(scenario: Scenario, stream: Stream) -> dict[str, Any]:
    about = {"stream": stream.name, "loop": stream.arrivals.loop, "start_s": stream.start_s, "stop_s": stream.stop_s}
    return about | {"drain_s": scenario.drain_s, "duration_s": scenario.duration_s} | asdict(stream.arrivals)


def _line(ask: Ask) -> dict[str, Any]:
    tokens = ask.prompt_tokens if ask.prompt_tokens > 1 else max(1, len(ask.prompt) // CHARACTERS_A_TOKEN)
    named = {"priority": ask.priority, "deadline_ms": ask.deadline_ms}
    line = {"prompt_tokens": tokens, "output_tokens": ask.output_tokens, "tenant": ask.tenant, "kind": ask.kind}
    return line | {name: value for name, value in named.items() if value is not None}
