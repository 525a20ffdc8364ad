"""A server process to be measured: started on a free port in a directory of its own, and what it used of the processor.

Knows no figure and no benchmark. Invariant: `stop` leaves no process behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
START_S = 120.0
STOP_S = 20.0
NS = 1e9


class Server:
    """`python -m app.serve` with `arguments`, its log beside its data."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._log = (directory / "server.log").open("wb")
        command = [sys.executable, "-m", "app.serve", "--port", "0", "--data-dir", str(directory), *arguments]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=self._log, stderr=subprocess.STDOUT)
        self.database = directory / "batchscope.db"
        try:
            self.url = self._wait(directory / "server.json")
        except BaseException:
            self.stop()
            raise

    def _wait(self, told: Path) -> str:
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}: see {self._log.name}")
            if told.exists() and (text := told.read_text()):
                url = str(json.loads(text)["url"]).rstrip("/")
                if ready(url):
                    return url
            time.sleep(0.05)
        raise RuntimeError(f"the server was not ready within {START_S:g} s: see {self._log.name}")

    def get(self, path: str) -> Any:
        """GET, decoded."""
        with urllib.request.urlopen(self.url + path, timeout=60) as response:
            return json.load(response)

    def metrics(self) -> dict[str, float]:
        """Every line of /metrics that has one value, by its bare name."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as response:
            lines = response.read().decode().splitlines()
        pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
        return {name.partition("{")[0].removeprefix("batchscope:"): float(value) for name, value in pairs}

    def steps(self) -> list[tuple[int, int, int]]:
        """(started, ended, decodes) of each step on record, in order; monotonic ns."""
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT started_at, ended_at, decode_tokens FROM steps ORDER BY started_at").fetchall()

    def cpu_s(self) -> float:
        """Processor seconds that the web process has used, all threads."""
        return cpu_s(self.process.pid)

    def threads_cpu_s(self) -> tuple[float, float]:
        """(the main thread, that is the hub; all the others, that is writer, readers and tokenizers)."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        used = {int(task.name): int((task / "schedstat").read_text().split()[0]) / NS for task in tasks.iterdir()}
        hub = used.pop(self.process.pid)
        return hub, sum(used.values())

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._log.close()


def ready(url: str) -> bool:
    """Does it take requests?"""
    try:
        with urllib.request.urlopen(url + "/readyz", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def cpu_s(pid: int) -> float:
    """Processor seconds of a process, to the nanosecond: Linux keeps a clock for each."""
    return time.clock_gettime((~pid << 3) | 2)


def children(pid: int) -> list[int]:
    """Its child processes: the engine, for a server."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] if os.name == "posix" else []
