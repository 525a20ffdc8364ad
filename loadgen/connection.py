"""One HTTP/1.1 connection over a raw gevent socket, and the pool that keeps them alive. Knows no JSON and no SSE.

Raw, because a streamed token must be stamped when its bytes arrive: buffered readers of larger clients hold it back.
Invariant: a connection is in the pool, or in one caller's hands, or closed; it returns only after a whole response.
"""

from __future__ import annotations

import socket as plain
from collections.abc import Iterator
from urllib.parse import urlsplit

from gevent import socket

from loadgen.http1 import Body, Head, HttpError, split_head

READ = 65_536
CONNECT_TIMEOUT_S = 10.0


class Connection:
    """Send a request, read its response piece by piece. Every read may raise OSError."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)
        self._socket.settimeout(None)
        self._socket.setsockopt(plain.IPPROTO_TCP, plain.TCP_NODELAY, 1)
        self._rest = b""
        self._whole = False
        self.uses = 0

    def send(self, data: bytes) -> None:
        self.uses += 1
        self._whole = False
        self._socket.sendall(data)

    def head(self) -> Head:
        """The status line and headers of the response; ConnectionError if the peer closed before."""
        buffer = self._rest
        while (found := split_head(buffer)) is None:
            data = self._socket.recv(READ)
            if not data:
                raise ConnectionResetError("closed before the response")
            buffer += data
        head, self._rest = found
        return head

    def pieces(self, head: Head) -> Iterator[bytes]:
        """The body as it arrives. Ends at its end; ConnectionError if the peer closed in the middle of it."""
        body = Body(head)
        data, self._rest = self._rest, b""
        while True:
            if data and (piece := body.feed(data)):
                yield piece
            if body.done:
                break
            data = self._socket.recv(READ)
            if not data:
                body.end()
                if not body.done:
                    raise ConnectionResetError("closed before the end of the response")
                break
        self._whole = head.keep_alive and not body.until_close

    def hurry(self, seconds: float | None) -> None:
        """From now on a read that takes longer raises TimeoutError; None: it may take any time."""
        self._socket.settimeout(seconds)

    @property
    def reusable(self) -> bool:
        """A whole response was read and the peer has neither closed nor said more."""
        if not self._whole:
            return False
        try:
            self._socket._sock.recv(1, plain.MSG_PEEK | plain.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        self._socket.close()


class Pool:
    """Idle connections to one server, the last used first. Open loops take as many as they need."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise HttpError(f"only http:// URLs can be loaded, not {url!r}")
        self.host = parts.hostname
        self.port = parts.port or 80
        self.prefix = parts.path.rstrip("/")
        self.opened = 0
        self._idle: list[Connection] = []

    def take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable:
                return connection
            connection.close()
        connection = Connection(self.host, self.port)
        self.opened += 1
        return connection

    def give_back(self, connection: Connection) -> None:
        if connection.reusable:
            connection.hurry(None)
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
