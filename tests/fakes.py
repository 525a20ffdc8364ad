"""A small scriptable OpenAI server for tests of clients: raw sockets, so that it can misbehave in every way.

A script is a function of the request that yields what to do with its connection: `bytes` are sent as they are, a number
is a pause in seconds, CLOSE ends the connection. Knows nothing of the load generator.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

CLOSE = "close"
Step = bytes | float | str
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
END = b"0\r\n\r\n"


@dataclass(frozen=True)
class FakeRequest:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Script = Callable[[FakeRequest], Iterable[Step]]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields, ensure_ascii=False).encode() + b"\n\n"


def text(piece: str, finish: str | None = None, **fields: Any) -> bytes:
    return event(id="cmpl-1", choices=[{"index": 0, "text": piece, "finish_reason": finish}], **fields)


def delta(content: str | None = None, role: str | None = None, finish: str | None = None, **fields: Any) -> bytes:
    parts = {name: value for name, value in (("role", role), ("content", content)) if value is not None}
    return event(id="chat-1", choices=[{"index": 0, "delta": parts, "finish_reason": finish}], **fields)


def usage(prompt: int, output: int) -> bytes:
    return event(id="cmpl-1", choices=[], usage={"prompt_tokens": prompt, "completion_tokens": output})


def stream(*events: bytes | float) -> list[Step]:
    """A whole chunked answer of these events, pauses among them."""
    return [HEAD, *(chunk(each) if isinstance(each, bytes) else each for each in events), END]


def refusal(status: int, message: str = "no", keep: bool = True) -> list[Step]:
    body = json.dumps({"error": {"message": message, "type": "x", "param": None, "code": None}}).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    return [head + body] if keep else [head + body, CLOSE]


def answer_json(status: int, value: Any) -> list[Step]:
    body = json.dumps(value).encode()
    return [f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body]


def well_behaved(first_s: float = 0.0, gap_s: float = 0.0) -> Script:
    """As many tokens as asked for, then usage and [DONE]."""

    def script(request: FakeRequest) -> Iterator[Step]:
        n = request.json["max_tokens"]
        yield HEAD
        yield first_s
        for i in range(n):
            yield chunk(text(" tok", "length" if i == n - 1 else None))
            yield gap_s
        yield chunk(usage(len(str(request.json.get("prompt", "")).split()), n)) + chunk(DONE) + END

    return script


@dataclass
class FakeServer:
    """Serves until closed. `script` answers inference calls; `requests` and `records` are what came.

    `batchscope`: it keeps runs; `loading`: so many times it answers that its model is not there yet.
    """

    script: Script = field(default_factory=well_behaved)
    batchscope: bool = True
    loading: int = 0
    models: list[dict[str, Any]] = field(default_factory=lambda: [{"id": "fake", "max_model_len": 2048, "vocab_size": 49152}])
    requests: list[FakeRequest] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    control: list[tuple[str, str]] = field(default_factory=list)
    connections: int = 0

    def __enter__(self) -> FakeServer:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):  # the client may have gone already
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=5)

    @property
    def posts(self) -> list[FakeRequest]:
        """The inference calls."""
        return [request for request in self.requests if request.path.startswith("/v1/") and request.method == "POST"]

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)
        counted = False
        try:
            with connection.makefile("rb") as reader:
                while (request := read_request(reader)) is not None:
                    inference = request.path.startswith("/v1/") and request.method == "POST"
                    self.connections += inference and not counted
                    counted = counted or inference
                    self.requests.append(request)
                    if not self._play(connection, self.script(request) if inference else self._control(request)):
                        return
        except OSError:
            return  # the client hung up, which is its right
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _play(self, connection: socket.socket, steps: Iterable[Step]) -> bool:
        """False if the connection is to be closed."""
        for step in steps:
            if isinstance(step, bytes):
                connection.sendall(step)
            elif isinstance(step, str) or step and self._closing.wait(step):
                return False
        return True

    def _control(self, request: FakeRequest) -> Iterable[Step]:
        self.control.append((request.method, request.path))
        if request.path == "/v1/models":
            self.loading -= 1
            if self.loading >= 0:
                return refusal(503, "loading")
            return answer_json(200, {"object": "list", "data": self.models})
        if not self.batchscope:
            return refusal(404, "no such route")
        if request.path.endswith("/client_requests"):
            rows = [json.loads(line) for line in request.body.splitlines()]
            self.records += rows
            return answer_json(200, {"accepted": len(rows), "duplicates": 0})
        if request.path == "/api/runs":
            return answer_json(201, {"id": "run-of-fake", "status": "running"})
        return answer_json(200, {"status": "draining"})


def read_request(reader: Any) -> FakeRequest | None:
    line = reader.readline()
    if not line.strip():
        return None
    method, path, _ = line.decode().split()
    headers: dict[str, str] = {}
    while (line := reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode().partition(":")
        headers[name.strip().lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", 0)))
    return FakeRequest(method, path, headers, body, time.perf_counter())
