"""The gate: the outermost WSGI wrapper, in front of Flask and Socket.IO alike. Knows no route's meaning.

Order: request id → room → Host → who asks from where → key → websocket, or media type and size. Default-deny: with keys only
OPEN_PATHS answer without one. Invariant: every answer carries X-Request-Id and the safe headers; no refused request
reaches a view or an upgrade, and no view sees more body than the limit.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.api.errors import Problem
from app.callers import foreign_host, foreign_page, no_websocket
from app.keys import Holder, KeyRing
from app.request_id import new_request_id
from app.safe_headers import safe_headers

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
WsgiApp = Callable[[Environ, StartResponse], Iterable[bytes]]

MAX_BODY = 4 << 20
MAX_REQUESTS = 12_000  # in service at once: the waiting queue's bound and what runs, and some; 0: no limit
MAX_WEBSOCKETS = 64
OPEN_PATHS = ("/livez",)
JSON_TYPES = ("application/json", "application/x-ndjson", "application/jsonl", "application/jsonlines")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
SOCKET_PATH = "/socket.io"
READ_SCOPE = "read"
_READ = 1 << 16
_CLOSE = {"Connection": "close"}


class Refused(Exception):
    """A request that goes no further."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Rules:
    """Whom the gate lets in. `keys`: SHA-256 of a key → its holder; None: no key is needed."""

    hosts: frozenset[str]
    origins: frozenset[str]
    keys: Mapping[bytes, Holder] | None = None
    max_body: int = MAX_BODY
    max_requests: int = MAX_REQUESTS


class Gate:
    """Wraps `inner`; see the module's docstring."""

    def __init__(self, inner: WsgiApp, rules: Rules) -> None:
        self._inner = inner
        self._rules = rules
        self.ring = None if rules.keys is None else KeyRing(rules.keys)
        self.requests = 0  # in service now
        self.websockets = 0

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        request_id = new_request_id()
        environ["batchscope.request_id"] = request_id
        fixed = [("X-Request-Id", request_id), *safe_headers(environ.get("HTTP_HOST", ""))]

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            """Add ours where the view did not say otherwise."""
            present = {name.lower() for name, _ in headers}
            return start_response(status, headers + [pair for pair in fixed if pair[0].lower() not in present], exc_info)

        try:
            if environ["PATH_INFO"].startswith(SOCKET_PATH):
                return self._websocket(environ, start)
            return self._request(environ, start)
        except Refused as refused:
            return answer(refused.problem, start)

    def _request(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        self._check_caller(environ)
        if 0 < self._rules.max_requests <= self.requests:
            headers = {"Retry-After": "1", **_CLOSE}
            raise Refused(Problem(503, "too many requests at once; try again later", None, "server_is_overloaded", headers))
        self.requests += 1
        try:
            if environ["REQUEST_METHOD"] not in SAFE_METHODS:
                self._take_body(environ)
            return Visit(self._inner(environ, start), self._leave)
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        self.requests -= 1

    def _websocket(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        """The call lasts as long as the websocket does."""
        self._check_caller(environ)
        refuse(no_websocket(environ))
        scopes = environ["batchscope.scopes"]
        if scopes is not None and READ_SCOPE not in scopes:
            raise Refused(Problem(403, f"this API key lacks the scope {READ_SCOPE!r}", None, "insufficient_scope"))
        if self.websockets >= MAX_WEBSOCKETS:
            headers = {"Retry-After": "5", **_CLOSE}
            raise Refused(Problem(503, f"at most {MAX_WEBSOCKETS} dashboards", None, "too_many_dashboards", headers))
        self.websockets += 1
        try:
            return self._inner(environ, start)
        finally:
            self.websockets -= 1

    def _check_caller(self, environ: Environ) -> None:
        refuse(foreign_host(environ, self._rules.hosts) or foreign_page(environ, self._rules.origins))
        holder = self._holder(environ)
        environ["batchscope.key_name"] = None if holder is None else holder.name
        environ["batchscope.scopes"] = None if holder is None else holder.scopes

    def _holder(self, environ: Environ) -> Holder | None:
        open_path = environ["PATH_INFO"] in OPEN_PATHS and environ["REQUEST_METHOD"] in SAFE_METHODS
        if self.ring is None or open_path:
            return None
        admitted = self.ring.admit(environ.get("REMOTE_ADDR", ""), environ.get("HTTP_AUTHORIZATION", ""))
        if isinstance(admitted, Problem):
            raise Refused(admitted)
        return admitted

    def _take_body(self, environ: Environ) -> None:
        """Read the body whole, counting; views then read from memory."""
        if environ.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
            raise Refused(Problem(415, "compressed bodies are not accepted", None, "unsupported_media_type"))
        declared = int(environ.get("CONTENT_LENGTH") or 0)
        chunked = "HTTP_TRANSFER_ENCODING" in environ
        if declared > self._rules.max_body:
            raise self._too_large()
        if declared or chunked:
            media = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
            if media not in JSON_TYPES:
                message = f"the body must be JSON (Content-Type: application/json), not {media[:40]!r}"
                raise Refused(Problem(415, message, None, "unsupported_media_type"))
        body = self._read(environ["wsgi.input"]) if declared or chunked else b""
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        environ.pop("HTTP_TRANSFER_ENCODING", None)

    def _read(self, stream: Any) -> bytes:
        parts: list[bytes] = []
        size = 0
        try:
            while data := stream.read(_READ):
                size += len(data)
                if size > self._rules.max_body:
                    raise self._too_large()
                parts.append(data)
        except TimeoutError as error:
            raise Refused(Problem(408, str(error), None, "body_timeout", _CLOSE)) from error
        except OSError as error:
            raise Refused(Problem(400, "the body's framing is broken", None, "bad_framing", _CLOSE)) from error
        return b"".join(parts)

    def _too_large(self) -> Refused:
        message = f"the body is over the limit of {self._rules.max_body} bytes"
        return Refused(Problem(413, message, None, "body_too_large", _CLOSE))


class Visit:
    """A view's answer on its way; `leave` is called once, when the server closes it."""

    def __init__(self, pieces: Iterable[bytes], leave: Callable[[], None]) -> None:
        self._pieces = pieces
        self._leave: Callable[[], None] | None = leave

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)

    def close(self) -> None:
        """The end, whole or not."""
        leave, self._leave = self._leave, None
        try:
            if hasattr(self._pieces, "close"):
                self._pieces.close()
        finally:
            if leave is not None:
                leave()


def refuse(problem: Problem | None) -> None:
    """Raises Refused if there is a problem."""
    if problem is not None:
        raise Refused(problem)


def answer(problem: Problem, start: StartResponse) -> Iterable[bytes]:
    """A refusal, before any framework."""
    body = problem.body()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *problem.headers.items()]
    start(f"{problem.status} {_REASONS.get(problem.status, 'Refused')}", headers)
    return [body]


_REASONS = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    421: "Misdirected Request",
    429: "Too Many Requests",
    503: "Service Unavailable",
}
