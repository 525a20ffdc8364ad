"""The server that a command talks to: found by the data directory, or started for one command. Plain HTTP, JSON in and out.

Knows no route. Invariant: a server that `started` has begun is stopped when its block is left, however it is left.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from app.cli.failures import FAILED, USAGE, CommandError
from app.settings import ServerSettings
from scheduler.errors import in_words

API_KEY = "BATCHSCOPE_API_KEY"  # a client's variable: the key that this command sends
TIMEOUT_S = 60.0
IN_TURNS_S = 3600.0  # for what is done to a long run in short turns, between those who load the server
STARTS_WITHIN_S = 600.0  # the first start converts weights
STOPS_WITHIN_S = 40.0


class Server:
    """A server at `url`. Each call opens a connection of its own."""

    def __init__(self, url: str, key: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise CommandError(f"expected an http:// URL, got {url!r}", USAGE)
        self.url = url.rstrip("/")
        self._place = (parts.hostname, parts.port or 80)
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """The decoded answer; raises CommandError with the server's own message."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return self._checked("GET", f"{path}?{urlencode(given, doseq=True)}" if given else path)

    def post(self, path: str, body: Any, timeout: float = TIMEOUT_S) -> Any:
        """The decoded answer; `timeout`: seconds that it may be silent."""
        return self._checked("POST", path, body, timeout)

    def delete(self, path: str, timeout: float = TIMEOUT_S) -> Any:
        """The decoded answer; `timeout` as above."""
        return self._checked("DELETE", path, timeout=timeout)

    def download(self, path: str) -> Iterator[bytes]:
        """The body of the answer, piece by piece; raises CommandError at once where it is an error."""
        connection = http.client.HTTPConnection(*self._place, timeout=TIMEOUT_S)
        try:
            connection.request("GET", self._prefix + path, headers=self._headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise self._refused("GET", path, response.status, _decoded(response.read()))
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise CommandError(f"no answer from {self.url}: {in_words(error)}") from error
        except CommandError:
            connection.close()
            raise
        return self._pieces(connection, response)

    def _pieces(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> Iterator[bytes]:
        try:
            while piece := response.read(1 << 16):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise CommandError(f"the answer of {self.url} broke off: {in_words(error)}") from error
        finally:
            connection.close()

    def status(self, path: str = "/livez", timeout: float = 2.0) -> int | None:
        """The status of its answer to GET `path`; None when nobody answers."""
        try:
            return self._ask("GET", path, None, timeout)[0]
        except CommandError:
            return None

    def _checked(self, method: str, path: str, body: Any = None, timeout: float = TIMEOUT_S) -> Any:
        status, answer = self._ask(method, path, body, timeout)
        if status >= 400:
            raise self._refused(method, path, status, answer)
        return answer

    def _refused(self, method: str, path: str, status: int, answer: Any) -> CommandError:
        error = answer.get("error") if isinstance(answer, dict) else None
        told = error if isinstance(error, dict) else {}
        message = told.get("message") or f"{method} {path} at {self.url} answered {status}"
        return CommandError(message, USAGE if status == 400 else FAILED, told.get("code"))

    def _ask(self, method: str, path: str, body: Any, timeout: float) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(*self._place, timeout=timeout)
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers | ({"Content-Type": "application/json"} if data is not None else {})
        try:
            connection.request(method, self._prefix + path, data, headers)
            response = connection.getresponse()
            return response.status, _decoded(response.read())
        except (OSError, http.client.HTTPException) as error:
            raise CommandError(f"no answer from {self.url}: {in_words(error)}") from error
        finally:
            connection.close()


def holding(directory: Path, key: str = "") -> Server | None:
    """The live server that holds the data directory, or None."""
    try:
        told = json.loads((directory / "server.json").read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise CommandError(f"cannot read {directory / 'server.json'}: {in_words(error)}") from error
    if not isinstance(told, dict) or not isinstance(told.get("url"), str):
        raise CommandError(f"{directory / 'server.json'} names no url")
    server = Server(told["url"], key)
    return server if server.status() == 200 else None


def named_or_holding(url: str | None, directory: Path) -> Server | None:
    """The server of that URL, or else the live one that holds the data directory; None where there is neither."""
    return Server(url, client_key()) if url else holding(directory, client_key())


@contextmanager
def started(settings: ServerSettings, arguments: list[str], say: Any, computes: str) -> Iterator[Server]:
    """A server of this command's own on a free port, for the length of the block. `say`: takes what it is doing; computes:
    with what, in words."""
    directory = settings.directory
    directory.mkdir(parents=True, exist_ok=True)
    log_path = directory / "server.log"
    command = [sys.executable, "-m", "app.serve", "--host", "127.0.0.1", "--port", "0", *arguments]
    say(f"no server holds {directory}: starting one with {computes} (its output: {log_path})")
    with log_path.open("ab") as log:
        # In a session of its own, so that Ctrl-C reaches this command alone, which then stops the run in order.
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=server_environment(), start_new_session=True
        )
    try:
        yield _ready(process, directory, log_path)
    finally:
        process.terminate()
        try:
            process.wait(STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def server_environment() -> dict[str, str]:
    """The environment without what is a client's, which a server would refuse as unknown."""
    return {name: value for name, value in os.environ.items() if name != API_KEY}


def client_key() -> str:
    """The key that this command sends, if any."""
    return os.environ.get(API_KEY, "")


def _ready(process: subprocess.Popen[bytes], directory: Path, log_path: Path) -> Server:
    end = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < end:
        if process.poll() is not None:
            tail = log_path.read_text("utf-8", "replace").splitlines()[-5:]
            raise CommandError("the server ended while starting:\n" + "\n".join(tail), USAGE if process.returncode == 2 else 1)
        server = holding(directory, client_key())
        status = None if server is None else server.status("/readyz")
        if server is not None and status == 200:
            return server
        if status == 401:
            raise CommandError(f"the server wants a key: put one of its key file into {API_KEY}")
        time.sleep(0.1)
    raise CommandError(f"the server was not ready within {STARTS_WITHIN_S:.0f} s; its output is in {log_path}")


def _decoded(data: bytes) -> Any:
    if not data:
        return None
    try:
        return json.loads(data)
    except ValueError as error:
        raise CommandError(f"the server's answer is no JSON: {data[:80]!r}") from error
