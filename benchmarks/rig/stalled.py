"""Readers that stop reading, and what they cost the others: dashboards and streams whose sockets nobody empties.

In each pair of windows the engine has the same streams; in one of them some are not read, and as many dashboards are joined
that neither read nor acknowledge. A step's time is what lies between the ends of two steps in a row, so that an engine
held up by its full outbox shows.
Invariant: a window closes what it opened before it returns.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.measure import floor_ms, percentile
from benchmarks.rig.server import Server

RECEIVE_BUFFER = 4096  # else the kernel reads for them
LOOK_S = 0.1
MIB = 1 << 20


class Stalled:
    """So many dashboards and streams, open until `close`; none of them reads what it is sent."""

    def __init__(self, url: str, dashboards: int, requests: list[bytes]) -> None:
        self._place = urlsplit(url)
        self._sockets = [self._stream(request) for request in requests]
        self._sockets += [self._dashboard(url) for _ in range(dashboards)]

    def close(self) -> None:
        """Hang up."""
        for each in self._sockets:
            each.close()

    def _connect(self) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        made.settimeout(60)
        made.connect((self._place.hostname or "", self._place.port or 80))
        return made

    def _stream(self, request: bytes) -> socket.socket:
        made = self._connect()
        made.sendall(request)
        if not made.recv(12).endswith(b" 200"):
            raise ConnectionError("a stream that was to stall was refused")
        return made

    def _dashboard(self, url: str) -> socket.socket:
        made = self._connect()
        key = base64.b64encode(os.urandom(16)).decode()
        head = f"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: {self._place.netloc}\r\nOrigin: {url}\r\n"
        head += f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
        made.sendall(head.encode())
        if not made.recv(12).endswith(b" 101"):
            raise ConnectionError("a dashboard that was to stall was refused")
        words = b"40/live,"
        made.sendall(bytes([0x81, 0x80 | len(words)]) + b"\0\0\0\0" + words)
        return made


class Memory:
    """The highest resident memory of a process since it was made, looked at on a thread."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/statm")
        self._page = os.sysconf("SC_PAGE_SIZE")
        self.before = self.highest = self._now()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def growth_mib(self) -> float:
        """How far it rose; ends the thread."""
        self._stop.set()
        self._thread.join()
        return round((max(self.highest, self._now()) - self.before) / MIB, 2)

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_S):
            self.highest = max(self.highest, self._now())

    def _now(self) -> int:
        return int(self._status.read_text().split()[1]) * self._page


def request(url: str, model: str, n: int, tokens: int) -> bytes:
    """A streamed completion of `tokens` tokens, unlike the others in its prompt."""
    body = {"model": model, "prompt": [n % 200 + 1, n // 200 + 1, *range(1, 31)], "max_tokens": tokens, "ignore_eos": True}
    data = json.dumps(body | {"stream": True, "tenant": "stalled", "temperature": 0}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def window(server: Server, clients: Any, streams: int, stalled: int, seconds: float, tokens: int) -> dict[str, float]:
    """`streams` in all, `stalled` of them not read, beside as many dashboards; ms of the steps meanwhile."""
    clients.open(streams - stalled, tokens)
    model = server.get("/v1/models")["data"][0]["id"]
    memory = Memory(server.process.pid)
    rude = Stalled(server.url, stalled, [request(server.url, model, n, tokens) for n in range(stalled)])
    while server.metrics()["num_requests_running"] < streams:
        time.sleep(0.05)
    first = server.get("/api/live")["steps"]["seq"][-1]
    time.sleep(seconds)
    last = server.get("/api/live")["steps"]["seq"][-1]
    cut = streams - int(server.metrics()["num_requests_running"])
    growth = memory.growth_mib()
    rude.close()
    clients.say(close=True)
    while server.metrics()["num_requests_running"]:
        time.sleep(0.05)
    ends = _ends_ms(server, first, last)
    times = [later - earlier for earlier, later in zip(ends, ends[1:], strict=False)]
    return {
        "steps": len(times),
        "p50_ms": round(percentile(times, 0.5), 3),
        "p99_ms": round(percentile(times, 0.99), 3),
        "max_ms": round(max(times), 3),
        "cut": cut,
        "memory_growth_mib": growth,
        "floor_ms": floor_ms(1),
    }


def _ends_ms(server: Server, first: int, last: int) -> list[float]:
    """When each step of these ended, from the records."""
    boot, ends = server.get("/api/live")["boot"], []
    while first < last:
        columns = server.get(f"/api/steps?boot={boot}&from_seq={first + 1}")["steps"]
        ends += [at for seq, at in zip(columns["seq"], columns["t"], strict=True) if seq <= last]
        first = columns["seq"][-1]
    return ends
