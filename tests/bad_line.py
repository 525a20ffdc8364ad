"""A TCP line that can go bad: passes bytes on, holds them, or breaks. Knows no protocol."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class BadLine:
    """Listens on `port` and connects to `target` (host, port), once that is set. A context manager.

    hold(): bytes stay where they are, both ways, and connections stay open. cut(): all break, and no new one is let in.
    heal(): all is well again.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.target: tuple[str, int] | None = None
        self._open = threading.Event()
        self._open.set()
        self._broken = False
        self._closing = False
        self._pairs: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> BadLine:
        self._start(self._accept)
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._open.set()
        for thread in self._threads:
            thread.join(5)

    def hold(self) -> None:
        self._open.clear()

    def cut(self) -> None:
        self._broken = True
        with self._lock:
            ends, self._pairs = self._pairs, set()
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        self._broken = False
        self._open.set()

    def _start(self, target: Callable[..., None], *ends: socket.socket) -> None:
        thread = threading.Thread(target=target, args=ends, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._broken or self.target is None:
                near.close()
                continue
            try:
                far = socket.create_connection(self.target)
            except OSError:
                near.close()
                continue
            with self._lock:
                self._pairs |= {near, far}
            for one, other in ((near, far), (far, near)):
                self._start(self._carry, one, other)

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 14):
                self._open.wait()
                sink.sendall(piece)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._pairs.discard(source)
        source.close()
