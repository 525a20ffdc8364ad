"""The command line: listing is quick and free of Locust, a wrong scenario is refused with its field, reports are made."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loadgen.__main__ import environment, locust_command, main, parse_arguments
from loadgen.library import load
from loadgen.params import parse_pairs, split_pairs

ROOT = Path(__file__).parents[2]


def test_the_list_has_what_a_form_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--json"]) == 0
    listed = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    users = next(param for param in listed["steady"]["parameters"] if param["name"] == "users")
    assert users == {
        "name": "users", "type": "int", "default": 8, "low": 1.0, "high": 10000.0, "choices": [], "help": "users at once",
    }  # fmt: skip
    assert listed["tutorial"]["scheduler"]["batching"] == "static"


def test_listing_imports_no_locust_and_no_gevent() -> None:
    code = (
        "import sys; from loadgen.__main__ import main; main(['--list']); print(sorted({'locust', 'gevent'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


def test_a_check_settles_parameters_and_sends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "poisson", "--check", "--json", "--set", "rate=3.5"]) == 0
    assert json.loads(capsys.readouterr().out)["values"]["rate"] == 3.5


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--scenario", "nothing"], "scenario"),
        (["--scenario", "poisson", "--set", "rate=-1"], "rate"),
        (["--scenario", "poisson", "--set", "speed=1"], "speed"),
        (["--scenario", "poisson", "--set", "rate"], "rate"),
        (["--scenario", "shape", "--set", "shape=0:1 20-8"], "shape"),
        (["--scenario", "shape", "--offered", "--set", "shape=5:1"], "shape"),
    ],
)
def test_a_wrong_scenario_is_a_usage_error_that_names_its_field(
    arguments: list[str], field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert json.loads(capsys.readouterr().err)["error"]["param"] == field


def test_what_is_offered_is_printed_and_nothing_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "shape", "--offered", "--set", "shape=0:1 20:8", "--set", "duration_s=20"]) == 0
    assert json.loads(capsys.readouterr().out)["streams"][0]["expected"] == 90


def test_a_line_of_pairs_may_hold_values_of_several_words() -> None:
    assert split_pairs("users=4, shape=0:1 20:8 rate=2") == ["users=4", "shape=0:1 20:8", "rate=2"]
    assert split_pairs("oops users=4") == ["oops", "users=4"]


def test_the_command_line_of_locust_carries_the_scenario() -> None:
    options = parse_arguments(["--scenario", "steady", "--set", "users=5", "--run", "r", "--processes", "2"])
    command = locust_command(options, load("steady", parse_pairs(options.set)))
    for flag, value in (("--users", "5"), ("--processes", "2"), ("--master-bind-host", "127.0.0.1")):
        assert command[command.index(flag) + 1] == value
    assert "--run-id=r" in command and "--set=users=5" in command  # one word: no value can be read as a flag
    assert "--headless" in command and "--out" not in command


def test_settings_of_another_locust_do_not_leak_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCUST_USERS", "9")
    assert "LOCUST_USERS" not in environment() and str(ROOT) in environment()["PYTHONPATH"]


def test_a_report_needs_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--report", str(tmp_path)]) == 1
    assert "requests.jsonl" in capsys.readouterr().err


def test_a_report_is_made_of_what_a_run_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "requests.jsonl").write_bytes(b"")
    (tmp_path / "run.json").write_text(json.dumps({"run": "r", "scenario": load("steady").as_json()}))
    assert main(["--report", str(tmp_path)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["run"], shown["scenario"], shown["reconciliation"]["sent"]) == ("r", "steady", 0)
    assert shown["goodput"]["slo"] == {"ttft_ms": 1000.0, "tpot_ms": 150.0}
