"""The gate: the outermost WSGI wrapper, in front of Flask and Socket.IO alike. Knows no route's meaning.

Order: request id → Host → Origin → key → media type and size. Default-deny: with a key file only OPEN paths
answer without a key. Invariant: every answer carries X-Request-Id and the security headers; no refused request reaches a
view, and no view sees more body than the limit.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.api.errors import Problem
from app.request_id import new_request_id

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
WsgiApp = Callable[[Environ, StartResponse], Iterable[bytes]]

MAX_BODY = 4 << 20
OPEN_PATHS = ("/livez",)
JSON_TYPES = ("application/json", "application/x-ndjson", "application/jsonl", "application/jsonlines")
WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")
SOCKET_PATH = "/socket.io"
_READ = 1 << 16


class Refused(Exception):
    """A request that goes no further."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Rules:
    """Whom the gate lets in. `keys`: SHA-256 of a key → the name of its holder; None: no key is needed."""

    hosts: frozenset[str]
    origins: frozenset[str]
    keys: Mapping[bytes, str] | None = None
    max_body: int = MAX_BODY


class Gate:
    """Wraps `inner`; see the module's docstring."""

    def __init__(self, inner: WsgiApp, rules: Rules) -> None:
        self._inner = inner
        self._rules = rules

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        request_id = new_request_id()
        environ["batchscope.request_id"] = request_id
        fixed = [("X-Request-Id", request_id), *security_headers(environ)]

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            """Add ours where the view did not say otherwise."""
            present = {name.lower() for name, _ in headers}
            return start_response(status, headers + [pair for pair in fixed if pair[0].lower() not in present], exc_info)

        try:
            self._admit(environ)
        except Refused as refused:
            return answer(refused.problem, start)
        return self._inner(environ, start)

    def _admit(self, environ: Environ) -> None:
        self._check_host(environ)
        self._check_origin(environ)
        environ["batchscope.key_name"] = self._check_key(environ)
        if environ["REQUEST_METHOD"] in WITH_BODY and not environ["PATH_INFO"].startswith(SOCKET_PATH):
            self._take_body(environ)

    def _check_host(self, environ: Environ) -> None:
        host = environ.get("HTTP_HOST", "")
        if host.lower() not in self._rules.hosts:
            shown = "".join(c for c in host[:80] if c.isprintable() and c not in "<>\"'&")
            message = f"this server does not answer to the Host {shown!r}; --allow-host {shown or 'NAME'} allows it"
            raise Refused(Problem(421, message, None, "misdirected_request"))

    def _check_origin(self, environ: Environ) -> None:
        origin = environ.get("HTTP_ORIGIN")
        websocket = environ["PATH_INFO"].startswith(SOCKET_PATH)
        if origin is None and websocket:
            raise Refused(Problem(403, "a websocket needs an Origin header", None, "origin_refused"))
        if origin is not None and origin.lower() not in self._rules.origins:
            raise Refused(Problem(403, "requests from this origin are not allowed", None, "origin_refused"))
        if environ.get("HTTP_SEC_FETCH_SITE") == "cross-site" and environ["REQUEST_METHOD"] not in ("GET", "HEAD", "OPTIONS"):
            raise Refused(Problem(403, "cross-site requests are not allowed", None, "origin_refused"))

    def _check_key(self, environ: Environ) -> str | None:
        if self._rules.keys is None or environ["PATH_INFO"] in OPEN_PATHS:
            return None
        digest = hashlib.sha256(offered_key(environ.get("HTTP_AUTHORIZATION", ""))).digest()
        name = None
        for known, holder in self._rules.keys.items():  # all of them, always: the time tells nothing
            if hmac.compare_digest(known, digest):
                name = holder
        if name is None:
            headers = {"WWW-Authenticate": 'Bearer realm="batchscope", Basic realm="batchscope", charset="UTF-8"'}
            message = "a valid API key is needed: Authorization: Bearer KEY"
            raise Refused(Problem(401, message, None, "invalid_api_key", headers))
        return name

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
            headers = {"Connection": "close"}
            raise Refused(Problem(408, str(error), None, "body_timeout", headers)) from error
        except OSError as error:
            headers = {"Connection": "close"}
            raise Refused(Problem(400, "the body's framing is broken", None, "bad_framing", headers)) from error
        return b"".join(parts)

    def _too_large(self) -> Refused:
        message = f"the body is over the limit of {self._rules.max_body} bytes"
        return Refused(Problem(413, message, None, "body_too_large", {"Connection": "close"}))


def answer(problem: Problem, start: StartResponse) -> Iterable[bytes]:
    """A refusal, before any framework."""
    body = problem.body()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *problem.headers.items()]
    start(f"{problem.status} {_REASONS.get(problem.status, 'Refused')}", headers)
    return [body]


def offered_key(header: str) -> bytes:
    """The key in an Authorization header: Bearer for programs, the password of Basic for browsers; b"" if there is none."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("latin-1", "replace")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""


def read_keys(text: str) -> dict[bytes, str]:
    """A key file: `NAME KEY` a line, KEY as it is or as `sha256:<hex>`; `#` begins a comment."""
    keys = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise ValueError(f"line {number}: expected NAME KEY")
        name, key = words
        hexed = key.removeprefix("sha256:")
        digest = bytes.fromhex(hexed) if hexed != key else hashlib.sha256(key.encode()).digest()
        if len(digest) != 32:
            raise ValueError(f"line {number}: a SHA-256 digest has 64 hexadecimal digits")
        keys[digest] = name
    if not keys:
        raise ValueError("it holds no key")
    return keys


def allowed_hosts(host: str, port: int, more: Iterable[str]) -> frozenset[str]:
    """The Host values that are ours: loopback's names and what was allowed, with the port (and without it on port 80)."""
    names = {"127.0.0.1", "localhost", "[::1]", *more}
    if host not in ("", "0.0.0.0", "::"):
        names.add(f"[{host}]" if ":" in host and not host.startswith("[") else host)
    hosts = set()
    for name in names:
        name = name.lower()
        has_port = ":" in name.rpartition("]")[2]
        hosts.add(name if has_port else f"{name}:{port}")
        if port == 80 and not has_port:
            hosts.add(name)
    return frozenset(hosts)


def allowed_origins(hosts: Iterable[str]) -> frozenset[str]:
    """Pages of these hosts may call us."""
    return frozenset(f"{scheme}://{host}" for host in hosts for scheme in ("http", "https"))


def security_headers(environ: Environ) -> list[tuple[str, str]]:
    """On every answer. A view may set Cache-Control itself."""
    host = environ.get("HTTP_HOST", "")
    sockets = f" ws://{host} wss://{host}" if _PLAIN_HOST.issuperset(host) and host else ""
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        f"connect-src 'self'{sockets}; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    return [
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    ]


_PLAIN_HOST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]")
_REASONS = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    408: "Request Timeout",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    421: "Misdirected Request",
}
