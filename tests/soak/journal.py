"""The soak's clients: one POST each over a raw socket, hanging up where they are told to, and the journal of what they saw.

Knows HTTP and SSE, nothing of the faults around it. A socket that is reset, or closed before the end of an answer, is `reset`;
an answer that ends in order but says neither that it is finished nor why not is `quiet`, which nothing excuses.
Invariant: every request that was sent has exactly one entry.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

STAGES = ("sent", "head", "first", "midway", "last")
TIMEOUT_S = 90.0
SENTENCE = "the queue waits while one step runs and a batch of tokens moves on "


@dataclass(frozen=True)
class Call:
    """A request to be sent. `leaves`: the stage at which its client hangs up."""

    n: int
    stream: bool
    prompt: int
    max_tokens: int
    choices: int
    leaves: str | None
    timeout_ms: int | None
    half_close: bool

    def body(self, model: str) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "model": model,
            "prompt": "x" * self.prompt,
            "max_tokens": self.max_tokens,
            "n": self.choices,
            "stream": self.stream,
            "ignore_eos": True,
            "tenant": "ab"[self.n % 2],
            "priority": self.n % 3,
        }
        return fields if self.timeout_ms is None else fields | {"timeout_ms": self.timeout_ms}


@dataclass
class Entry:
    """What one client saw. `told`: finished, failed, refused, reset, left, unreachable, silent or quiet."""

    n: int
    told: str = "silent"
    status: int | None = None
    id: str | None = None
    code: str | None = None
    texts: dict[int, str] = field(default_factory=dict)
    began: float = 0.0
    ended: float = 0.0


def draw(chance: Random, n: int) -> Call:
    """The n-th request of a soak."""
    return Call(
        n=n,
        stream=chance.random() < 0.75,
        prompt=chance.randint(1, 60),
        max_tokens=chance.choice((1, 2, 4, 8, 16, 24)),
        choices=2 if chance.random() < 0.1 else 1,
        leaves=chance.choice(STAGES) if chance.random() < 0.2 else None,
        timeout_ms=chance.choice((1, 20, 100)) if chance.random() < 0.1 else None,
        half_close=chance.random() < 0.3,
    )


class _Left(Exception):
    """The client hangs up."""


class Conversation:
    """One POST on one connection."""

    def __init__(self, call: Call, address: tuple[str, int], model: str) -> None:
        self.call = call
        self.entry = Entry(call.n)
        self._address = address
        self._model = model
        self._buffer = b""

    def run(self) -> Entry:
        """Send, read, maybe leave."""
        try:
            with socket.create_connection(self._address, timeout=TIMEOUT_S) as sock:
                self._sock = sock
                self._talk()
        except _Left:
            self.entry.told = "left"
        except TimeoutError:
            self.entry.told = "silent"
        except OSError:
            self.entry.told = "reset" if hasattr(self, "_sock") else "unreachable"
        return self.entry

    def _talk(self) -> None:
        data = json.dumps(self.call.body(self._model)).encode()
        host = f"{self._address[0]}:{self._address[1]}"
        self._sock.sendall(
            f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nConnection: close\r\n"
            f"X-Request-Id: soak-{self.call.n}\r\nContent-Length: {len(data)}\r\n\r\n".encode()
            + data
        )
        self._stage("sent")
        headers = self._head()
        self._stage("head")
        if headers.get("transfer-encoding") == "chunked" and self.entry.status == 200:
            self._stream()
        else:
            self._whole(int(headers.get("content-length", 0)))

    # ---- the answer

    def _head(self) -> dict[str, str]:
        lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        self.entry.status = int(lines[0].split()[1])
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.entry.id = headers.get("x-request-id")
        return headers

    def _whole(self, length: int) -> None:
        body = json.loads(self._exactly(length))
        if self.entry.status == 200:
            self.entry.texts = {choice["index"]: choice["text"] for choice in body["choices"]}
            self.entry.told = "finished"
        else:
            self.entry.code = body["error"]["code"]
            self.entry.told = "failed" if self.entry.status in (500, 504) else "refused"

    def _stream(self) -> None:
        ended, failed, pieces = False, None, 0
        for frame in self._frames():
            if frame == "[DONE]":
                self.entry.code = failed
                self.entry.told = "failed" if failed else "finished" if ended else "quiet"
                continue
            event = json.loads(frame)
            if "error" in event:
                failed = event["error"]["code"]
                continue
            for choice in event["choices"]:
                self.entry.texts[choice["index"]] = self.entry.texts.get(choice["index"], "") + choice["text"]
                ended = ended or choice["finish_reason"] is not None
                pieces += bool(choice["text"])
            self._stage_of(pieces)
        if self.entry.told == "silent":
            self.entry.told = "quiet"

    def _stage_of(self, pieces: int) -> None:
        """Where in the stream it is: the first token, half of them, all of them but not [DONE]."""
        total = self.call.max_tokens * self.call.choices
        for stage, needed in (("first", 1), ("midway", total // 2 or 1), ("last", total)):
            if pieces >= needed:
                self._stage(stage)

    def _frames(self) -> Iterator[str]:
        """The `data:` lines, chunk by chunk, until the last chunk."""
        text = b""
        while size := int(self._until(b"\r\n"), 16):
            text += self._exactly(size)
            self._exactly(2)
            *frames, text = text.split(b"\n\n")
            for frame in frames:
                yield frame.decode().removeprefix("data: ")

    # ---- bytes

    def _stage(self, stage: str) -> None:
        if self.call.leaves == stage:
            if self.call.half_close:
                self._sock.shutdown(socket.SHUT_WR)
                while self._sock.recv(1 << 16):  # a half-close is a hang-up: the server closes the rest
                    pass
            raise _Left

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._more()
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more()
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def _more(self) -> None:
        data = self._sock.recv(1 << 16)
        if not data:
            raise ConnectionResetError("closed before the end of the answer")
        self._buffer += data
