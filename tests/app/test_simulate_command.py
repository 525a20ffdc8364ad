"""`batchscope simulate` and `calibrate` as a person types them, with no server: kept, reported, stopped, refused."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.cli import hand_over, main
from app.cli import simulate as command
from app.cli.demand import Demand
from app.cli.simulate import Watch, progress_text
from app.cli.terminal import ProgressLine
from app.store.queries import Queries
from scheduler.runners import cost_model
from scheduler.simulate import Progress

SECOND = 1_000_000_000
Say = Callable[..., Any]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def say(data: Path, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command with --json on the data directory; its answer. The exit code must be 0."""

    def run(*words: str) -> Any:
        capsys.readouterr()
        assert main([*words, "--json", "--data-dir", str(data)]) == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Quiet and busy times: steps of all three sorts, many of them."""
    path, at, lines = tmp_path / "trace.jsonl", 0.0, []
    for n in range(120):
        at += 10 if n % 40 < 25 else 900
        lines.append(
            {"arrival_ms": at, "prompt_tokens": 20 + 37 * (n % 17), "output_tokens": 4 + n % 29, "tenant": "ab"[n % 2]}
        )
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_a_trace_is_kept_and_reported_like_a_load_run(say: Say, data: Path, trace: Path, tmp_path: Path) -> None:
    report = say(
        "simulate", "--trace", str(trace), "--policy", "sjf", "--set", "max_num_seqs=4", "--out", str(tmp_path / "out")
    )
    assert (report["verdict"], report["simulated"], report["reconciliation"]["ok"]) == ("valid", True, 120)
    assert report["settings"]["policy"] == "sjf" and report["steps"]["running_max"] == 4
    run = report["run"]
    (listed,) = say("runs")["items"]
    assert (listed["id"], listed["simulated"], listed["target"]) == (
        run["id"],
        True,
        f"simulated:{cost_model.DEFAULT_HARDWARE}",
    )
    assert say("report", run["id"])["percentiles"] == report["percentiles"]
    assert json.loads((tmp_path / "out" / "report.json").read_text())["run"]["id"] == run["id"]
    assert list((data / "simulations").iterdir()) == [], "what was taken over is left behind"


def test_the_same_trace_is_the_same_run(say: Say, trace: Path) -> None:
    one, other = (say("simulate", "--trace", str(trace), "--limit", "40") for _ in range(2))
    assert one["percentiles"] == other["percentiles"] and one["reconciliation"]["sent"] == 40
    compared = say("compare", one["run"]["id"], other["run"]["id"])
    assert not compared["differing"]


def test_a_recorded_run_is_asked_again_under_another_policy(say: Say, trace: Path) -> None:
    first = say("simulate", "--trace", str(trace), "--set", "max_num_seqs=2", "--name", "base")
    again = say("simulate", "--run", first["run"]["id"])
    was, now = (each["percentiles"]["client"]["e2e_ms"] for each in (first, again))
    assert [now[q] for q in ("p50", "p95", "p99")] == pytest.approx([was[q] for q in ("p50", "p95", "p99")], rel=1e-3)
    assert again["settings"] == first["settings"], "a replay has the settings of its run"
    changed = say("simulate", "--run", first["run"]["id"], "--policy", "sjf")
    assert changed["settings"] == first["settings"] | {"policy": "sjf"}
    assert changed["percentiles"]["client"]["e2e_ms"]["p50"] < first["percentiles"]["client"]["e2e_ms"]["p50"]


def test_a_run_calibrates_the_hardware_that_it_ran_on(
    say: Say, data: Path, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = say("simulate", "--trace", str(trace), "--hardware", "a100-llama-3.1-8b-tp1-bf16")
    run, file = first["run"]["id"], tmp_path / "fitted.json"
    fit = say("calibrate", run, "--out", str(file))
    assert all(fit[regime]["mape"] < 0.03 for regime in ("decode", "prefill", "mixed"))
    for hardware in (str(file), f"calibrated:{run}"):
        again = say("simulate", "--trace", str(trace), "--hardware", hardware)
        assert again["run"]["target"] == f"simulated:calibrated:{run}"
        for metric, q in (("ttft_ms", "p90"), ("tpot_ms", "p50"), ("e2e_ms", "p50"), ("e2e_ms", "p90")):
            then, now = (report["percentiles"]["client"][metric][q] for report in (first, again))
            assert now == pytest.approx(then, rel=0.03), (metric, q)
    what_if = ["simulate", "--trace", str(trace), "--limit", "5", "--hardware", str(file), "--data-dir", str(data)]
    assert main([*what_if, "--set", "kv_cache_tokens=1000000"]) == 0, "what its machine holds is not recorded"
    assert "kv_cache_tokens is over the 400080 that the run had" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("steady", ["--param", "duration_s=10", "--param", "users=3"]),
        ("first_look", ["--param", "duration_s=8", "--param", "probe_s=2", "--param", "drain_s=0", "--set", "max_num_seqs=4"]),
        ("tutorial", []),
        ("shape", ["--param", "duration_s=5", "--param", "shape=0:0 5:20", "--param", "output_tokens=4"]),
    ],
)
def test_scenarios_are_played_without_a_load_generator(say: Say, scenario: str, words: list[str]) -> None:
    report = say("simulate", "--scenario", scenario, *words)
    counts = report["reconciliation"]
    assert report["run"]["scenario"] == scenario and report["verdict"] == "valid"
    assert counts["ok"] and counts["sent"] == counts["ok"] + counts["incomplete"]
    if scenario == "steady":
        assert report["steps"]["running_max"] == 3
        assert report["percentiles"]["client"]["ttft_due_ms"]["n"] == 0, "closed loops have no due time"
    if scenario == "shape":
        sent = report["timeline"]["sent"]
        assert sent[0] < sent[4] / 2 and sum(sent) == pytest.approx(50, abs=25), "it goes up to 20 a second"
    if scenario == "first_look":
        assert report["steps"]["waiting_max"] > 0, "1.3 times the measured capacity makes no queue"
        assert counts["incomplete"], "nobody waits for answers beyond drain_s"


def test_ctrl_c_keeps_what_there_is(say: Say, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look, looks = Watch.look, []

    def once(self: Watch, progress: Progress) -> bool:
        looks.append(progress)
        if len(looks) == 3:
            signal.raise_signal(signal.SIGINT)
        return look(self, progress)

    monkeypatch.setattr(Watch, "look", once)
    monkeypatch.setattr(command, "STEPS_A_LOOK", 10)
    before = signal.getsignal(signal.SIGINT)
    report = say("simulate", "--trace", str(trace), "--set", "max_num_seqs=1")
    counts = report["reconciliation"]
    assert report["run"]["status"] == "stopped" and len(looks) == 3
    assert counts["incomplete"] and counts["sent"] == counts["ok"] + counts["incomplete"] < 120
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_is_an_interruption_like_any_other() -> None:
    watch = Watch(Demand({}, lambda requests: None), {"sent": 0})  # type: ignore[arg-type,return-value]
    watch.stop(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):
        watch.stop(signal.SIGINT, None)


def test_progress_says_simulated_time_requests_speed_and_what_is_left() -> None:
    demand = Demand({}, lambda requests: None, requests=200)  # type: ignore[arg-type,return-value]
    done, text = progress_text(Progress(60 * SECOND, 50, 900), demand, 60, took=2.0)
    assert done == 0.25 and text == "simulated 60 s  60 sent, 50 of 200 ended  30 × real time  6 s left"
    timed = Demand({}, lambda requests: None, until=120 * SECOND)  # type: ignore[arg-type,return-value]
    assert progress_text(Progress(30 * SECOND, 5, 9), timed, 6, took=1.0)[0] == 0.25


def test_a_terminal_sees_progress(data: Path, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(ProgressLine, "show", lambda self, done, text: shown.append(text))
    monkeypatch.setattr(command, "SHOW_S", 0.0)
    assert main(["simulate", "--trace", str(trace), "--data-dir", str(data)]) == 0
    assert len(shown) > 1 and all(text.startswith("simulated ") for text in shown)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 2, "one of the arguments --run --trace --scenario is required"),
        (["--trace", "nowhere.csv"], 1, "nowhere.csv"),
        (["--scenario", "nonsense"], 2, "there is no scenario 'nonsense'"),
        (["--scenario", "steady", "--limit", "3"], 2, "--limit belongs to"),
        (["--scenario", "steady", "--param", "x=1"], 2, "no parameter 'x'"),
        (["--run", "run_x"], 1, "holds no records yet"),
        (["--scenario", "tutorial", "--hardware", "h900"], 2, "unknown hardware 'h900'"),
        (["--scenario", "tutorial", "--policy", "nonsense"], 2, "nonsense"),
        (["--scenario", "tutorial", "--set", "max_num_seqs=0"], 2, "max_num_seqs"),
        (["--scenario", "tutorial", "--set", "kv_cache_tokens=1000000"], 2, "kv_cache_tokens is over the 400085 that fit"),
    ],
)
def test_what_cannot_be_simulated_says_why_and_leaves_nothing(
    data: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, says: str
) -> None:
    assert main(["simulate", *words, "--data-dir", str(data)]) == code
    assert says in capsys.readouterr().err
    assert not list(data.glob("simulations/*"))


def test_a_bad_line_of_a_trace_is_named_before_anything_is_simulated(
    data: Path, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace.write_text(trace.read_text() + '\n{"arrival_ms": 1}')
    assert main(["simulate", "--trace", str(trace), "--data-dir", str(data)]) == 1
    assert f"{trace}, line 121" in capsys.readouterr().err
    assert not data.exists() or not list(data.glob("simulations/*"))


def test_a_run_of_too_few_steps_calibrates_nothing(say: Say, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = say("simulate", "--scenario", "tutorial")["run"]["id"]
    assert main(["calibrate", run, "--data-dir", str(data), "--out", str(data / "x.json")]) == 2
    assert "a cost model needs" in capsys.readouterr().err or "too few" in capsys.readouterr().err
    assert not (data / "x.json").exists()


def test_records_that_cannot_take_it_over_leave_the_file(
    data: Path, trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(hand_over, "adopt_here", refuse)
    assert main(["simulate", "--trace", str(trace), "--limit", "5", "--data-dir", str(data)]) == 1
    said = capsys.readouterr().err
    (file,) = data.glob("simulations/*.db")
    assert f"it is whole in {file}" in said and "no room" in said
    assert Queries(f"sqlite:///{file}").run(file.stem)["status"] == "finished"


def test_nothing_it_started_outlives_it(say: Say) -> None:
    threads, children = threading.active_count(), set(psutil.Process().children())
    say("simulate", "--scenario", "steady", "--param", "duration_s=2")
    assert threading.active_count() == threads and set(psutil.Process().children()) == children


def test_a_scenario_brings_its_scheduler_settings_and_the_command_line_goes_before_them(say: Say) -> None:
    settings = say("simulate", "--scenario", "tutorial")["run"]["settings"]
    assert (settings["policy"], settings["batching"], settings["max_num_seqs"]) == ("priority", "static", 2)
    settings = say("simulate", "--scenario", "tutorial", "--policy", "sjf", "--set", "max_num_seqs=3")["run"]["settings"]
    assert (settings["policy"], settings["batching"], settings["max_num_seqs"]) == ("sjf", "static", 3)
