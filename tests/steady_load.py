"""A steady load for a LiveServer, and what its processes use meanwhile."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from live_server import LiveServer, wait_until


class Load:
    """Streams that follow one another, `width` at a time, until stopped; counts the tokens of each."""

    def __init__(self, server: LiveServer, width: int = 4, tokens: int = 120) -> None:
        self.server, self.width, self.tokens = server, width, tokens
        self.model = server.get("/v1/models")["data"][0]["id"]
        self.counts: list[int] = []
        self.gaps: list[float] = []
        self.problems: list[str] = []
        self._stop = threading.Event()

    def __enter__(self) -> Load:
        self._threads = [threading.Thread(target=self._loop, daemon=True) for _ in range(self.width)]
        for thread in self._threads:
            thread.start()
        wait_until(lambda: self.server.get("/api/live")["gauges"]["running"], 20, "the load to run")
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                self._one()
            except (OSError, http.client.HTTPException, ValueError) as problem:
                self.problems.append(repr(problem))
                time.sleep(0.05)

    def _one(self) -> None:
        body = {"model": self.model, "prompt": "why do requests wait", "max_tokens": self.tokens, "ignore_eos": True}
        with closing(post_stream(self.server, body)) as connection:
            self._read(connection.getresponse())

    def _read(self, response: http.client.HTTPResponse) -> None:
        count, last = 0, None
        for line in response:
            if line.startswith(b"data: {"):
                data = json.loads(line[6:])
                if "error" in data:
                    raise ValueError(data["error"]["code"])
                count += bool(data["choices"][0]["text"]) or data["choices"][0]["finish_reason"] is None
                now = time.monotonic()
                self.gaps += [] if last is None else [now - last]
                last = now
        self.counts.append(count)


def post_stream(server: LiveServer, body: dict[str, Any]) -> http.client.HTTPConnection:
    host, port = server.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(body | {"stream": True}), {"Content-Type": "application/json"})
    return connection


def p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)] if values else float("nan")


def rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def engine_pid(server: LiveServer) -> int:
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    found = [int(pid) for pid in children if b"scheduler.engine" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(found) == 1, children
    return found[0]
