"""An open loop as cheap as can be: `python -m benchmarks.rig.open_loop`, an Offer as JSON on stdin, a list of Seen on stdout.

One epoll, raw sockets, connections kept. A request is sent when it is due, whatever the server does; when time is up, whoever
still waits hangs up. Nothing of an answer is parsed but its status line, its first token and its end.
Invariant: every request that was due has exactly one Seen.
"""

from __future__ import annotations

import json
import random
import select
import socket
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

READ = 1 << 16
FIRST = b"data: {"
DONE = b"data: [DONE]"
LAST_CHUNK = b"0\r\n\r\n"
LETTERS = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True, slots=True)
class Offer:
    """`rate` requests a second for `seconds`, or `burst` at once; lengths uniform within (low, high), in tokens (bytes)."""

    url: str
    model: str
    rate: float
    seconds: float
    prompt: tuple[int, int]
    output: tuple[int, int]
    seed: int = 1
    burst: int = 0
    run: str | None = None


@dataclass(slots=True)
class Seen:
    """One request. Seconds since the loop began, None where it did not come to it; status 0: hung up before an answer."""

    due: float
    sent: float = 0.0
    status: int = 0
    answered: float | None = None
    first: float | None = None
    ended: float | None = None
    retry_after: str | None = None


class Ask:
    """One request on its connection."""

    def __init__(self, seen: Seen, sock: socket.socket) -> None:
        self.seen = seen
        self.sock = sock
        self.data = b""
        self.length = -1

    def take(self, data: bytes, now: float) -> bool:
        """What came; True at the end of the answer."""
        self.data += data
        if not self.seen.status:
            head, mark, rest = self.data.partition(b"\r\n\r\n")
            if not mark:
                return False
            self._head(head.decode("latin-1"), now)
            self.data = rest
        if self.length >= 0:
            return self._ended(len(self.data) >= self.length, now)
        if self.seen.first is None and FIRST in self.data:
            self.seen.first = now
        ended = DONE in self.data and self.data.endswith(LAST_CHUNK)
        self.data = self.data[-64:]
        return self._ended(ended, now)

    def _head(self, head: str, now: float) -> None:
        lines = head.split("\r\n")
        self.seen.status, self.seen.answered = int(lines[0].split()[1]), now
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.length = int(fields.get("content-length", -1))
        self.seen.retry_after = fields.get("retry-after")

    def _ended(self, ended: bool, now: float) -> bool:
        if ended:
            self.seen.ended = now
        return ended


class Loop:
    """See the module."""

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.address = (urlsplit(offer.url).hostname or "", urlsplit(offer.url).port or 80)
        self.seen: list[Seen] = []
        self.chance = random.Random(offer.seed)
        self._idle: list[socket.socket] = []
        self._asks: dict[int, Ask] = {}
        self._poll = select.epoll()

    def run(self) -> list[Seen]:
        """All of it; takes `seconds`, a burst until the last answer."""
        due = self._arrivals()
        bodies = [self._request() for _ in due]  # made before the clock starts
        self._began = time.perf_counter()
        sent = 0
        while sent < len(due) or (self._asks if self.offer.burst else self._now() < self.offer.seconds):
            while sent < len(due) and due[sent] <= self._now():
                self._send(due[sent], bodies[sent])
                sent += 1
            next_at = due[sent] if sent < len(due) else self.offer.seconds
            self._turn(min(0.05, max(0.0, next_at - self._now())))
        for sock in [*self._idle, *(ask.sock for ask in self._asks.values())]:
            sock.close()
        return self.seen

    def _now(self) -> float:
        return time.perf_counter() - self._began

    def _arrivals(self) -> list[float]:
        if self.offer.burst:
            return [0.0] * self.offer.burst
        at, found = 0.0, list[float]()
        while (at := at + self.chance.expovariate(self.offer.rate)) < self.offer.seconds:
            found.append(at)
        return found

    def _request(self) -> bytes:
        offer, chance = self.offer, self.chance
        prompt = "".join(chance.choices(LETTERS, k=chance.randint(*offer.prompt)))
        body: dict[str, Any] = {"model": offer.model, "prompt": prompt, "max_tokens": chance.randint(*offer.output)}
        data = json.dumps(body | {"stream": True, "ignore_eos": True}).encode()
        lines = [
            "POST /v1/completions HTTP/1.1", f"Host: {self.address[0]}:{self.address[1]}", "Content-Type: application/json",
            f"Content-Length: {len(data)}", *([f"X-Batchscope-Run: {offer.run}"] if offer.run else []),
        ]  # fmt: skip
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + data

    def _send(self, due: float, request: bytes) -> None:
        sock = self._idle.pop() if self._idle else self._connect()
        seen = Seen(due, self._now())
        self.seen.append(seen)
        sock.setblocking(True)  # a request fits the socket's buffer
        sock.sendall(request)
        sock.setblocking(False)
        self._asks[sock.fileno()] = Ask(seen, sock)

    def _connect(self) -> socket.socket:
        sock = socket.create_connection(self.address, timeout=60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._poll.register(sock, select.EPOLLIN)
        return sock

    def _turn(self, timeout: float) -> None:
        for fd, _ in self._poll.poll(timeout):
            ask = self._asks.get(fd)
            if ask is None:
                self._forget(fd)
                continue
            data = ask.sock.recv(READ)
            if ask.take(data, self._now()):
                del self._asks[fd]
                self._idle.append(ask.sock)
            elif not data:
                del self._asks[fd]
                ask.sock.close()

    def _forget(self, fd: int) -> None:
        """The server closed a connection that was kept."""
        for sock in [sock for sock in self._idle if sock.fileno() == fd]:
            self._idle.remove(sock)
            sock.close()


def main() -> None:
    """One offer."""
    json.dump([asdict(seen) for seen in Loop(Offer(**json.load(sys.stdin))).run()], sys.stdout)


if __name__ == "__main__":
    main()
