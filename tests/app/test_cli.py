"""The `batchscope` command: what a person types, against a real server, the database it leaves behind, and a foreign server."""

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
import threading
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from live_server import ROOT, LiveServer

from app.cli import main
from app.cli.command import parser
from app.cli.load import progress, scenario_values
from app.cli.report_text import report_text
from app.cli.terminal import ProgressLine, number, table
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


# ---- a server that is not ours


class Foreign(BaseHTTPRequestHandler):
    """An OpenAI-compatible server without records: streams three tokens and a usage."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        known = self.path == "/v1/models"
        self._answer(200 if known else 404, json.dumps({"data": [{"id": "other", "max_model_len": 4096}]}).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.startswith("/v1/"):
            self._answer(404, b"{}")
            return
        pieces = [{"choices": [{"index": 0, "text": text, "finish_reason": None}]} for text in ("a", "b", "c")]
        pieces.append({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})
        pieces.append({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}})
        body = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"
        self._answer(200, body.encode(), "text/event-stream")

    def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def test_a_foreign_server_gets_the_generator_and_a_report_of_the_client_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = ThreadingHTTPServer(("127.0.0.1", 0), Foreign)
    thread = threading.Thread(target=foreign.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{foreign.server_address[1]}"
        code = main(["load", "tutorial", "--url", url, "--out", str(tmp_path / "out")])
        assert main(["load", "tutorial", "--url", url, "--scheduler", "max_num_seqs=2"]) == 2
    finally:
        foreign.shutdown()
        foreign.server_close()
        thread.join()
    said = capsys.readouterr().out
    assert code == 0 and said.startswith("client-only report") and "sent 5 = 5 ok" in said and "server rows" not in said
    assert len((tmp_path / "out/requests.jsonl").read_text().splitlines()) == 5


# ---- text


def test_tables_align_and_print_a_dash_for_null() -> None:
    text = table([{"a": "x", "n": 1.5}, {"a": "long", "n": None}], [("a", "name"), ("n", "ms")])
    assert text.splitlines() == ["name     ms", "x     1.500", "long      —"]


@pytest.mark.parametrize(
    ("value", "text"), [(None, "—"), (0.0, "0"), (0.1234, "0.123"), (12.34, "12.3"), (1234.5, "1234"), (float("nan"), "—")]
)
def test_numbers_have_four_figures_at_most(value: float | None, text: str) -> None:
    assert number(value) == text


def test_progress_to_a_file_is_a_plain_line_each_ten_seconds() -> None:
    stream, now = io.StringIO(), 0.0
    line = ProgressLine(stream, lambda: now)
    for now in (0.5 * n for n in range(50)):
        line.show(now / 25, f"at {now:g}")
    line.end()
    assert stream.getvalue() == "at 10\nat 20\n"


def test_percentiles_of_too_few_are_in_parentheses() -> None:
    figures = {"p50": 10.0, "p90": 20.0, "p95": 30.0, "p99": 40.0, "n": 12, "few": ["p95", "p99"]}
    counts = dict.fromkeys(("sent", "ok", "failed", "refused", "cancelled", "incomplete"), 0)
    goodput = {"slo": {"ttft_ms": 1000.0}, "per_s": None, "attainment": None}
    text = report_text(
        {"headline": "valid: it held", "percentiles": {"ttft_ms": figures}, "reconciliation": counts, "goodput": goodput}
    )
    assert text.startswith("valid: it held\n") and "(30)" in text and "(20)" not in text
