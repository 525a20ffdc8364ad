"""A real server process for tests: started on a free port with its own data directory, stopped by its pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def wait_until(question: Callable[[], Any], seconds: float = 30.0, what: str = "") -> Any:
    """The first true answer; fails after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := question():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s in vain for {what or question}")


class LiveServer:
    """`python -m app.serve` with `arguments`; a context manager. `entry`, `wrapper`: run something else, or under something.

    headers: sent when it is asked whether it is ready.
    """

    def __init__(
        self,
        data_dir: Path,
        *arguments: str,
        ready_s: float = 60.0,
        env: dict[str, str] | None = None,
        entry: Sequence[str] = ("-m", "app.serve"),
        wrapper: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.entry = entry
        self.wrapper = wrapper
        self.data_dir = data_dir
        self.arguments = arguments
        self.ready_s = ready_s
        self.env = env or {}
        self.headers = dict(headers or {})
        self.url = ""

    def __enter__(self) -> LiveServer:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.log = open(self.data_dir / "server.log", "wb")
        command = [*self.wrapper, sys.executable, *self.entry, "--port", "0", "--data-dir", str(self.data_dir), *self.arguments]
        env = {**os.environ, **self.env}
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=self.log, stderr=subprocess.STDOUT, env=env)
        try:
            wait_until(self._ready, self.ready_s, "the server to be ready")
        except AssertionError:
            self.stop()
            raise AssertionError(self.text_of_log()) from None
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self, patience: float = 15.0) -> int:
        """SIGTERM, then SIGKILL; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(patience)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        return self.process.returncode

    def engine_pid(self) -> int | None:
        """The present engine process."""
        engines = [pid for pid in engine_processes() if _parent(pid) == self.process.pid]
        return max(engines, default=None)

    def text_of_log(self) -> str:
        """What the server printed."""
        return (self.data_dir / "server.log").read_text(errors="replace")

    def get(self, path: str) -> Any:
        """GET, decoded."""
        with urllib.request.urlopen(self.url + path, timeout=30) as response:
            return json.load(response)

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None, method: str = "POST") -> Any:
        """POST JSON, decoded."""
        data = json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data, {"Content-Type": "application/json", **(headers or {})}, method=method
        )
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.load(response)

    def _ready(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError("the server ended")
        path = self.data_dir / "server.json"
        if not path.exists() or not path.read_text():
            return False
        self.url = json.loads(path.read_text())["url"].rstrip("/")
        try:
            request = urllib.request.Request(self.url + "/readyz", headers=self.headers)
            with urllib.request.urlopen(request, timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False


def engine_processes() -> list[int]:
    """Every engine process of this machine, whoever started it."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if b"scheduler.engine.server" in _read(pid, "cmdline")]


def _parent(pid: int) -> int:
    after_name = _read(pid, "stat").rpartition(b")")[2].split()
    return int(after_name[1]) if len(after_name) > 1 else 0


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""  # it has just ended
