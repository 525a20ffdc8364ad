"""The benchmarks still run: one JSON object each, with what they promise in it. Their figures are no matter here."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chromium import CHROMIUM
from live_server import wait_until
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Message, TextMessage

from benchmarks.rig import turns
from benchmarks.rig.dashboard import Dashboard
from benchmarks.scheduler_step import Engine

ROOT = Path(__file__).parents[2]


def run(name: str, *arguments: str) -> dict[str, Any]:
    """One benchmark, made small; its figures."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["benchmark"] == name and told["floor_ms"] > 0
    figures: dict[str, Any] = told["figures"]
    return figures


def test_serving_counts_tokens_frames_and_cpu() -> None:
    figures = run("serving", "--only", "web_cpu", "--streams", "1,3", "--rounds", "1", "--seconds", "1")
    assert [row["streams"] for row in figures["web_cpu"]] == [1, 3]
    for row in figures["web_cpu"]:
        assert row["us_per_token"] >= row["hub_us_per_token"] > 0 and row["tokens_s"] > 0 and row["frames_s"] > 0
        assert row["cut_off"] == 0


def test_two_take_turns_and_both_go_on_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {name: subprocess.Popen([sys.executable, "-c", "while True: pass"]) for name in "ab"}
    pids = {name: process.pid for name, process in both.items()}
    seen = []

    def state(pid: int) -> str:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]

    def look(_seconds: float) -> None:
        wait_until(lambda: [state(pid) for pid in pids.values()].count("T") == 1)
        seen.append("".join(name for name, pid in pids.items() if state(pid) != "T"))
        if len(seen) > 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(turns, "time", SimpleNamespace(sleep=look, monotonic_ns=time.monotonic_ns))
    try:
        turned = turns.take_turns(pids, 3, 1.0)
        assert "".join(seen) == "abbaab" and [len(each) for each in turned.values()] == [3, 3]
        with pytest.raises(KeyboardInterrupt):
            turns.take_turns(pids, 3, 1.0)
        assert [state(pid) for pid in pids.values()] == ["R", "R"]
    finally:
        for process in both.values():
            process.kill()
            process.wait()


def test_only_steps_that_lie_within_a_turn_are_counted() -> None:
    ends = [(0, 90, 2), (90, 110, 2), (110, 130, 2), (130, 150, 1), (150, 170, 2), (170, 250, 2), (250, 300, 2)]
    assert turns.steps_s(ends, [(100, 200), (240, 310)], slots=2) == pytest.approx((2 + 1) * 1e9 / (60 + 50))


def test_steps_in_which_an_order_displaced_somebody_are_told_apart_from_the_steady_ones() -> None:
    steady, moved = Engine("fcfs", 16, 40).measure(60), Engine("skip_join_mlfq", 16, 40).measure(60)
    assert not {"displaced", "changing", "changing_cpu"} & set(steady)
    assert moved["displaced"] > 4 and moved["displaced"] <= moved["changing"] < 60
    assert moved["changing_cpu"] > 0 and moved["cpu"] > 0


def test_the_timeline_is_drawn_as_its_page_draws_it() -> None:
    if CHROMIUM is None:
        pytest.skip("NO BROWSER: benchmarks/rig/gantt.js is not tested here")
    (drawn,) = run("dashboard", "gantt", "--bars", "500")["gantt"].values()
    assert drawn["append_redraw_ms_p95"] > 0 and drawn["pan_frame_ms_p50"] > 0 and drawn["hover_us"] > 0


def test_recording_writes_each_life_whole() -> None:
    (once,) = run("recording", "--only", "lifecycle", "--requests", "300", "--rounds", "1")["lifecycle"]["rounds"]
    assert once["rows"] > 300 * 5, "a row and four events of each request, and the steps"
    assert once["rows_s"] > 0 and once["sqlite3_rows_s"] > 0


def test_stalled_readers_are_measured_beside_the_same_streams_read() -> None:
    figures = run("serving", "--only", "stalled", "--pairs", "1", "--seconds", "1")["stalled"]
    (pair,) = figures["pairs"]
    assert pair["read"]["steps"] > 10 and pair["stalled"]["steps"] > 10
    assert figures["p99_ratios"] == [round(pair["stalled"]["p99_ms"] / pair["read"]["p99_ms"], 4)]
    assert figures["memory_growth_mib"] == pair["stalled"]["memory_growth_mib"]


def test_the_dashboard_reads_a_first_frame_that_comes_in_one_segment_with_the_upgrade() -> None:
    """It once waited for the next frame before it read this one, so that a window was measured without it."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> list[str]:
        peer, _ = listening.accept()
        peer.settimeout(10)
        server = WSConnection(ConnectionType.SERVER)
        server.receive_data(peer.recv(4096))
        next(server.events())
        peer.sendall(server.send(AcceptConnection()) + server.send(Message(data='0{"sid":"a"}')))
        server.receive_data(peer.recv(4096))
        heard = [event.data for event in server.events() if isinstance(event, TextMessage)]
        peer.sendall(server.send(Message(data="40/live,{}")))
        peer.close()
        return heard

    with listening, ThreadPoolExecutor() as pool:
        heard = pool.submit(serve)
        Dashboard(f"http://127.0.0.1:{listening.getsockname()[1]}").start()
        assert heard.result(timeout=10) == ["40/live,"]
