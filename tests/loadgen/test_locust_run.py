"""Locust itself, in a child: headless runs, stops, foreign servers, several processes, and plain `locust -f`."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeRequest, FakeServer, refusal, well_behaved

from loadgen.results import read_lines

ROOT = Path(__file__).parents[2]
FIGURES = ("ok", "failed", "refused", "cancelled", "incomplete")


def start(*arguments: str, module: str = "loadgen", orders: bool = False) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", module, *arguments]
    stdin = subprocess.PIPE if orders else subprocess.DEVNULL
    return subprocess.Popen(command, cwd=ROOT, env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(child: subprocess.Popen[bytes]) -> tuple[int, list[dict[str, Any]], str]:
    out, err = child.communicate(timeout=60)
    return child.returncode, [json.loads(line) for line in out.splitlines()], err.decode()


def run(server: FakeServer, out: Path, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    return finish(start("--url", server.url, "--out", str(out), *arguments))


def test_a_headless_run_records_posts_and_adds_up(tmp_path: Path) -> None:
    def script(request: FakeRequest) -> Any:
        n = int(request.headers["x-request-id"].rpartition("-")[2])
        return refusal(429) if n % 10 == 3 else well_behaved(0.02, 0.005)(request)

    arguments = ["--scenario", "steady", "--run", "r1", "--set", "duration_s=2", "--set", "users=4", "--set", "output_tokens=8"]
    with FakeServer(script) as server:
        code, lines, err = run(server, tmp_path, *arguments)
    rows = read_lines(tmp_path / "requests.jsonl")
    last = lines[-1]
    assert (code, err) == (0, "")
    assert last["sent"] == sum(last[name] for name in FIGURES) == len(rows) == len(server.posts) > 20
    assert last["refused"] > 0 and last["in_flight"] == 0 and last["type"] == "progress"
    assert sorted(row["id"] for row in server.records) == sorted(row["id"] for row in rows)
    assert {row["id"] for row in rows} == {post.headers["x-request-id"] for post in server.posts}
    assert ("POST", "/api/runs") not in server.control
    assert server.connections == 4
    about = json.loads((tmp_path / "run.json").read_bytes())
    assert about["totals"]["sent"] == len(rows) and about["scenario"]["values"]["users"] == 4


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_keeps_what_there_is(tmp_path: Path, how: signal.Signals) -> None:
    with FakeServer(well_behaved(0.05, 30.0)) as server:
        child = start("--url", server.url, "--out", str(tmp_path), "--scenario", "poisson", "--run", "r", "--set", "rate=20")
        while len(server.posts) < 10:
            assert child.poll() is None
            time.sleep(0.02)
        began = time.monotonic()
        child.send_signal(how)
        code, lines, _ = finish(child)
    rows = read_lines(tmp_path / "requests.jsonl")
    assert code == 0 and time.monotonic() - began < 9
    assert len(rows) == len(server.posts) == lines[-1]["sent"] == lines[-1]["incomplete"]
    assert {row["status"] for row in rows} == {"incomplete"} and all(row["first_ms"] is not None for row in rows)
    assert {row["id"] for row in server.records} == {row["id"] for row in rows}


def test_a_run_whose_starter_died_stops_by_itself(tmp_path: Path) -> None:
    with FakeServer(well_behaved(0.02, 0.005)) as server:
        arguments = ["--scenario", "steady", "--run", "r", "--set", "duration_s=50"]
        child = start("--url", server.url, "--out", str(tmp_path), *arguments)
        assert child.stdout is not None and b"progress" in child.stdout.readline()
        child.stdout.close()
        child.stdout = None
        _, err = child.communicate(timeout=20)
    rows = read_lines(tmp_path / "requests.jsonl")
    assert child.returncode == 0 and err.decode() == "loadgen: nobody reads the progress any more: the run stops\n"
    assert {row["id"] for row in server.records} == {row["id"] for row in rows} and len(rows) == len(server.posts) > 0


def test_a_foreign_server_is_loaded_all_the_same(tmp_path: Path) -> None:
    with FakeServer(batchscope=False) as server:
        code, lines, err = run(server, tmp_path, "--scenario", "tutorial")
    rows = read_lines(tmp_path / "requests.jsonl")
    assert code == 0 and err == "" and len(rows) == 5 == lines[-1]["ok"]
    prompts = [post.json["prompt"] for post in sorted(server.posts, key=lambda post: post.at)]
    assert prompts[0] == "Hello, how are you?" and len(prompts) == 5
    assert [round(row["due_ms"]) for row in sorted(rows, key=lambda row: row["n"])] == [0, 100, 200, 300, 400]


def test_a_named_run_at_a_server_without_records_says_so_once(tmp_path: Path) -> None:
    with FakeServer(batchscope=False) as server:
        code, _, err = run(server, tmp_path, "--scenario", "tutorial", "--run", "mine")
    assert code == 0 and err.count("stay in requests.jsonl only") == 1
    assert len(read_lines(tmp_path / "requests.jsonl")) == 5


def test_first_look_measures_and_then_offers_more(tmp_path: Path) -> None:
    arguments = ["--scenario", "first_look", "--run", "r", "--set", "duration_s=6", "--set", "probe_s=2", "--set", "drain_s=0"]
    with FakeServer(well_behaved(0.5, 0.02)) as server:
        code, lines, _ = run(server, tmp_path, *arguments)
    rows = read_lines(tmp_path / "requests.jsonl")
    assert code == 0 and lines[-1]["capacity"] > 100
    assert lines[-1]["sent"] == sum(lines[-1][name] for name in FIGURES) == len(rows)
    measured, offered = [r for r in rows if r["due_ms"] is None], [r for r in rows if r["due_ms"] is not None]
    assert len(measured) >= 24 and offered and min(r["due_ms"] for r in offered) > 1900
    assert {row["tenant"] for row in rows} == {"a", "b"} and {row["kind"] for row in rows} == {"short", "long"}


def test_two_processes_play_one_schedule(tmp_path: Path) -> None:
    arguments = ["--scenario", "poisson", "--run", "r", "--processes", "2", "--set", "rate=30", "--set", "duration_s=2"]
    with FakeServer() as server:
        code, lines, _ = run(server, tmp_path, *arguments, "--set", "output_tokens=2")
    rows = read_lines(tmp_path / "requests.jsonl")
    assert code == 0 and lines[-1]["workers_lost"] == 0
    assert lines[-1]["sent"] == sum(lines[-1][name] for name in FIGURES) == len(rows) == len({row["id"] for row in rows})
    assert {row["n"] % 2 for row in rows} == {0, 1} and {row["id"] for row in server.records} == {row["id"] for row in rows}
    lateness = sorted(row["sent_ms"] - row["due_ms"] for row in rows)
    assert lateness[len(lateness) // 2] < 50


def test_orders_change_the_rate_of_every_process_and_end_the_run_at_once(tmp_path: Path) -> None:
    arguments = ["--scenario", "poisson", "--run", "r", "--processes", "2", "--set", "rate=10", "--set", "duration_s=50"]
    with FakeServer(well_behaved(30.0)) as server:
        child = start("--url", server.url, "--out", str(tmp_path), *arguments, "--orders", orders=True)
        assert child.stdin is not None and child.stdout is not None
        said = json.loads(child.stdout.readline())
        assert said["rate_factor"] == 1.0 and said["rate_changes"] == []
        child.stdin.write(b'{"rate_factor": 10}\nnonsense\n')
        child.stdin.flush()
        while not said["rate_changes"] or said["t"] < said["rate_changes"][0]["at_s"] + 1.5:
            said = json.loads(child.stdout.readline())
        began = time.monotonic()
        child.stdin.write(b'{"stop": "now"}\n')
        code, lines, err = finish(child)
    rows = read_lines(tmp_path / "requests.jsonl")
    at_ms = said["rate_changes"][0]["at_s"] * 1e3
    after = [row for row in rows if at_ms <= row["due_ms"] < at_ms + 1000]
    assert code == 0 and "no order: b'nonsense" in err and time.monotonic() - began < 9
    assert len(after) == pytest.approx(100, abs=40) and {row["n"] % 2 for row in after} == {0, 1}
    assert len(rows) == lines[-1]["sent"] == lines[-1]["incomplete"] and lines[-1]["rate_factor"] == 10.0


def test_plain_locust_registers_its_run_and_closes_it() -> None:
    with FakeServer(well_behaved(0.02)) as server:
        arguments = ["-f", "loadgen/locustfile.py", "--headless", "--host", server.url, "--scenario", "poisson"]
        child = start(*arguments, "--set", "duration_s=1.5", "--set", "rate=10", module="locust")
        out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err.decode()
    assert server.control[:2] == [("GET", "/v1/models"), ("POST", "/api/runs")]
    assert server.control[-1] == ("POST", "/api/runs/run-of-fake/stop")
    assert len(server.records) == len(server.posts) > 3
    assert {post.headers["x-batchscope-run"] for post in server.posts} == {"run-of-fake"}
    assert b"interactive" in err  # Locust's own table counts them too


def test_locusts_page_starts_one_run_after_another() -> None:
    with FakeServer(well_behaved(0.02)) as server, closing(socket.create_server(("127.0.0.1", 0))) as taken:
        page = f"http://127.0.0.1:{taken.getsockname()[1]}"
        taken.close()
        arguments = ["-f", "loadgen/locustfile.py", "--host", server.url, "--web-host", "127.0.0.1"]
        child = start(*arguments, "--web-port", page.rpartition(":")[2], module="locust")
        while not ask(page + "/stats/requests"):
            assert child.poll() is None
            time.sleep(0.1)
        ask(page + "/swarm", user_count=3, spawn_rate=3, scenario="steady", set="output_tokens=4", seed=1, model="")
        time.sleep(1.2)
        ask(page + "/stop", now="yes")
        first = len(server.posts)
        ask(page + "/swarm", user_count=1, spawn_rate=1, scenario="poisson", set="rate=20 duration_s=2", seed=4, model="")
        while server.control.count(("POST", "/api/runs/run-of-fake/stop")) < 2:
            time.sleep(0.1)
        child.terminate()
        child.communicate(timeout=30)
    assert first > 10 and len(server.posts) - first == 41
    assert len(server.records) == len(server.posts) and child.returncode == 0


def ask(url: str, **form: object) -> bytes:
    """What Locust's page answers; nothing while it is not up. A POST if there is a form."""
    data = urllib.parse.urlencode(form).encode() if form else None
    try:
        with urllib.request.urlopen(url, data, timeout=20) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.URLError:
        return b""


def test_nobody_to_load_is_a_failure_with_a_reason(tmp_path: Path) -> None:
    code, _, err = finish(start("--url", "http://127.0.0.1:1", "--scenario", "steady", "--out", str(tmp_path)))
    assert code == 1 and "127.0.0.1:1" in err
