"""What a scenario would ask, as lines: the same requests that a load run sends, and an end where a run has one."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from loadgen.__main__ import main
from loadgen.arrivals import due_times
from loadgen.library import load, names
from loadgen.params import ScenarioError
from loadgen.plan_lines import plan_lines
from loadgen.scenario import CLOSED
from loadgen.workload import Limits, draw

ROOT = Path(__file__).parents[2]
CLIENT_SIDE = {"arrival_ms", "prompt_tokens", "output_tokens", "tenant", "kind", "priority", "deadline_ms"}


def test_an_open_loop_asks_what_and_when_a_load_run_does() -> None:
    scenario = load("poisson")
    (stream,) = scenario.streams
    head, *lines = plan_lines(scenario, stream.name, 7, Limits(), None)
    dues = due_times(stream.arrivals, stream.stop_s - stream.start_s, random.Random(f"7/{stream.name}/arrivals"))
    assert [line["arrival_ms"] / 1e3 for line in lines] == pytest.approx([stream.start_s + due for due in dues])
    asks = [draw(stream, k, 7, "", Limits()) for k in range(len(lines))]
    assert [(line["prompt_tokens"], line["output_tokens"]) for line in lines] == [
        (ask.prompt_tokens, ask.output_tokens) for ask in asks
    ]
    assert (head["stream"], head["loop"], head["duration_s"]) == (stream.name, "open", scenario.duration_s)


def test_a_closed_loop_has_no_instants_and_no_end() -> None:
    scenario = load("noisy_neighbour")
    stream = next(each for each in scenario.streams if each.arrivals.loop == CLOSED)
    head, *lines = islice(plan_lines(scenario, stream.name, 1, Limits(), None), 200)
    assert head["users"] == stream.arrivals.users and len(lines) == 199
    assert all("arrival_ms" not in line for line in lines)


def test_a_measured_stream_asks_without_end_until_it_knows_a_capacity() -> None:
    scenario = load("first_look")
    (stream,) = scenario.streams
    assert len(list(islice(plan_lines(scenario, stream.name, 1, Limits(), None), 5000))) == 5000
    slow, fast = (list(plan_lines(scenario, stream.name, 1, Limits(), capacity)) for capacity in (500.0, 1000.0))
    assert len(fast) == pytest.approx(2 * len(slow), rel=0.2)
    left = (stream.stop_s - stream.arrivals.probe_s) * 1e3
    assert left * 0.9 < fast[-1]["arrival_ms"] < left


@pytest.mark.parametrize("name", names())
def test_lines_hold_what_traces_hold_and_no_more(name: str) -> None:
    scenario = load(name)
    for stream in scenario.streams:
        for line in islice(plan_lines(scenario, stream.name, 1, Limits(), None), 1, 20):
            assert set(line) <= CLIENT_SIDE and line["prompt_tokens"] >= 1 and line["output_tokens"] >= 1


def test_a_model_bounds_the_lengths() -> None:
    scenario = load("first_look")
    lines = islice(plan_lines(scenario, scenario.streams[0].name, 1, Limits(max_model_len=64), None), 1, 100)
    assert all(line["prompt_tokens"] + line["output_tokens"] <= 64 for line in lines)


def test_an_unknown_stream_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ScenarioError, match="known: visitors"):
        list(plan_lines(load("first_look"), "x", 1, Limits(), None))
    assert main(["--scenario", "first_look", "--plan", "x"]) == 2
    assert json.loads(capsys.readouterr().err)["error"]["param"] == "stream"


def test_who_has_read_enough_may_hang_up() -> None:
    command = [sys.executable, "-m", "loadgen", "--scenario", "steady", "--plan", "users"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as child:
        assert child.stdout is not None and child.stderr is not None
        assert json.loads(child.stdout.readline())["users"]
        child.stdout.close()
        assert child.wait(30) == 0
        assert child.stderr.read() == b""
