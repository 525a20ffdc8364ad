"""Pair: one end of the socketpair, non-blocking, with a bounded outbox. Knows frames, not what they mean.

Invariant: nothing put into the outbox is dropped or reordered; `full` asks the owner to stop making more.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from typing import Any

from scheduler.engine.framing import Unframer, frame
from scheduler.engine.messages import Message
from scheduler.errors import EngineGone

OUTBOX_BYTES = 4 << 20
_READ = 1 << 18


class Pair:
    """The engine's end. `limit`: bytes waiting to be written at which `full` becomes true."""

    def __init__(self, sock: socket.socket, limit: int = OUTBOX_BYTES) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._limit = limit
        self._unframer = Unframer(to_engine=True)
        self._outbox: deque[memoryview] = deque()
        self._waiting = 0

    @property
    def full(self) -> bool:
        """More is waiting to be written than may be."""
        return self._waiting > self._limit

    def put(self, message: Message) -> None:
        """Queue a message and write what the socket takes."""
        data = memoryview(frame(message))
        self._outbox.append(data)
        self._waiting += len(data)
        self.flush()

    def flush(self) -> None:
        """Write until the socket is full or the outbox empty; raises EngineGone when the other side is gone."""
        while self._outbox:
            data = self._outbox[0]
            try:
                sent = self._sock.send(data)
            except BlockingIOError:
                return
            except OSError as error:
                raise EngineGone(f"the pair is closed: {error}") from error
            self._waiting -= sent
            if sent < len(data):
                self._outbox[0] = data[sent:]
                return
            self._outbox.popleft()

    def read(self, timeout: float | None) -> list[Any]:
        """The messages that have come; waits up to `timeout` seconds (None: for ever) for the first byte or for room."""
        want_write = [self._sock] if self._outbox else []
        readable, writable, _ = select.select([self._sock], want_write, [], timeout)
        if writable:
            self.flush()
        if not readable:
            return []
        try:
            data = self._sock.recv(_READ)
        except BlockingIOError:
            return []
        except OSError as error:
            raise EngineGone(f"the pair is closed: {error}") from error
        if not data:
            raise EngineGone("the other side closed the pair")
        return self._unframer.feed(data)

    def drain(self, seconds: float) -> None:
        """Try for up to `seconds` to write what is left, at the end of a life."""
        end = time.monotonic() + seconds
        while self._outbox and (left := end - time.monotonic()) > 0:
            select.select([], [self._sock], [], left)
            self.flush()

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()
