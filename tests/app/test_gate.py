"""The gate: who gets in, what is measured before anybody reads it, and what every answer carries."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Iterable
from typing import Any

import pytest

from app.callers import allowed_hosts, allowed_origins
from app.gate import MAX_WEBSOCKETS, Gate, Rules
from app.keys import read_keys

HOSTS = allowed_hosts("127.0.0.1", 8000, ["lab.example"])
SEEN: list[dict[str, Any]] = []


def inner(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    SEEN.append(environ)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Cache-Control", "max-age=1")])
    return [environ["wsgi.input"].read()]


def make(**rules: Any) -> Gate:
    return Gate(inner, Rules(HOSTS, allowed_origins(HOSTS), **rules))


def ask(
    *, gate: Gate | None = None, keys: Any = None, body: bytes | None = None, max_body: int = 100, **environ: Any
) -> tuple[int, dict[str, str], bytes]:
    """One request through a gate: status, headers, body."""
    gate = gate or make(keys=keys, max_body=max_body)
    full: dict[str, Any] = {"REQUEST_METHOD": "POST" if body is not None else "GET", "PATH_INFO": "/x"}
    full |= {"HTTP_HOST": "127.0.0.1:8000", "wsgi.input": io.BytesIO(body or b"")}
    if body is not None:
        full |= {"CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": "application/json"}
    answer: dict[str, Any] = {}

    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        answer.update(status=int(status.split()[0]), headers=dict(headers))

    pieces: Any = gate(full | environ, start)
    data = b"".join(pieces)
    if hasattr(pieces, "close"):
        pieces.close()
    return answer["status"], answer["headers"], data


def test_our_own_request_reaches_the_application_with_its_body() -> None:
    assert ask(body=b"{}")[::2] == (200, b"{}")


@pytest.mark.parametrize(
    "host",
    [
        "evil.test",
        "127.0.0.1:8001",
        "127.0.0.1",
        "",
        "127.0.0.1:8000,evil.test",
        "127.0.0.1:8000,127.0.0.1:8000",
        "a\x00b",
        "127.0.0.1:8000\t",
        "127.0.0.1:8000 evil.test",
        "evil.test@127.0.0.1:8000",
        "localhost.:8000",
        "2130706433:8000",
        "127.1:8000",
        "[::ffff:127.0.0.1]:8000",
    ],
)
def test_a_foreign_host_is_misdirected(host: str) -> None:
    status, _, body = ask(HTTP_HOST=host)
    said = json.loads(body)["error"]["message"]
    assert status == 421 and ascii(host) in said
    is_name = host and not set(host) & set(",\0\t @")
    assert said.endswith(f"; --allow-host {host} allows it" if is_name else ascii(host)), "what it names would be let in"


@pytest.mark.parametrize("host", ["localhost:8000", "LOCALHOST:8000", "[::1]:8000", "lab.example:8000"])
def test_our_names_are_known(host: str) -> None:
    assert ask(HTTP_HOST=host)[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.test", "null", "http://127.0.0.1:8001", "http://127.0.0.1:8000.evil.test"])
def test_a_foreign_origin_is_refused_on_http_and_websocket(origin: str) -> None:
    assert ask(HTTP_ORIGIN=origin, body=b"{}")[0] == 403
    assert ask(HTTP_ORIGIN=origin, PATH_INFO="/socket.io/")[0] == 403


OPENING = {
    "PATH_INFO": "/socket.io/",
    "QUERY_STRING": "EIO=4&transport=websocket",
    "HTTP_ORIGIN": "http://127.0.0.1:8000",
    "HTTP_UPGRADE": "WebSocket",
    "HTTP_CONNECTION": "keep-alive, Upgrade",
    "HTTP_SEC_WEBSOCKET_VERSION": "13",
    "HTTP_SEC_WEBSOCKET_KEY": base64.b64encode(b"k" * 16).decode(),
}


def test_a_websocket_needs_an_origin() -> None:
    assert ask(**OPENING)[0] == 200
    assert ask(**{name: value for name, value in OPENING.items() if name != "HTTP_ORIGIN"})[0] == 403


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"QUERY_STRING": "EIO=4&transport=polling"}, 400),
        ({"QUERY_STRING": "EIO=3&transport=websocket"}, 400),
        ({"QUERY_STRING": "EIO=4&transport=websocket&transport=polling"}, 400),
        ({"QUERY_STRING": "EIO=4&transport=websocket&sid=abc"}, 400),
        ({"QUERY_STRING": "EIO=4&transport=websocket&j=0"}, 400),
        ({"QUERY_STRING": ""}, 400),
        ({"REQUEST_METHOD": "POST"}, 405),
        ({"HTTP_UPGRADE": ""}, 400),
        ({"HTTP_CONNECTION": "close"}, 400),
        ({"HTTP_SEC_WEBSOCKET_VERSION": "8"}, 400),
        ({"HTTP_SEC_WEBSOCKET_KEY": "short"}, 400),
        ({"HTTP_SEC_WEBSOCKET_KEY": "?" * 22 + "=="}, 400),
    ],
)
def test_socket_io_sees_nothing_but_whole_openings_of_websockets(change: dict[str, str], status: int) -> None:
    seen = len(SEEN)
    answered, headers, body = ask(**OPENING | change)
    assert answered == status and json.loads(body)["error"]["message"] and "X-Request-Id" in headers
    assert len(SEEN) == seen


@pytest.mark.parametrize("name", [name for name in OPENING if name not in ("PATH_INFO", "HTTP_ORIGIN")])
def test_an_opening_of_a_websocket_lacks_nothing(name: str) -> None:
    answer: list[str] = []
    environ = {"REQUEST_METHOD": "GET", "HTTP_HOST": "127.0.0.1:8000", **OPENING}
    del environ[name]
    make()(environ, lambda status, _headers, _exc_info=None: answer.append(status))
    assert answer == ["400 Bad Request"]


def test_websockets_are_bounded_while_they_last() -> None:
    open_at_once: list[int] = []
    refusals: list[tuple[int, dict[str, str], bytes]] = []

    def lasting(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """A websocket during which another is opened, and so on until one is refused."""
        open_at_once.append(gate.websockets)
        answered = ask(gate=gate, **OPENING)
        if answered[0] != 200:
            refusals.append(answered)
        return inner(environ, start_response)

    gate = Gate(lasting, Rules(HOSTS, allowed_origins(HOSTS)))
    assert ask(gate=gate, **OPENING)[0] == 200
    assert open_at_once == list(range(1, MAX_WEBSOCKETS + 1)) and gate.websockets == 0
    (status, headers, _) = refusals[0]
    assert status == 503 and headers["Retry-After"] == "5" and len(refusals) == 1


def test_a_cross_site_post_is_refused_without_an_origin_too() -> None:
    for site in ("cross-site", "same-site", "same-origin,same-origin", "x"):
        assert ask(HTTP_SEC_FETCH_SITE=site, body=b"{}")[0] == 403
        assert ask(HTTP_SEC_FETCH_SITE=site, REQUEST_METHOD="DELETE")[0] == 403
    for site in ("same-origin", "none"):
        assert ask(HTTP_SEC_FETCH_SITE=site, body=b"{}")[0] == 200


@pytest.mark.parametrize(
    ("mode", "target", "method", "status"),
    [
        ("navigate", "document", "GET", 200),
        ("navigate", "iframe", "GET", 403),
        ("no-cors", "image", "GET", 403),
        ("cors", "empty", "GET", 403),
        ("navigate", "document", "POST", 403),
    ],
)
def test_a_foreign_page_may_link_to_us_and_nothing_else(mode: str, target: str, method: str, status: int) -> None:
    headers = {"HTTP_SEC_FETCH_SITE": "cross-site", "HTTP_SEC_FETCH_MODE": mode, "HTTP_SEC_FETCH_DEST": target}
    assert ask(REQUEST_METHOD=method, **headers)[0] == status


@pytest.mark.parametrize("media", ["text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_a_body_that_is_not_json_is_refused(media: str) -> None:
    assert ask(body=b"a=b", CONTENT_TYPE=media)[0] == 415


def test_compressed_bodies_are_never_inflated() -> None:
    assert ask(body=b"x", HTTP_CONTENT_ENCODING="gzip")[0] == 415


def test_a_post_without_a_body_needs_no_media_type() -> None:
    assert ask(body=b"", CONTENT_TYPE="")[0] == 200


def test_the_body_is_bounded_by_its_length_before_it_is_read() -> None:
    class Unread(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise AssertionError("the body was read")

    assert ask(body=b"x", CONTENT_LENGTH="101", **{"wsgi.input": Unread()})[0] == 413


def test_a_chunked_body_is_counted() -> None:
    chunked = {"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked"}
    assert ask(body=b"x" * 100, **chunked)[::2] == (200, b"x" * 100)
    assert ask(body=b"x" * 101, **chunked)[0] == 413


@pytest.mark.parametrize(("failure", "status"), [(TimeoutError("too slow"), 408), (OSError("bad chunk"), 400)])
def test_a_body_that_cannot_be_read_is_the_clients_fault(failure: OSError, status: int) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise failure

    answered, headers, _ = ask(body=b"{}", **{"wsgi.input": Broken()})
    assert answered == status and headers["Connection"] == "close"


KEYS = read_keys("# ours\nalice secret-a\nbob sha256:" + hashlib.sha256(b"secret-b").hexdigest() + "\n")


def test_forwarding_headers_make_no_foreign_caller_ours() -> None:
    forwarded = {
        "HTTP_X_FORWARDED_HOST": "127.0.0.1:8000",
        "HTTP_X_FORWARDED_PROTO": "http",
        "HTTP_FORWARDED": "host=127.0.0.1",
    }
    assert ask(HTTP_HOST="evil.test", **forwarded)[0] == 421
    assert ask(HTTP_ORIGIN="http://evil.test", body=b"{}", HTTP_X_FORWARDED_HOST="evil.test")[0] == 403


def test_requests_in_service_are_bounded_and_counted_down_when_their_answer_is_closed() -> None:
    gate = make(max_requests=1)
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/x", "HTTP_HOST": "127.0.0.1:8000", "wsgi.input": io.BytesIO()}
    streaming: Any = gate(environ, lambda *_: None)
    status, headers, body = ask(gate=gate)
    assert status == 503 and headers["Retry-After"] == "1" and b"server_is_overloaded" in body
    streaming.close()
    streaming.close()
    assert gate.requests == 0


def test_a_view_that_fails_leaves_its_place() -> None:
    def failing(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        raise RuntimeError

    gate = Gate(failing, Rules(HOSTS, allowed_origins(HOSTS)))
    for _ in range(2):
        with pytest.raises(RuntimeError):
            ask(gate=gate)
    assert ask(gate=gate, body=b"x" * 5, CONTENT_TYPE="text/plain")[0] == 415
    assert gate.requests == 0


def test_with_keys_everything_but_the_open_paths_needs_one() -> None:
    status, headers, body = ask(keys=KEYS)
    assert status == 401 and headers["WWW-Authenticate"].startswith("Bearer") and b"secret" not in body
    assert ask(keys=KEYS, PATH_INFO="/static/a.js")[0] == 401
    assert ask(keys=KEYS, PATH_INFO="/livez")[0] == 200


@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Bearer ", "Bearer", "Basic !!", "Basic eA==", "secret-a", "Bearer " + "k" * 10_000]
)
def test_a_wrong_key_is_refused(header: str) -> None:
    assert ask(keys=KEYS, HTTP_AUTHORIZATION=header)[0] == 401


def test_a_key_is_known_by_its_digest_and_names_its_holder() -> None:
    for header, name in (("Bearer secret-a", "alice"), ("bearer secret-b", "bob")):
        assert ask(keys=KEYS, HTTP_AUTHORIZATION=header)[0] == 200
        assert SEEN[-1]["batchscope.key_name"] == name and "admin" in SEEN[-1]["batchscope.scopes"]
    basic = "Basic " + base64.b64encode(b"anyone:secret-a").decode()
    assert ask(keys=KEYS, HTTP_AUTHORIZATION=basic)[0] == 200


def test_livez_is_open_to_reading_only() -> None:
    assert ask(keys=KEYS, PATH_INFO="/livez", body=b"{}")[0] == 401
    assert ask(keys=KEYS, PATH_INFO="/livez", HTTP_HOST="evil.test")[0] == 421


def test_a_websocket_needs_a_key_that_may_read() -> None:
    keys = read_keys("looker k1 read\nworker k2 infer,load,admin")
    assert ask(keys=keys, **OPENING)[0] == 401
    assert ask(keys=keys, HTTP_AUTHORIZATION="Bearer k1", **OPENING)[0] == 200
    status, _, body = ask(keys=keys, HTTP_AUTHORIZATION="Bearer k2", **OPENING)
    assert status == 403 and json.loads(body)["error"]["code"] == "insufficient_scope"


@pytest.mark.parametrize("environ", [{}, {"HTTP_HOST": "evil.test"}, {"HTTP_ORIGIN": "null"}, {"PATH_INFO": "/socket.io/"}])
def test_every_answer_carries_an_id_and_the_security_headers(environ: dict[str, str]) -> None:
    _, headers, _ = ask(**environ)
    assert headers["X-Request-Id"].startswith("req_") and headers["X-Content-Type-Options"] == "nosniff"
    assert "script-src 'self';" in headers["Content-Security-Policy"]
    assert "Access-Control-Allow-Origin" not in headers


def test_a_view_may_set_its_own_cache_header() -> None:
    assert ask()[1]["Cache-Control"] == "max-age=1"
    assert ask(HTTP_HOST="evil.test")[1]["Cache-Control"] == "no-store"
