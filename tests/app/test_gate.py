"""The gate: who gets in, what is measured before anybody reads it, and what every answer carries."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Iterable
from typing import Any

import pytest

from app.gate import Gate, Rules, allowed_hosts, allowed_origins, read_keys

HOSTS = allowed_hosts("127.0.0.1", 8000, ["lab.example"])
SEEN: list[dict[str, Any]] = []


def inner(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    SEEN.append(environ)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Cache-Control", "max-age=1")])
    return [environ["wsgi.input"].read()]


def ask(
    *, keys: Any = None, body: bytes | None = None, max_body: int = 100, **environ: Any
) -> tuple[int, dict[str, str], bytes]:
    """One request through a gate: status, headers, body."""
    gate = Gate(inner, Rules(HOSTS, allowed_origins(HOSTS), keys, max_body))
    full: dict[str, Any] = {"REQUEST_METHOD": "POST" if body is not None else "GET", "PATH_INFO": "/x"}
    full |= {"HTTP_HOST": "127.0.0.1:8000", "wsgi.input": io.BytesIO(body or b"")}
    if body is not None:
        full |= {"CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": "application/json"}
    answer: dict[str, Any] = {}

    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        answer.update(status=int(status.split()[0]), headers=dict(headers))

    data = b"".join(gate(full | environ, start))
    return answer["status"], answer["headers"], data


def test_our_own_request_reaches_the_application_with_its_body() -> None:
    assert ask(body=b"{}")[::2] == (200, b"{}")


@pytest.mark.parametrize("host", ["evil.test", "127.0.0.1:8001", "127.0.0.1", "", "127.0.0.1:8000,evil.test", "a\x00b"])
def test_a_foreign_host_is_misdirected(host: str) -> None:
    status, _, body = ask(HTTP_HOST=host)
    assert status == 421 and "--allow-host" in json.loads(body)["error"]["message"]


@pytest.mark.parametrize("host", ["localhost:8000", "LOCALHOST:8000", "[::1]:8000", "lab.example:8000"])
def test_our_names_are_known(host: str) -> None:
    assert ask(HTTP_HOST=host)[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.test", "null", "http://127.0.0.1:8001", "http://127.0.0.1:8000.evil.test"])
def test_a_foreign_origin_is_refused_on_http_and_websocket(origin: str) -> None:
    assert ask(HTTP_ORIGIN=origin, body=b"{}")[0] == 403
    assert ask(HTTP_ORIGIN=origin, PATH_INFO="/socket.io/")[0] == 403


def test_a_websocket_needs_an_origin() -> None:
    assert ask(PATH_INFO="/socket.io/")[0] == 403
    assert ask(PATH_INFO="/socket.io/", HTTP_ORIGIN="http://127.0.0.1:8000")[0] == 200


def test_a_cross_site_post_is_refused_without_an_origin_too() -> None:
    assert ask(HTTP_SEC_FETCH_SITE="cross-site", body=b"{}")[0] == 403
    assert ask(HTTP_SEC_FETCH_SITE="same-origin", body=b"{}")[0] == 200


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
        assert SEEN[-1]["batchscope.key_name"] == name
    basic = "Basic " + base64.b64encode(b"anyone:secret-a").decode()
    assert ask(keys=KEYS, HTTP_AUTHORIZATION=basic)[0] == 200


@pytest.mark.parametrize("text", ["", "# only a comment", "alice", "alice a b", "alice sha256:00"])
def test_a_key_file_that_says_nothing_clear_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_keys(text)


@pytest.mark.parametrize("environ", [{}, {"HTTP_HOST": "evil.test"}, {"HTTP_ORIGIN": "null"}, {"PATH_INFO": "/socket.io/"}])
def test_every_answer_carries_an_id_and_the_security_headers(environ: dict[str, str]) -> None:
    _, headers, _ = ask(**environ)
    assert headers["X-Request-Id"].startswith("req_") and headers["X-Content-Type-Options"] == "nosniff"
    assert "script-src 'self';" in headers["Content-Security-Policy"]
    assert "Access-Control-Allow-Origin" not in headers


def test_a_view_may_set_its_own_cache_header() -> None:
    assert ask()[1]["Cache-Control"] == "max-age=1"
    assert ask(HTTP_HOST="evil.test")[1]["Cache-Control"] == "no-store"
