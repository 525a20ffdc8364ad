"""The `batchscope` command: what a person types, against a real server and the database that it leaves behind."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from live_server import ROOT, LiveServer

from app.cli import main
from app.cli.command import parser
from app.cli.load import progress, scenario_values
from app.store.export import csv_head, csv_rows
from scheduler.errors import SettingsError
from scheduler.runners.cost_model import available

VERDICTS = r"valid: |.*; (host|generator) limited: "  # on a busy machine a run may be limited by it


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server on simulated hardware that has played the tutorial's five requests."""
    directory = tmp_path_factory.mktemp("cli") / "data"
    with LiveServer(directory, "--runner", "simulated", "--hardware", "h100-llama-3.1-8b-tp1-bf16") as running:
        assert main(["load", "tutorial", "--data-dir", str(directory)]) == 0
        yield running


@pytest.fixture
def say(server: LiveServer, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command on the server's data directory; its output. The exit code must be 0."""

    def run(*words: str) -> str:
        capsys.readouterr()
        assert main([*words, "--data-dir", str(server.data_dir)]) == 0
        return capsys.readouterr().out

    return run


# ---- words


def words_of(top: argparse.ArgumentParser, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and subcommand."""
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield (*before, name)
                yield from words_of(below, (*before, name))


COMMANDS = list(words_of(parser()))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--help"]) == 0
    assert f"batchscope {' '.join(words)}" in capsys.readouterr().out


def test_commands_are_those_of_the_contract() -> None:
    names = {" ".join(words) for words in COMMANDS}
    assert {"serve", "load", "scenarios", "runs", "runs delete", "report", "compare", "requests", "requests show"} <= names
    assert {"runs export", "runs import", "simulate", "calibrate"} <= names
    assert {f"db {verb}" for verb in ("upgrade", "check", "backup", "prune")} <= names


@pytest.mark.parametrize("words", [["nonsense"], [], ["db"], ["load"], ["requests", "--limit", "0"], ["compare", "one"]])
def test_wrong_usage_exits_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err


def test_a_directory_without_records_is_a_failure_that_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["requests", "--data-dir", str(tmp_path)]) == 1
    assert "batchscope serve" in capsys.readouterr().err
    assert not list(tmp_path.iterdir()), "reading makes nothing"


# ---- serve


def test_serve_check_shows_flags_over_environment_over_defaults(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BATCHSCOPE_PORT", "8111")
    monkeypatch.setenv("BATCHSCOPE_RUNNER", "null")
    monkeypatch.setenv("BATCHSCOPE_API_KEY", "a client's variable, none of the server's")
    assert main(["serve", "--check", "--json", "--port", "8222"]) == 0
    settings = json.loads(capsys.readouterr().out)
    assert (settings["port"], settings["runner"], settings["host"]) == (8222, "null", "127.0.0.1")


@pytest.mark.parametrize("flags", [["--set", "max_num_seqs=0"], ["--host", "0.0.0.0"], ["--nonsense"], ["--runner", "gpu"]])
def test_serve_check_refuses_what_the_server_would_refuse(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--check", *flags]) == 2
    assert capsys.readouterr().err.startswith("batchscope: ")


def test_the_servers_help_lists_the_hardware_and_is_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    said = capsys.readouterr().out
    assert set(available()) <= set(said.split()) and "`" not in said and "or simulated without torch" in " ".join(said.split())


def test_serve_becomes_the_server_without_importing_it_first() -> None:
    code = "import sys; from app.cli import main; main(['serve', '--help']); assert 'gevent' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_make_run_says_when_its_server_is_ready_and_leaves_others_alone(server: LiveServer, tmp_path: Path) -> None:
    # The shell stands for the server: it is the parent, and server.json has its pid.
    told, ready = tmp_path / "server.json", f"{sys.executable} -m app.cli.ready $(date +%s) $$ --data-dir {tmp_path}"
    own = f"""echo '{{"url": "{server.url}", "pid": '$$'}}' > {told}; {ready} & wait"""
    others = f"""echo '{{"url": "{server.url}", "pid": 0}}' > {told}; {ready} & sleep 2"""
    orphan = f"{ready} & exit"  # its parent is gone before it looks: it ends, too
    said = [
        subprocess.run(["bash", "-c", script], cwd=ROOT, check=True, capture_output=True, text=True, timeout=30).stdout
        for script in (own, others, orphan)
    ]
    took = r"\d+\.\d s after `make run` began\.\n"
    assert re.fullmatch(f"Ready {took}The first bar moved {took}", said[0]) and said[1:] == ["", ""]


# ---- load


def test_load_prints_its_headline_first_and_reconciles(say: Callable[..., str]) -> None:
    said = say("load", "tutorial", "--seed", "3")
    assert re.match(VERDICTS, said) and "sent 5 = 5 ok + 0 failed" in said and "server rows 5, difference 0" in said


def test_load_with_json_prints_the_report_alone(say: Callable[..., str], tmp_path: Path) -> None:
    report = json.loads(say("load", "tutorial", "--json", "--out", str(tmp_path / "out")))
    assert report["reconciliation"]["sent"] == 5
    assert json.loads((tmp_path / "out/report.json").read_text()) == report


def test_load_refuses_an_unknown_scenario_and_a_bad_parameter(server: LiveServer) -> None:
    assert main(["load", "nope", "--data-dir", str(server.data_dir)]) == 2
    assert main(["load", "poisson", "--set", "rate=-1", "--data-dir", str(server.data_dir)]) == 2
    assert main(["load", "tutorial", "--scheduler", "max_num_seqs=many", "--data-dir", str(server.data_dir)]) == 2
    assert main(["load", "tutorial", "--url", "http://192.0.2.1:8000"]) == 2, "only this machine is loaded"


def test_ctrl_c_stops_the_run_and_reports_what_there_is(server: LiveServer) -> None:
    words = ["load", "poisson", "--set", "duration_s=60", "--set", "rate=10", "--data-dir", str(server.data_dir), "--json"]
    # A shell has the signal ignored in what it runs in the background.
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [sys.executable, "-c", f"{heeds}; import sys; from app.cli import main; sys.exit(main(sys.argv[1:]))", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        until(lambda: any((run["progress"] or {}).get("ok", 0) > 2 for run in active(server)))
        shown = active(server)[0]["progress"]["ok"]
        until(lambda: active(server)[0]["progress"]["ok"] > shown + 5)  # what is asked again has gone on
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    report = json.loads(out)
    assert child.returncode == 0 and report["run"]["status"] == "stopped"
    counts = report["reconciliation"]
    terms = ("ok", "failed", "refused", "cancelled", "incomplete")
    assert 0 < counts["sent"] == sum(counts[term] for term in terms)


def active(server: LiveServer) -> list[dict[str, Any]]:
    """Runs that are under way."""
    return [run for run in server.get("/api/runs")["items"] if run["status"] == "running"]


def until(question: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for it."""
    end = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_parameters_are_typed_by_the_scenario() -> None:
    assert scenario_values("poisson", ["rate=3", "prompt_tokens=100"]) == {"rate": 3.0, "prompt_tokens": 100}
    with pytest.raises(SettingsError, match=r"prompt_tokens must be of type int"):
        scenario_values("poisson", ["prompt_tokens=many"])


def test_progress_says_share_clock_and_counts() -> None:
    run = {"status": "running", "duration_s": 40.0, "progress": {"t": 10.0, "sent": 7, "ok": 5, "failed": 1, "in_flight": 1}}
    assert progress(run) == (0.25, "running  10 of 40 s  7 sent, 5 ok, 1 failed, 0 refused, 1 in flight")
    late = run | {"status": "draining", "progress": run["progress"] | {"t": 46.0}}  # type: ignore[operator]
    assert progress(late)[1].startswith("draining  6 s after 40 s of sending  7 sent, "), "draining is no part of the 40 s"
    assert progress({"status": "pending", "duration_s": None, "progress": None})[0] is None


# ---- history


def test_requests_show_the_same_from_the_server_and_from_its_database(say: Callable[..., str], server: LiveServer) -> None:
    asked = ["requests", "--sort", "-e2e_ms", "--limit", "3"]
    live = json.loads(say(*asked, "--json"))
    aside = server.data_dir.parent / "copy"
    copy_database(server.data_dir, aside)
    stored = subprocess.run(
        [sys.executable, "-c", "import sys; from app.cli import main; sys.exit(main(sys.argv[1:]))", *asked, "--json"],
        cwd=ROOT, check=True, capture_output=True, text=True, env={**os.environ, "BATCHSCOPE_DATA_DIR": str(aside)},
    ).stdout  # fmt: skip
    assert json.loads(stored) == live and len(live["items"]) == 3


def copy_database(directory: Path, aside: Path) -> None:
    """A copy as SQLite makes one, of a database in use."""
    aside.mkdir()
    with (
        closing(sqlite3.connect(directory / "batchscope.db")) as there,
        closing(sqlite3.connect(aside / "batchscope.db")) as here,
    ):
        there.backup(here)


def test_filters_reach_the_records(say: Callable[..., str]) -> None:
    every, some = json.loads(say("requests", "--json")), json.loads(say("requests", "--json", "--min-queue-ms", "100"))
    slow = [item for item in every["items"] if item["queue_ms"] >= 100]
    assert 0 < some["total"] == len(slow) < every["total"]
    assert json.loads(say("requests", "--json", "--tenant", "nobody"))["items"] == []


def test_a_search_line_and_sql_ask_the_same(say: Callable[..., str], server: LiveServer, tmp_path: Path) -> None:
    found = json.loads(say("requests", "--json", "--q", "queue>=0.1s", "--sort", "-queue_ms"))["items"]
    text = server.get("/api/requests/sql?q=queue%3E%3D100ms&sort=-queue_ms")["sql"]
    ids = [item["id"] for item in found]
    assert [row[0] for row in json.loads(say("sql", text, "--json"))["rows"]] == ids and ids
    assert [line["id"] for line in map(json.loads, say("sql", text, "--format", "jsonl").splitlines())] == ids
    assert say("sql", "SELECT '=1' AS x", "--format", "csv") == "x\r\n'=1\r\n" and "one" in say("sql", "SELECT 'one' AS n")
    copy_database(server.data_dir, tmp_path / "aside")
    aside = ["--data-dir", str(tmp_path / "aside")]
    assert main(["sql", text, *aside]) == 0 and main(["sql", "DELETE FROM requests", *aside]) == 2
    assert main(["requests", "--q", "queue>5", *aside]) == 2


def test_lines_and_csv_hold_every_request(say: Callable[..., str]) -> None:
    total = json.loads(say("requests", "--json"))["total"]
    lines = [json.loads(line) for line in say("requests", "--format", "jsonl").splitlines()]
    rows = list(csv.DictReader(io.StringIO(say("requests", "--format", "csv"))))
    assert len(lines) == len(rows) == total
    assert [row["id"] for row in rows] == [line["id"] for line in lines]
    assert all("wait_kv_blocks_ms" in row for row in rows)


def test_a_list_that_is_cut_off_says_of_how_many(say: Callable[..., str]) -> None:
    total = json.loads(say("requests", "--json"))["total"]
    assert say("requests", "--limit", "2").splitlines()[-1] == f"2 of {total} (--limit)"
    assert "(--limit)" not in say("requests", "--limit", str(total)) + say("requests", "--limit", str(total + 1))
    assert "(--limit)" not in say("requests", "--limit", "2", "--format", "jsonl")


def test_a_report_names_the_requests_to_look_at(say: Callable[..., str]) -> None:
    run = json.loads(say("runs", "--json"))["items"][-1]["id"]
    said = say("report", run)
    slow = json.loads(say("requests", "--run", run, "--sort", "-e2e_ms", "--limit", "1", "--json"))["items"][0]["id"]
    assert f"({slow})" in next(line for line in said.splitlines() if line.startswith("slowest: TTFT"))


def test_the_shell_and_http_write_the_same_csv(say: Callable[..., str]) -> None:
    item = json.loads(say("requests", "--json", "--limit", "1"))["items"][0]
    assert say("requests", "--format", "csv", "--limit", "1") == (csv_head() + csv_rows([item])).decode()


def test_one_request_is_shown_with_its_time_accounted_for(say: Callable[..., str]) -> None:
    item = json.loads(say("requests", "--json", "--limit", "1"))["items"][0]
    page = say("requests", "show", item["id"])
    assert "E2E" in page and "RequestFinished" in page and "prefill" in page and item["id"] in page
    detail = json.loads(say("requests", "show", item["id"], "--json"))
    assert len(detail["slices"]["step"]) >= item["output_tokens"]


def test_what_is_not_there_fails_and_a_wrong_filter_is_usage(server: LiveServer, capsys: pytest.CaptureFixture[str]) -> None:
    directory = ["--data-dir", str(server.data_dir)]
    assert main(["requests", "show", "req_nope", *directory]) == 1
    assert main(["report", "run_nope", *directory]) == 1
    assert main(["requests", "--sort", "beauty", *directory]) == 2
    assert "beauty" in capsys.readouterr().err


def test_a_file_that_cannot_be_opened_is_named_in_words(
    say: Callable[..., str], server: LiveServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, absent = json.loads(say("runs", "--json"))["items"][0]["id"], str(tmp_path / "not_there" / "file")
    of_a_file = (
        ["simulate", "--trace", absent], ["runs", "import", absent], ["runs", "export", run, "-o", absent],
        ["report", run, "--html", absent], ["db", "backup", absent],
    )  # fmt: skip
    for words in of_a_file:
        assert main([*words, "--data-dir", str(server.data_dir)]) in (1, 2), words
        said = capsys.readouterr().err
        assert "not_there" in said and "o such file or directory" in said and "Errno" not in said, said


def test_runs_are_listed_reported_compared_and_deleted(say: Callable[..., str]) -> None:
    say("load", "tutorial", "--scheduler", "max_num_seqs=4")
    ids = [run["id"] for run in json.loads(say("runs", "--json"))["items"]]
    assert all(run in say("runs") for run in ids)
    assert say("runs").count("h100-llama-3.1-8b-tp1-bf16 (simulated)") >= len(ids), "what it ran on, which is not here"
    assert re.match(VERDICTS, say("report", ids[0]))
    assert "max_num_seqs" in say("compare", ids[0], ids[1])
    assert json.loads(say("compare", ids[0], ids[1], "--json"))["metrics"]
    say("runs", "delete", ids[0])
    assert ids[0] not in [run["id"] for run in json.loads(say("runs", "--json"))["items"]]


# ---- the database


def test_a_simulation_of_the_servers_run_is_taken_over_by_the_server(say: Callable[..., str], server: LiveServer) -> None:
    played = json.loads(say("runs", "--json"))["items"][-1]["id"]
    report = json.loads(say("simulate", "--run", played, "--json"))
    run, sent = report["run"]["id"], report["reconciliation"]["sent"]
    assert sent == json.loads(say("report", played, "--json"))["reconciliation"]["sent"]
    assert json.loads(say("report", run, "--json"))["simulated"] is True
    assert not any(item["run"] == run for item in server.get("/api/requests?limit=1000")["items"])
    assert len(server.get(f"/api/requests?run={run}")["items"]) == sent
    assert list((server.data_dir / "simulations").iterdir()) == []
    for name in ("../batchscope", run):
        with pytest.raises(urllib.error.HTTPError) as caught:
            server.post("/api/runs/adopt", {"run": name})
        assert caught.value.code == 404, "there is no such file, or no longer"
        caught.value.close()  # else its socket is found open by whoever collects garbage next
    shapes = server.get(f"/api/runs/{run}/shapes")
    assert len(shapes["columns"]["ms"]) == report["steps"]["n"] and shapes["left_out"] == 0
    say("runs", "delete", run)
    assert server.get(f"/api/requests?run={run}")["items"] == []


def test_upgrade_is_refused_while_a_server_holds_the_directory(server: LiveServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["db", "upgrade", "--data-dir", str(server.data_dir)]) == 1
    assert "holds" in capsys.readouterr().err


def test_upgrade_makes_a_database_that_is_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["db", "upgrade", "--json", "--data-dir", str(tmp_path)]) == 0
    revision = json.loads(capsys.readouterr().out)["revision"]
    assert main(["db", "check", "--json", "--data-dir", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sound"] and found["revision"] == revision
    assert main(["requests", "--data-dir", str(tmp_path)]) == 0


def test_a_damaged_database_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["db", "upgrade", "--data-dir", str(tmp_path)]) == 0
    names = "boot seq step started_at ended_at ended_wall token_budget prefill_tokens decode_tokens binding waiting running"
    names += " preempted blocks_free host_late_ns slices"
    values = (1, 1, 1, 9, 3, 3, 1, 1, 0, "step", 0, 1, 0, 1, 0, b"")
    with closing(sqlite3.connect(tmp_path / "batchscope.db")) as connection, connection:
        connection.execute(f"INSERT INTO steps ({', '.join(names.split())}) VALUES ({', '.join('?' * len(values))})", values)
    assert main(["db", "check", "--data-dir", str(tmp_path)]) == 1
    assert "1 steps end before they begin" in capsys.readouterr().out
