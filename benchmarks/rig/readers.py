"""Clients as cheap as can be, in a process of their own: `python -m benchmarks.rig.readers URL`. One epoll, raw sockets.

A stream that the server cuts off, because this process was too slow to read it, is counted and asked again.
Reads one JSON command a line, answers one a line: {"open": n, "prompt_tokens": p, "max_tokens": m} keeps n completions
streaming (one that ends is asked again) and answers when each has had its first token; {"count": true} tells the tokens
so far; {"close": true} hangs up. A token is one server-sent event; nothing is parsed.
Invariant: no command is answered before the sockets that are readable have been read.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from benchmarks.rig.dashboard import Dashboard

READ = 1 << 16
END = b"data: [DONE]"
CONNECTS_AT_ONCE = 32  # the server's time for a new stream is not what is measured


class CutOff(Exception):
    """The server hung up on a stream that had begun."""


class Stream:
    """One connection. `last`: the last bytes read, since a mark may be cut in two."""

    def __init__(self, address: tuple[str, int], request: bytes) -> None:
        self.sock = socket.create_connection(address, timeout=60)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = request
        self.last = b""
        self.events = 0
        self.sock.sendall(request)

    def read(self) -> int:
        """The events that have come; asks again at the end of an answer."""
        try:
            data = self.last + self.sock.recv(READ)
        except ConnectionResetError as error:
            raise CutOff from error
        if len(data) == len(self.last):
            raise CutOff
        if data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(data.decode("latin-1"))
        found = data.count(b"\n\n") - self.last.count(b"\n\n")
        if END in data and data.endswith(b"0\r\n\r\n"):
            self.sock.sendall(self.request)
            data = b""
        self.last = data[-len(END) - 8 :]
        self.events += found
        return found


class Readers:
    """All streams, and the commands from stdin."""

    def __init__(self, url: str) -> None:
        self.address = (urlsplit(url).hostname or "", urlsplit(url).port or 80)
        with urllib.request.urlopen(url + "/v1/models") as response:
            self.model = json.load(response)["data"][0]["id"]
        self.streams: dict[int, Stream] = {}
        self.tokens = 0
        self.cut = 0
        self.poll = select.epoll()
        self.poll.register(sys.stdin, select.EPOLLIN)

    def open(self, count: int, prompt_tokens: int, max_tokens: int) -> None:
        """`count` more streams, unlike each other in their prompts."""
        while len(self.streams) < count:
            for n in range(len(self.streams), min(count, len(self.streams) + CONNECTS_AT_ONCE)):
                self._connect(self._request(n, prompt_tokens, max_tokens))
            self.turn(0.01)
        while any(not stream.events for stream in self.streams.values()):
            self.turn(0.1)

    def turn(self, timeout: float) -> bool:
        """Read what there is; True when a command waits."""
        command = False
        for fd, _ in self.poll.poll(timeout):
            if fd in self.streams:
                self._read(self.streams[fd])
            else:
                command = True
        return command

    def _read(self, stream: Stream) -> None:
        try:
            self.tokens += stream.read()
        except CutOff:
            if not stream.events:
                raise
            self.cut += 1
            del self.streams[stream.sock.fileno()]
            self.poll.unregister(stream.sock)
            stream.sock.close()
            self._connect(stream.request)

    def _connect(self, request: bytes) -> None:
        stream = Stream(self.address, request)
        stream.sock.setblocking(False)
        self.streams[stream.sock.fileno()] = stream
        self.poll.register(stream.sock, select.EPOLLIN)

    def close(self) -> None:
        """Hang up."""
        for stream in self.streams.values():
            self.poll.unregister(stream.sock)
            stream.sock.close()
        self.streams.clear()

    def _request(self, n: int, prompt_tokens: int, max_tokens: int) -> bytes:
        head = [n % 200 + 1, n // 200 + 1, time.monotonic_ns() % 200 + 1]
        body: dict[str, Any] = {"model": self.model, "stream": True, "max_tokens": max_tokens, "ignore_eos": True}
        body["prompt"] = head + [(n + i) % 200 + 1 for i in range(prompt_tokens - len(head))]
        body["temperature"] = 0
        data = json.dumps(body).encode()
        host = f"{self.address[0]}:{self.address[1]}"
        lines = (
            f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
        )
        return lines.encode() + b"\r\n\r\n" + data


def main() -> None:
    """Obey until stdin closes."""
    readers, dashboard = Readers(sys.argv[1]), Dashboard(sys.argv[1])
    dashboard.start()
    while True:
        if not readers.turn(1.0):
            continue
        line = sys.stdin.readline()
        if not line:
            break
        command = json.loads(line)
        if "open" in command:
            readers.open(command["open"], command["prompt_tokens"], command["max_tokens"])
        elif "close" in command:
            readers.close()
        told = {"tokens": readers.tokens, "cut": readers.cut, "frames": dashboard.frames, "cpu_s": time.process_time()}
        print(json.dumps(told), flush=True)
    readers.close()


if __name__ == "__main__":
    main()
