"""Starting and stopping the real server: exit codes, one line each, the lock, the drain."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from live_server import ROOT, LiveServer, wait_until


def start(*arguments: str, **environ: str) -> tuple[int, str]:
    """Start a server that is expected to refuse; its exit code and what it said."""
    command = [sys.executable, "-m", "app.serve", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False, env={**os.environ, **environ}
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize(
    ("arguments", "environ", "said"),
    [
        (["--colour", "red"], {}, "--colour"),
        (["--set", "max_num_seqs=many"], {}, "max_num_seqs"),
        (["--host", "0.0.0.0"], {}, "--api-key-file"),
        ([], {"BATCHSCOPE_COLOUR": "red"}, "BATCHSCOPE_COLOUR"),
        (["--data-dir", "/proc/nowhere"], {}, "/proc/nowhere"),
        (["--api-key-file", "/nowhere/keys"], {}, "/nowhere/keys: no such file or directory"),
        (["--hang-s", "0"], {}, "--hang-s"),
        (["--runner", "simulated", "--hardware", "abacus"], {}, "unknown hardware 'abacus'"),
        (["--runner", "simulated", "--hardware", "h100"], {}, "did you mean h100-llama-3.1-8b-tp1-bf16"),
        (["--policy", "sfj"], {}, "did you mean sjf?"),
        (["--config", "/nowhere/batchscope.toml"], {}, "/nowhere/batchscope.toml"),
        ([], {"BATCHSCOPE_DRAIN": "soon"}, "drain"),
        (["--database-url", "sqlite:////nowhere/records.db"], {}, "/nowhere/records.db"),
    ],
)
def test_what_cannot_be_started_says_why_in_one_line(
    arguments: list[str], environ: dict[str, str], said: str, tmp_path: Path
) -> None:
    defaults = ["--runner", "null", "--port", "0"] + ([] if "--data-dir" in arguments else ["--data-dir", str(tmp_path / "d")])
    code, line = start(*defaults, *arguments, **environ)
    assert code == 2 and said in line and "\n" not in line
    assert not (tmp_path / "d").exists(), "nothing half-created"


@pytest.mark.parametrize(("content", "said"), [(b"", "it holds no key"), (b"\xd7\xff", "it is not text in UTF-8")])
def test_a_key_file_that_is_none_is_named(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(content)
    code, line = start(
        "--runner", "null", "--port", "0", "--data-dir", str(tmp_path / "d"), "--api-key-file", f"{tmp_path}/keys"
    )
    assert code == 2 and f"--api-key-file {tmp_path}/keys: {said}" in line and "\n" not in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--hardware", "rtx4090-llama3.1-8b-tp1-bf16", "--set", "kv_cache_tokens=65536"],
            "kv_cache_tokens is over the 41408 that fit",
        ),
    ],
)
def test_what_the_engine_refuses_is_said_once_and_nothing_was_said_to_serve(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "app.serve",
        "--runner",
        "simulated",
        "--port",
        "0",
        "--data-dir",
        str(tmp_path),
        *arguments,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"batchscope: the engine cannot start: {said}") and done.stderr.count("\n") == 1


def test_a_port_in_use_is_said_so(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = str(taken.getsockname()[1])
        code, line = start("--runner", "null", "--port", port, "--data-dir", str(tmp_path / "new" / "d"))
        assert code == 2 and port in line and "\n" not in line
        assert not (tmp_path / "new").exists(), "nothing half-created"
        (tmp_path / "old").mkdir()
        assert start("--runner", "null", "--port", port, "--data-dir", str(tmp_path / "old"))[0] == 2
        assert (tmp_path / "old").exists() and not list((tmp_path / "old").glob("*.db"))


def test_a_data_directory_has_one_server_and_is_ours_alone(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", "--runner", "null") as server:
        code, line = start("--runner", "null", "--port", "0", "--data-dir", str(tmp_path / "d"))
        assert code == 6 and server.url in line and "\n" not in line
        told = json.loads((tmp_path / "d" / "server.json").read_text())
        assert told == {"url": server.url, "pid": server.process.pid}
        assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o700
        assert server.stop() == 0
    assert not (tmp_path / "d" / "server.json").exists()


def test_a_stop_lets_a_stream_finish_and_refuses_new_work(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", "--runner", "simulated", "--drain", "20") as server:
        with _stream(server, tokens=150) as running:
            wait_until(lambda: server.get("/api/live")["gauges"]["running"] == 1)
            server.process.terminate()
            wait_until(lambda: _status(server) == 503, 5)
            with pytest.raises(urllib.error.HTTPError) as refused:
                server.post("/api/runs", {"external": True})
            assert refused.value.code == 503 and refused.value.headers["Retry-After"], "no load is begun either"
            refused.value.close()
            data = running.read()
        assert data.endswith(b"data: [DONE]\n\n") and b'"finish_reason":"length"' in data
        assert server.process.wait(10) == 0


def test_a_stop_aborts_what_outlasts_the_drain_and_tells_the_client(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", "--runner", "simulated", "--drain", "0.2") as server:
        with _stream(server, tokens=20_000) as running:
            wait_until(lambda: server.get("/api/live")["gauges"]["running"] == 1)
            began = time.monotonic()
            server.process.terminate()
            data = running.read()
        assert b"server_shutting_down" in data and data.endswith(b"data: [DONE]\n\n")
        assert server.process.wait(10) == 0 and time.monotonic() - began < 8
    with LiveServer(tmp_path / "d", "--runner", "null") as again:
        (row,) = again.get("/api/requests")["items"]
        assert (row["state"], row["finish"], row["detail"]) == ("finished", "abort", "shutdown")


def test_settings_change_live_on_top_of_the_version_that_was_seen(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", "--runner", "null") as server:
        seen = server.get("/api/scheduler")
        assert {row["name"] for row in seen["table"]} == set(seen["settings"]) and seen["policies"]
        changed = server.post("/api/scheduler", {"policy": "sjf", "version": seen["version"]}, method="PATCH")
        assert changed["settings"]["policy"] == "sjf" and changed["version"] == seen["version"] + 1
        for body, status, param in (
            ({"policy": "fcfs", "version": seen["version"]}, 409, "version"),
            ({"max_num_seqs": 0}, 400, "max_num_seqs"),
            ({"block_size": 8}, 400, "block_size"),
            ({"colour": 1}, 400, "colour"),
        ):
            with pytest.raises(urllib.error.HTTPError) as caught:
                server.post("/api/scheduler", body, method="PATCH")
            assert (caught.value.code, json.loads(caught.value.read())["error"]["param"]) == (status, param)


def test_a_paused_scheduler_takes_one_step_at_a_time(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", "--runner", "null") as server:
        assert server.post("/api/scheduler/pause", {})["paused"]
        with _stream(server, tokens=3) as running:
            for steps in (1, 2, 3):
                server.post("/api/scheduler/step", {})
                wait_until(lambda steps=steps: len(server.get("/api/live")["steps"]["seq"]) == steps)
            assert running.read().endswith(b"data: [DONE]\n\n")
        assert server.post("/api/scheduler/resume", {})["engine"] == "up"


def _stream(server: LiveServer, tokens: int):  # type: ignore[no-untyped-def]
    model = server.get("/v1/models")["data"][0]["id"]
    body = {"model": model, "prompt": "x", "max_tokens": tokens, "ignore_eos": True, "stream": True}
    headers = {"Content-Type": "application/json"}
    return urllib.request.urlopen(
        urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(), headers), timeout=60
    )  # fmt: skip


def _status(server: LiveServer) -> int:
    try:
        server.post("/v1/completions", {"model": "x", "prompt": "x"})
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    return 200
