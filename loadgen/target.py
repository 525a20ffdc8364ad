"""The server under load, beside its inference calls: its model, and Batchscope's run API where it has one.

Uses plain blocking HTTP (green in a patched process). Invariant: no answer of a foreign server raises anything but
TargetError; what a server does not offer is None.
"""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from loadgen.workload import Limits

TIMEOUT_S = 10.0
LOADING_S = 180.0
API_KEY = "BATCHSCOPE_API_KEY"
# Plain enough that everybody who reads it sees the same host: no user@, no escapes, no query.
_URL = re.compile(r"http://([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?((?:/[A-Za-z0-9._~-]*)*)", re.IGNORECASE)


class TargetError(Exception):
    """The server cannot be loaded as asked; `status` is its answer, or None if it gave none."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Model:
    id: str
    limits: Limits


class Target:
    """The server at `url`; `key` is sent as a bearer token."""

    def __init__(self, url: str, key: str = "") -> None:
        match = _URL.fullmatch(url)
        if match is None or not 0 < int(match[2] or 80) < 65_536:
            raise TargetError(f"only plain http://HOST[:PORT][/PATH] can be loaded, not {url!r}")
        self.host = match[1].strip("[]")
        self.port = int(match[2] or 80)
        self.prefix = match[3].rstrip("/")
        self.headers: dict[str, str] = {"Authorization": f"Bearer {key}"} if key else {}

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def model(self, wanted: str | None) -> Model:
        """The model of that id, or the first one that the server lists. Waits while the server says that it is loading."""
        until = time.monotonic() + LOADING_S
        while (answered := self.ask("GET", "/v1/models"))[0] == 503 and time.monotonic() < until:
            time.sleep(0.5)
        status, answer = answered
        listed = answer.get("data") if isinstance(answer, dict) else None
        models = [each for each in listed or [] if isinstance(each, dict) and isinstance(each.get("id"), str)]
        for each in models:
            if wanted in (None, each["id"]):
                return Model(each["id"], Limits(_size(each, "vocab_size"), _size(each, "max_model_len")))
        if wanted is not None:
            return Model(wanted, Limits())
        raise TargetError(f"GET /v1/models answered {status} and named no model; name one with --model", status)

    def register(self, body: Mapping[str, Any]) -> str | None:
        """Start an external run; its id, or None where the server knows no runs."""
        status, answer = self.ask("POST", "/api/runs", orjson.dumps(body))
        if status in (404, 405, 501):
            return None
        run = answer.get("id") if isinstance(answer, dict) else None
        if status // 100 != 2 or not isinstance(run, str):
            raise TargetError(f"the server refused the run: {status} {_message(answer)}", status)
        return run

    def stop(self, run: str) -> int:
        return self.ask("POST", f"/api/runs/{run}/stop", b"{}")[0]

    def deliver(self, run: str, lines: bytes) -> int:
        """Hand over NDJSON records; the status."""
        return self.ask("POST", f"/api/runs/{run}/client_requests", lines, "application/x-ndjson")[0]

    def ask(self, method: str, path: str, body: bytes | None = None, content: str = "application/json") -> tuple[int, Any]:
        """(status, JSON or None) of one call on a connection of its own; TargetError if nobody answers."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)
        headers = {**self.headers, **({"Content-Type": content} if body is not None else {})}
        try:
            connection.request(method, self.prefix + path, body, headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise TargetError(f"{method} {path} at {self.authority}: {type(error).__name__}: {error}") from error
        finally:
            connection.close()
        try:
            return response.status, orjson.loads(data)
        except orjson.JSONDecodeError:
            return response.status, None


def _size(model: Mapping[str, Any], name: str) -> int:
    value = model.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def _message(answer: Any) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    return str(error.get("message", "")) if isinstance(error, dict) else ""
