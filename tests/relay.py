"""A relay between a load generator and a server: counts the POSTs to /v1, cuts some streams, refuses some requests."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import urllib.parse
from collections.abc import Collection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Relay:
    """Passes everything on to `target`. `cut` and `refuse` are positions (from 1) among the POSTs to /v1.

    A cut stream loses its connection after its first bytes; a refused request is answered 503 and never passed on.
    """

    def __init__(self, target: str, cut: Collection[int] = (), refuse: Collection[int] = ()) -> None:
        self.target = urllib.parse.urlsplit(target)
        self.cut, self.refuse = frozenset(cut), frozenset(refuse)
        self.posts = 0
        self.cut_ids: list[str] = []
        self.refused_ids: list[str] = []
        self.lock = threading.Lock()
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                relay.handle(self, b"")

            def do_POST(self) -> None:
                relay.handle(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

            def log_message(self, *args: object) -> None:
                """The relay's own count is the log."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Relay:
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def handle(self, client: BaseHTTPRequestHandler, body: bytes) -> None:
        position = self._position(client)
        label = client.headers.get("X-Request-Id", "")
        if position in self.refuse:
            self.refused_ids.append(label)
            self._answer(client, 503, [("Content-Type", "application/json")], b'{"error": {"message": "refused by the relay"}}')
            return
        upstream = http.client.HTTPConnection(self.target.hostname, self.target.port, timeout=60)
        headers = {name: value for name, value in client.headers.items() if name.lower() not in ("host", "connection")}
        try:
            upstream.request(client.command, client.path, body or None, headers)
            response = upstream.getresponse()
            if position in self.cut:
                self.cut_ids.append(label)
                self._cut(client, response)
            else:
                self._pass(client, response)
        finally:
            upstream.close()

    def _position(self, client: BaseHTTPRequestHandler) -> int:
        if client.command != "POST" or not client.path.startswith("/v1/"):
            return 0
        with self.lock:
            self.posts += 1
            return self.posts

    def _answer(self, client: BaseHTTPRequestHandler, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        client.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                client.send_header(name, value)
        client.send_header("Content-Length", str(len(body)))
        client.end_headers()
        client.wfile.write(body)

    def _begin(self, client: BaseHTTPRequestHandler, response: http.client.HTTPResponse) -> None:
        client.send_response_only(response.status)
        for name, value in response.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                client.send_header(name, value)
        client.send_header("Transfer-Encoding", "chunked")
        client.end_headers()

    def _pass(self, client: BaseHTTPRequestHandler, response: http.client.HTTPResponse) -> None:
        self._begin(client, response)
        while piece := response.read1(65536):
            client.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        client.wfile.write(b"0\r\n\r\n")

    def _cut(self, client: BaseHTTPRequestHandler, response: http.client.HTTPResponse) -> None:
        self._begin(client, response)
        piece = response.read1(65536)
        client.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        client.wfile.flush()
        client.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.connection.close()
        client.close_connection = True
