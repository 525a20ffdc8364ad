"""The server that a command talks to: what it refuses reaches the command in its own words and by its code."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from app.cli.failures import FAILED, USAGE, CommandError
from app.cli.server import Server

ANSWERS: dict[str, tuple[int, Any]] = {
    "/gone": (404, {"error": {"message": "it went away", "code": "run_not_found"}}),
    "/wrong": (400, {"error": {"message": "runs must name 2", "code": "invalid_value"}}),
    "/mute": (502, {}),
}


class Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = ANSWERS[self.path]
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    refusing = HTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=refusing.serve_forever, daemon=True)
    thread.start()
    yield Server(f"http://127.0.0.1:{refusing.server_address[1]}")
    refusing.shutdown()
    refusing.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("path", "message", "code", "answered"),
    [
        ("/gone", "it went away", FAILED, "run_not_found"),
        ("/wrong", "runs must name 2", USAGE, "invalid_value"),
        ("/mute", "answered 502", FAILED, None),
    ],
)
@pytest.mark.parametrize("way", ["get", "download"])
def test_a_refusal_has_the_servers_words_and_its_code(
    server: Server, way: str, path: str, message: str, code: int, answered: str | None
) -> None:
    with pytest.raises(CommandError, match=message) as caught:
        getattr(server, way)(path)
    assert (caught.value.code, caught.value.answered) == (code, answered)
