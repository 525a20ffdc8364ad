"""The benchmarks still run: one JSON object each, with what they promise in it. Their figures are no matter here."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Message, TextMessage

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


def test_steps_in_which_an_order_displaced_somebody_are_told_apart_from_the_steady_ones() -> None:
    steady, moved = Engine("fcfs", 16, 40).measure(60), Engine("skip_join_mlfq", 16, 40).measure(60)
    assert not {"displaced", "changing", "changing_cpu"} & set(steady)
    assert moved["displaced"] > 4 and moved["displaced"] <= moved["changing"] < 60
    assert moved["changing_cpu"] > 0 and moved["cpu"] > 0


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
