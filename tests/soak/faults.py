"""The soak's faults: kill -9 of engine and web, SIGSTOP, live changes, holds. Every process by its pid; a web process that was
killed is started again on the same data directory. Knows no request.

Invariant: when `run` ends the server is up, nothing is stopped or held, and `kills` says when the web process was killed.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.error
from collections.abc import Callable
from pathlib import Path
from random import Random

from live_server import LiveServer, wait_until

POLICIES = ("fcfs", "sjf", "priority", "edf", "priority_aging", "weighted_score")
DEATHS, WINDOW_S = 2, 61.0  # of engines; one more within a minute makes the supervisor rest for half of one
STOPS_S = (0.05, 0.3, 1.0)
FOR_EVER = 0.2  # the chance that a stopped engine is not let go on: it must be seen and replaced


class Stage:
    """The server that is up, or None while there is none; `count` of what was done to it."""

    def __init__(self, data_dir: Path, arguments: tuple[str, ...], chance: Random) -> None:
        self.server: LiveServer | None = None
        self.kills: list[tuple[float, float]] = []
        self.count: dict[str, int] = {}
        self.done = threading.Event()
        self._data_dir, self._arguments, self._chance = data_dir, arguments, chance
        self._deaths: list[float] = []

    def begin(self) -> None:
        """Start the server, again after a kill."""
        self.server = LiveServer(self._data_dir, *self._arguments).__enter__()
        self._deaths = []

    def run(self, every_s: tuple[float, float], web_kills: int, progress: Callable[[], float]) -> None:
        """Until `done`: an act now and then, and the web's deaths spread over the `progress` from 0 to 1."""
        acts = (self.kill_engine, self.stop_engine, self.change, self.change, self.hold)
        while not self.done.wait(self._chance.uniform(*every_s)):
            due = progress() * (web_kills + 1) >= len(self.kills) + 1
            act = self.kill_web if due and len(self.kills) < web_kills else self._chance.choice(acts)
            act()
        self._ask("POST", "/api/scheduler/resume")

    # ---- acts

    def kill_web(self) -> None:
        server = self.server
        assert server is not None
        self.server, killed = None, time.monotonic()
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        server.log.close()
        (self._data_dir / "server.json").unlink(missing_ok=True)
        self.begin()
        self.kills.append((killed, time.monotonic()))
        self._counted("kill web")

    def kill_engine(self) -> None:
        if self._may_die() and (pid := self.engine_pid()) is not None:
            self._deaths.append(time.monotonic())
            self._signal(pid, signal.SIGKILL)
            self._counted("kill engine")

    def stop_engine(self) -> None:
        """Frozen for a while, or until it is replaced."""
        pid = self.engine_pid()
        busy = self._finishing() and self.engine_pid() == pid  # a load and a first step may take much longer
        if pid is None or not self._signal(pid, signal.SIGSTOP):
            return
        if busy and self._chance.random() < FOR_EVER and self._may_die():
            wait_until(lambda: self.engine_pid() not in (pid, None) or self.done.is_set(), 120, "the engine to be replaced")
            self._deaths.append(time.monotonic())
            if self.engine_pid() != pid:
                self._counted("replace a frozen engine")
                return
        time.sleep(self._chance.choice(STOPS_S))
        self._signal(pid, signal.SIGCONT)
        self._counted("stop engine")

    def change(self) -> None:
        changes = self._chance.choice(
            (
                {"policy": self._chance.choice(POLICIES)},
                {"max_num_seqs": self._chance.randint(2, 12)},
                {"max_num_batched_tokens": self._chance.choice((16, 64, 256))},
                {"enable_chunked_prefill": self._chance.random() < 0.5},
                {"allocation": self._chance.choice(("on_demand", "reserve"))},
            )
        )
        if self._ask("PATCH", "/api/scheduler", changes):
            self._counted("change")

    def hold(self) -> None:
        if self._ask("POST", "/api/scheduler/pause"):
            for _ in range(self._chance.randint(0, 3)):
                self._ask("POST", "/api/scheduler/step")
            time.sleep(self._chance.uniform(0, 0.2))
            self._ask("POST", "/api/scheduler/resume")
            self._counted("hold")

    # ---- pieces

    def _may_die(self) -> bool:
        """Another death of an engine would be answered by a new one at once."""
        now = time.monotonic()
        return sum(now - at < WINDOW_S for at in self._deaths) < DEATHS

    def _finishing(self) -> bool:
        """The engine that is up now finishes requests."""
        assert self.server is not None
        before = self.server.get("/api/live")["gauges"]
        time.sleep(0.2)
        after = self.server.get("/api/live")["gauges"]
        return before["engine"] == after["engine"] == "up" and after["finished"] > before["finished"]

    def engine_pid(self) -> int | None:
        """The engine that the web process has started."""
        assert self.server is not None
        web = self.server.process.pid
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(status.read_text().rpartition(")")[2].split()[1])
                mine = parent == web and b"scheduler.engine.server" in (status.parent / "cmdline").read_bytes()
            except OSError:
                continue  # it ended while we looked
            if mine:
                return int(status.parent.name)
        return None

    def _signal(self, pid: int, number: int) -> bool:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def _ask(self, method: str, path: str, body: object = None) -> bool:
        assert self.server is not None
        try:
            self.server.post(path, body or {}, method=method)
        except urllib.error.HTTPError as error:
            error.close()
            assert error.code in (400, 409, 503), (path, error.code)
            return False
        return True

    def _counted(self, what: str) -> None:
        self.count[what] = self.count.get(what, 0) + 1


def at_rest(server: LiveServer) -> dict[str, object]:
    """Wait until nothing waits and nothing runs; the gauges then."""

    def gauges() -> dict[str, object] | None:
        shown = server.get("/api/live")["gauges"]
        quiet = shown["engine"] == "up" and not shown["waiting"] and not shown["running"]
        return shown if quiet and shown["blocks_free"] == shown["blocks_total"] else None

    found: dict[str, object] = wait_until(gauges, 120, "the engine to be idle with all blocks free: " + _shown(server))
    return found


def _shown(server: LiveServer) -> str:
    return json.dumps(server.get("/api/live")["gauges"])
