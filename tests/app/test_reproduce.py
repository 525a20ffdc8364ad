"""`batchscope reproduce`: what it prints can be read, and its exit code says whether everything held."""

from __future__ import annotations

import json

import pytest

from app.cli import main
from app.cli.reproduce import experiment_text
from scheduler.experiments import shelf
from scheduler.experiments.figure import Experiment, Part, at_least, at_most, exactly, within

HOLDS = [
    within("mean wait", 0.249, 0.253, 0.05, "Cobham", "s"),
    at_most("largest difference", 3900, 40_000, "VTC", "tokens"),
    at_least("fcfs over srtf", 4.08, 4.0, "theory", "times"),
    exactly("missed", 0, 0, "Dertouzos"),
]
BROKEN = within("mean TTFT", 2.5, 1.0, 0.1, "a paper", "s")


def experiment(*figures: object) -> Experiment:
    return Experiment("tiny", "What is shown.", "A paper (2024)", (Part("once", lambda: figures),))  # type: ignore[arg-type,return-value]


@pytest.fixture
def shelved(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, figures in {"good": HOLDS, "bad": [*HOLDS, BROKEN]}.items():
        monkeypatch.setitem(shelf.EXPERIMENTS, name, experiment(*figures))


def test_each_figure_stands_beside_what_it_must_be() -> None:
    lines = experiment_text(experiment(), {"one server": HOLDS}).splitlines()
    assert lines[0].endswith("What is shown.") and lines[1] == "From: A paper (2024)."
    assert lines[3] == "One server" and lines[4].split() == ["measured", "ours", "must", "be", "holds", "according", "to"]
    assert "0.249 s" in lines[5] and "0.253 s ± 5 %" in lines[5] and lines[5].endswith("yes    Cobham")
    assert "≤ 40,000 tokens" in lines[6] and "≥ 4 times" in lines[7] and "= 0" in lines[8]
    assert lines[-1] == "tiny: all 4 hold"


@pytest.mark.usefixtures("shelved")
def test_a_figure_that_does_not_hold_is_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "good"]) == 0
    assert main(["reproduce", "good", "bad"]) == 1
    shown = capsys.readouterr().out
    assert "NO" in shown and "tiny: 1 of 5 do not hold" in shown


@pytest.mark.usefixtures("shelved")
def test_json_has_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "bad", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["bad"]
    assert told["holds"] is False and told["size"] == "quick" and len(told["figures"]) == 5
    row = {
        "part": "once",
        "what": "mean TTFT",
        "ours": 2.5,
        "rule": "within",
        "reference": 1.0,
        "tolerance": 0.1,
        "unit": "s",
        "source": "a paper",
    }
    assert told["figures"][-1] == row | {"holds": False}


def test_without_a_name_it_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{name}\n" in shown for name in shelf.EXPERIMENTS) and "--full" in shown


def test_an_unknown_name_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "vtz"]) == 2
    assert "'vtz'" in capsys.readouterr().err


def test_a_real_one_runs_from_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "prefix"]) == 0
    assert "hit rate under longest_prefix" in capsys.readouterr().out
