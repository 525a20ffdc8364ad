"""A client that sends what no library would: any head, any Host, half a request. Plain sockets; knows no route."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

OPENING = "/socket.io/?EIO=4&transport=websocket"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The error object; fails where there is none."""
        found: dict[str, Any] = json.loads(self.body)["error"]
        assert {"message", "type", "param", "code"} <= found.keys()
        return found


def place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    return parts.hostname, parts.port


def ask(url: str, method: str, path: str, headers: dict[str, str] | None = None, body: Any = None) -> Reply:
    """One request on a connection of its own; `headers` may name Host; a body that is not bytes is sent as JSON."""
    given = dict(headers or {})
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        given.setdefault("Content-Type", "application/json")
    connection = http.client.HTTPConnection(*place(url), timeout=30)
    try:
        connection.putrequest(method, path, skip_host="Host" in given, skip_accept_encoding=True)
        for name, value in given.items():
            connection.putheader(name, value)
        if body is not None and "Content-Length" not in given:
            connection.putheader("Content-Length", str(len(body)))
        with contextlib.suppress(OSError):  # the server may answer and close before all is sent
            connection.endheaders(body)
        response = connection.getresponse()
        data = response.read()
        return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, data)
    finally:
        connection.close()


def raw(url: str, data: bytes, patience: float = 3.0) -> bytes:
    """Everything that is answered to `data` until the server closes or is silent for so long."""
    with socket.create_connection(place(url), 5) as sock:
        sock.settimeout(patience)
        answered = b""
        with contextlib.suppress(OSError):
            sock.sendall(data)
            while piece := sock.recv(65536):
                answered += piece
        return answered


def statuses(answered: bytes) -> list[int]:
    """The status of each response in it."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answered)]


def open_websocket(url: str, path: str = OPENING, **headers: str | None) -> tuple[int, socket.socket]:
    """The status of an opening handshake by one of the server's own pages, but for `headers` (None leaves one out), and the
    socket."""
    host, port = place(url)
    given: dict[str, str | None] = {
        "Host": f"{host}:{port}",
        "Origin": url,
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": base64.b64encode(b"0123456789abcdef").decode(),
    }
    given |= headers
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value is not None]
    sock = socket.create_connection((host, port), 5)
    sock.sendall("\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode("latin-1"))
    head = b""
    while b"\r\n\r\n" not in head and (piece := sock.recv(4096)):
        head += piece
    return (statuses(head) or [0])[0], sock
