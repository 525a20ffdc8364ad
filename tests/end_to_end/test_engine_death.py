"""The engine dies, freezes, or dies at each start: who had a token is told so, the others are served by the next one."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from live_server import ROOT, LiveServer, engine_processes, wait_until
from plain_client import Call, at_rest, gauges, has_ended, ledger, row_once, rows

HARDWARE = ("--runner", "simulated", "--hardware", "h100-llama-3.1-8b-tp1-bf16", "--set", "max_num_seqs=8")
MODEL = ROOT / "data" / "models" / "SmolLM2-135M-Instruct"
STREAMING = WAITING = 8
ASKED: list[dict[str, Any]] = [
    {"prompt": f"The {word} of a river is", "max_tokens": 12, "temperature": 0, "seed": n}
    for n, word in enumerate(("name", "length", "colour", "source", "mouth", "sound", "depth", "end"))
]
BREAKER = (
    "import sys, app.serve; from app.supervisor import breaker; breaker.REST_S = 4.0; sys.exit(app.serve.main(sys.argv[1:]))"
)


class Watch(threading.Thread):
    """Asks the live page and readiness without pause, and keeps what they said."""

    def __init__(self, server: LiveServer) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.states: list[str] = []
        self.readiness: set[tuple[bool, int]] = set()
        self.stopped = threading.Event()
        self.start()

    def run(self) -> None:
        with contextlib.suppress(ConnectionError):  # the server has ended, with a test that failed
            while not self.stopped.is_set():
                self._ask()

    def _ask(self) -> None:
        state = gauges(self.server)["engine"]
        if not self.states or self.states[-1] != state:
            self.states.append(state)
        ready = status_of(self.server, "/readyz")
        if gauges(self.server)["engine"] == state:
            self.readiness.add((state == "up", ready))

    def stop(self) -> None:
        self.stopped.set()
        self.join(10)


def status_of(server: LiveServer, path: str) -> int:
    try:
        with urllib.request.urlopen(server.url + path, timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def busy(server: LiveServer, tokens: int = 20_000) -> tuple[list[Call], list[Call]]:
    """All slots stream, and as many wait; each stream has shown some text."""
    streaming = [Call(server, f"s{n}", max_tokens=tokens) for n in range(STREAMING)]
    for call in streaming:
        call.until(lambda data: data.count(b'"text"') > 2)
    waiting = [Call(server, f"w{n}", streamed=n % 2 == 0, **ASKED[n]) for n in range(WAITING)]
    wait_until(lambda: gauges(server)["waiting"] == WAITING)
    return streaming, waiting


def without_fault(server: LiveServer) -> list[str]:
    """The texts of the waiting ones on an undisturbed engine."""
    calls = [Call(server, f"before-{n}", streamed=False, **ASKED[n]) for n in range(WAITING)]
    texts = [call.over().text for call in calls]
    assert len(set(texts)) > 1
    return texts


def assert_told_and_served(
    server: LiveServer, streaming: list[Call], waiting: list[Call], texts: list[str], detail: str = "engine_crash"
) -> None:
    for call in streaming:
        call.over()
        assert call.status == 200 and call.events[-1] == "[DONE]" and call.error == detail, call.data[-300:]
    assert [call.over().status for call in waiting] == [200] * WAITING
    assert [call.text for call in waiting] == texts
    at_rest(server)
    found = rows(server)
    for call in streaming:
        row = found[call.name]
        assert (row["finish"], row["detail"], row["status_code"]) == ("error", detail, 200)
        assert row["finished"] is not None and row["ttft_ms"] is not None and row["e2e_ms"] > row["ttft_ms"]
        assert row["waits"] == {} and row["prefill_ms"] is None, "only the engine could count the parts: unknown is NULL"
    for call in waiting:
        row = found[call.name]
        assert row["finish"] == "length" and row["waits"]["engine_down"] > 0
    ledger(server.data_dir).check()


def test_a_killed_engine_takes_only_who_had_a_token_with_it(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE) as server:
        texts = without_fault(server)
        streaming, waiting = busy(server)
        first = server.engine_pid()
        assert first is not None
        watch = Watch(server)
        os.kill(first, signal.SIGKILL)
        assert_told_and_served(server, streaming, waiting, texts)
        watch.stop()
        assert watch.states in (["up", "down", "up"], ["down", "up"]), "down from the death to the next life"
        assert watch.readiness == {(True, 200), (False, 503)}
        assert server.engine_pid() not in (None, first)
        assert "Traceback" not in server.text_of_log()


@pytest.mark.skipif(not MODEL.exists(), reason=f"LOUD SKIP: no model cache at {MODEL}; `make run` once makes it")
def test_the_default_model_gives_the_same_text_after_a_death(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "models").symlink_to(MODEL.parent)
    arguments = ("--device", "cpu", "--dtype", "float32", "--set", "max_num_seqs=8", "--set", "max_num_batched_tokens=256")
    with LiveServer(tmp_path / "d", *arguments, ready_s=120) as server:
        texts = without_fault(server)
        streaming, waiting = busy(server, 700)
        first = server.engine_pid()
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert_told_and_served(server, streaming, waiting, texts)


def test_a_frozen_engine_is_seen_and_replaced(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE, "--hang-s", "1") as server:
        texts = without_fault(server)
        streaming, waiting = busy(server)
        first = server.engine_pid()
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        assert_told_and_served(server, streaming, waiting, texts, "step_hang")
        assert first not in engine_processes(), "it was killed, so nothing of it can come late"
        assert "no step for" in server.text_of_log()


def test_a_short_freeze_of_either_side_loses_nothing(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE, "--hang-s", "1") as server:
        running = [Call(server, f"r{n}", streamed=n > 0, max_tokens=600) for n in range(4)]
        wait_until(lambda: gauges(server)["running"] == 4)
        first = server.engine_pid()
        assert first is not None
        for pid, pause in ((first, 0.2), (server.process.pid, 2.5)):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(pause)  # the pause is what is tested
            os.kill(pid, signal.SIGCONT)
        for call in running:
            assert call.over().status == 200 and call.error is None
        at_rest(server)
        assert server.engine_pid() == first and {row["finish"] for row in rows(server).values()} == {"length"}
        ledger(server.data_dir).check()


def test_a_held_engine_may_stand_still_for_ever(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE, "--hang-s", "0.5") as server:
        warm = Call(server, "warm", max_tokens=2).over()
        assert warm.error is None
        server.post("/api/scheduler/pause", {})
        held = Call(server, "held")
        first = server.engine_pid()
        time.sleep(1.5)  # three times what a silence may last
        server.post("/api/scheduler/resume", {})
        assert held.over().error is None and server.engine_pid() == first


def kill_until_it_rests(server: LiveServer) -> None:
    """Three processes, each as soon as it is there."""
    killed: set[int] = set()
    while len(killed) < 3:
        pid = wait_until(lambda: server.engine_pid() not in killed | {None} and server.engine_pid())
        os.kill(pid, signal.SIGKILL)
        killed.add(pid)
    wait_until(lambda: "resting" in gauges(server)["engine_text"])


def test_an_engine_that_dies_at_each_start_rests_and_recovers(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE, entry=("-c", BREAKER)) as server:
        streaming, waiting = busy(server)
        kill_until_it_rests(server)
        refused = Call(server, "refused").over()
        assert (refused.status, refused.error) == (503, "engine_down")
        assert 1 <= int(refused.header("Retry-After") or 0) <= 60
        assert gauges(server)["engine"] == "down" and server.engine_pid() is None
        for call in waiting:
            assert call.over().status == 200 and call.error is None
        for call in streaming:
            assert call.over().error == "engine_crash"
        assert Call(server, "served").over().error is None
        at_rest(server)
        ledger(server.data_dir).check()


def test_who_leaves_or_runs_out_of_time_while_there_is_no_engine_is_not_served_by_the_next(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE, entry=("-c", BREAKER)) as server:
        streaming, waiting = busy(server)
        hasty = Call(server, "hasty", timeout_ms=2500)
        wait_until(lambda: "hasty" in rows(server))
        kill_until_it_rests(server)
        waiting[0].hang_up()
        row_once(server, "w0", has_ended)
        assert hasty.over().error == "timeout"
        for call in [*streaming, *waiting[1:]]:
            call.over()
        at_rest(server)
        row = rows(server)["w0"]
        assert (row["finish"], row["detail"], row["output_tokens"]) == ("abort", "client_gone", None)
        assert rows(server)["hasty"]["finish"] == "timeout"
        ledger(server.data_dir).check()


def test_an_orphan_engine_ends(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE) as server:
        streaming, waiting = busy(server)
        engine = server.engine_pid()
        assert engine is not None
        server.process.kill()
        server.process.wait()
        wait_until(lambda: engine not in engine_processes(), 10, "the orphan to end")
        for call in [*streaming, *waiting]:
            assert call.over().events[-1:] != ["[DONE]"] or call.text, "a reset, not a quiet end"


def test_a_term_for_the_whole_group_leaves_the_engine_to_the_web(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE) as server:
        running = Call(server, "r", max_tokens=100).until(lambda data: b'"text"' in data)
        engine = server.engine_pid()
        assert engine is not None
        os.kill(engine, signal.SIGTERM)
        server.process.terminate()
        assert running.over().error is None and running.events[-1] == "[DONE]"
        assert server.process.wait(30) == 0
