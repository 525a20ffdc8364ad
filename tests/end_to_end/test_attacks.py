"""Attacks on a running server, from outside: other pages, other hosts, other peers. Each test names the attack of its kind.

A1 foreign pages, A2 rebinding, A3 foreign websockets, A4 replayed tickets, A5 endpoints without a key, A6 odd paths,
A7 smuggling, A8 body bombs, A9 fan-out. A10 to A12, by their number, are in test_attacks_by_number.py; A13 to A16 and what
leaks in test_attacks_inside.py.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_client import OPENING, ask, open_websocket, place, raw, statuses
from keyed_server import KEY, READER, Keyed, bearer
from live_server import LiveServer
from playwright.sync_api import Browser

STATE_CHANGING = [
    ("POST", "/v1/completions", {"model": "null", "prompt": "hi", "max_tokens": 1}),
    ("POST", "/v1/chat/completions", {"model": "null", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}),
    ("POST", "/api/runs", {"external": True, "name": "evil"}),
    ("PATCH", "/api/scheduler", {"max_num_seqs": 1}),
    ("POST", "/api/scheduler/pause", {}),
    ("DELETE", "/api/runs/x", None),
    ("DELETE", "/api/requests/x", None),
]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """As it starts by default: loopback, no keys."""
    with LiveServer(tmp_path_factory.mktemp("local"), "--runner", "null") as started:
        yield started


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with Keyed(tmp_path_factory.mktemp("keyed")) as server:
        yield server


def untouched(server: LiveServer) -> tuple[Any, ...]:
    """What a refused attack must not have changed."""
    settings, runs, live = server.get("/api/scheduler"), server.get("/api/runs"), server.get("/api/live")
    return settings["version"], settings["paused"], len(runs["items"]), live["gauges"]["finished"]


# ---- A1 to A4: pages in the user's browser


@pytest.mark.parametrize("origin", ["http://evil.test", "null", "http://127.0.0.1:9", "https://localhost.evil.test", "file://"])
def test_a1_a_page_of_another_origin_starts_nothing(local: LiveServer, origin: str) -> None:
    before = untouched(local)
    for method, path, body in STATE_CHANGING:
        assert ask(local.url, method, path, {"Origin": origin}, body).status == 403
        for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            encoded = json.dumps(body).encode()
            assert ask(local.url, method, path, {"Origin": origin, "Content-Type": media}, encoded).status == 403
            assert ask(local.url, method, path, {"Content-Type": media}, encoded).status == 415  # no browser of these days
        assert ask(local.url, method, path, {"Sec-Fetch-Site": "cross-site"}, body).status == 403
    assert untouched(local) == before


ATTEMPTS = """async base => {
    const tried = {};
    const attempt = async (name, path, options) => {
        try { const r = await fetch(base + path, options); tried[name] = [r.type, await r.text()]; }
        catch (error) { tried[name] = 'refused'; }
    };
    const body = JSON.stringify({external: true, name: 'evil'});
    await attempt('read', '/api/live', {});
    await attempt('json', '/api/runs', {method: 'POST', body, headers: {'Content-Type': 'application/json'}});
    await attempt('simple', '/api/runs', {method: 'POST', body, mode: 'no-cors', headers: {'Content-Type': 'text/plain'}});
    await attempt('pause', '/api/scheduler/pause', {method: 'POST', mode: 'no-cors'});
    tried.websocket = await new Promise(done => {
        const ws = new WebSocket(base.replace('http', 'ws') + '/socket.io/?EIO=4&transport=websocket');
        ws.onopen = () => done('open'); ws.onerror = () => done('refused');
    });
    tried.image = await new Promise(done => {
        const image = new Image(); image.onload = () => done('loaded'); image.onerror = () => done('refused');
        image.src = base + '/static/icon.svg';
    });
    const frame = document.createElement('iframe');
    frame.src = base + '/';
    await new Promise(done => { frame.onload = done; frame.onerror = done; document.body.append(frame); });
    try { tried.frame = frame.contentDocument.title; } catch (error) { tried.frame = 'refused'; }
    return tried;
}"""  # what a page may try, and what came of it


def test_a1_a_real_page_on_another_port_reaches_nothing(local: LiveServer, browser: Browser) -> None:
    before = untouched(local)
    with other_page() as page_url, contextlib.closing(browser.new_context()) as context:
        page = context.new_page()
        page.goto(page_url)
        tried = page.evaluate(ATTEMPTS, local.url)
        page.evaluate(
            "base => { const form = document.createElement('form'); form.method = 'POST';"
            " form.action = base + '/api/scheduler/pause'; document.body.append(form); form.submit(); }",
            local.url,
        )
        page.wait_for_url(f"{local.url}/**")
        assert "origin_refused" in page.content()
    assert tried["read"] == tried["json"] == tried["websocket"] == tried["image"] == tried["frame"] == "refused"
    assert tried["simple"] in ("refused", ["opaque", ""]) and tried["pause"] in ("refused", ["opaque", ""])
    assert untouched(local) == before


@contextlib.contextmanager
def other_page() -> Iterator[str]:
    """A site of somebody else's, on another port of this machine: the same site to a browser, another origin."""

    class Blank(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # noqa: N802 - the library's name
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><body>evil")

        def log_message(self, *_: Any) -> None:
            """Silence."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Blank) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.mark.parametrize(
    "host", ["evil.test", "evil.test:{port}", "127.0.0.1.evil.test:{port}", "127.0.0.1:{port},evil.test", "[::]"]
)
def test_a2_a_name_that_was_rebound_to_us_gets_no_answer(local: LiveServer, host: str) -> None:
    host = host.format(port=place(local.url)[1])
    for path in ("/", "/api/live", "/livez", "/static/js/store.js", "/v1/models", OPENING):
        reply = ask(local.url, "GET", path, {"Host": host, "X-Forwarded-Host": place(local.url)[0], "Origin": f"http://{host}"})
        assert reply.status == 421 and reply.error["code"] == "misdirected_request"
    status, sock = open_websocket(local.url, Host=host, Origin=f"http://{host}")
    sock.close()
    assert status == 421


def test_a3_a_foreign_websocket_is_refused_before_the_upgrade(local: LiveServer) -> None:
    port = place(local.url)[1]
    cases: list[dict[str, str | None]] = [
        {"Origin": "http://evil.test"},
        {"Origin": None},
        {"Origin": "null"},
        {"Origin": "http://evil.test", "X_Forwarded_Host": "evil.test", "X_Forwarded_Proto": "http"},
        {"Origin": f"http://127.0.0.1:{port}.evil.test"},
        {"Origin": f"http://127.0.0.1:{port + 1}"},
        {"Sec_Fetch_Site": "cross-site"},
    ]
    for headers in cases:
        status, sock = open_websocket(local.url, **headers)
        sock.close()
        assert status == 403, headers
    for path in (
        "/socket.io/?EIO=4&transport=polling",
        "/socket.io/?EIO=4&transport=polling&sid=x",
        "/socket.io/?EIO=4",
        "/socket.io",
    ):
        assert ask(local.url, "GET", path, {"Origin": local.url}).status == 400
        assert ask(local.url, "POST", path, {"Origin": local.url, "Content-Type": "text/plain"}, b"40/live,").status == 405
    status, sock = open_websocket(local.url)
    sock.close()
    assert status == 101


def test_a4_there_is_no_ticket_to_replay(keyed: Keyed) -> None:
    """We have no tickets and no sessions: the key itself opens a websocket, in the handshake's Authorization header (a browser
    sends it there by itself after its Basic prompt), checked each time. What a URL or a cookie carries opens nothing, so
    nothing that lies in a history or a log can be replayed; a key that was taken out of the file is dead at the next start."""
    for path in (OPENING, f"{OPENING}&key={KEY}", f"{OPENING}&ticket={KEY}", f"{OPENING}&access_token={KEY}"):
        for headers in ({}, {"Cookie": f"session={KEY}; key={KEY}"}, {"X_Api_Key": KEY}, {"Sec_WebSocket_Protocol": KEY}):
            status, sock = open_websocket(keyed.url, path, **headers)
            sock.close()
            assert status == 401
    for header in (f"Bearer {KEY}", f"Bearer {READER}"):
        status, sock = open_websocket(keyed.url, Authorization=header)
        sock.close()
        assert status == 101


# ---- A5 to A9: requests


def test_a5_nothing_but_livez_answers_without_a_key(keyed: Keyed) -> None:
    """Every route × every method is in tests/app/test_scopes.py; here the real server, over the paths that its docs name."""
    pages = (Path(__file__).parents[2] / "docs" / "api.md").read_text("utf-8")
    named = {
        (method, re.sub(r"\{.*?\}", "x", path)) for method, path in re.findall(r"`(GET|POST|PATCH|DELETE) (/[^`? ]*)`", pages)
    }
    assert len(named) > 25
    for _, path in sorted(named):
        for method in ("GET", "POST", "PATCH", "DELETE", "OPTIONS"):
            reply = ask(keyed.url, method, path)
            if path == "/livez" and method in ("GET", "OPTIONS"):
                assert reply.status == 200
                continue
            assert reply.status == 401 and reply.error["code"] == "invalid_api_key"
            assert reply.headers["www-authenticate"].startswith("Bearer")


PATHS = [
    "//v1/models", "/%76%31/models", "/v1/%6dodels", "/v1/./models", "/x/../v1/models", "/v1/models;a=b", "/v1/models%00",
    "/V1/MODELS", "/v1\\models", "/livez/../v1/models", "/livez%2f..%2fv1/models", "/livez?/v1/models", "/livez;/../v1/models",
    "/%6civez/../v1/models", "/socket.io/../v1/models", "/static/../v1/models", "/static/..%2f..%2fpyproject.toml",
    "/static//etc/passwd", "/static/%2e%2e/app/gate.py",
    "/requests/%ff%fe", "/requests/%0d%0aX-A:%20b", "/runs/%1b%5b2J", "/v1/models/" + "a" * 5000, "/v1/models/..%2f..%2f",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_a6_no_spelling_of_a_path_gets_around_the_key_or_out_of_the_house(keyed: Keyed, path: str) -> None:
    without = ask(keyed.url, "GET", path)
    assert without.status == (200 if path == "/livez?/v1/models" else 401) and b'"data"' not in without.body
    allowed = ask(keyed.url, "GET", path, bearer())
    assert allowed.status in (200, 308, 400, 403, 404)
    assert b"[build-system]" not in allowed.body and b"root:" not in allowed.body and b"WSGI" not in allowed.body
    assert "x-a" not in allowed.headers


def test_a7_two_requests_in_one_are_not_served(local: LiveServer) -> None:
    """tests/app/test_handler.py has the whole list; here it runs through the gate and the views."""
    host = "{}:{}".format(*place(local.url)).encode()
    post = b"POST /v1/completions HTTP/1.1\r\nHost: " + host + b"\r\nContent-Type: application/json\r\n"
    second = b"GET /v1/models HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"
    for framing in (
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 0\r\n\r\n{}",
        b"Content-Length: 0\rTransfer-Encoding: chunked\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}XX0\r\n\r\n",
        b"Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\n{}",
    ):
        assert statuses(raw(local.url, post + framing + second)) == [400], framing
    assert statuses(raw(local.url, post + b"Content-Length: 2\r\n\r\n{}" + second, 0.5)) == [400, 200]


def resident_kb(server: LiveServer) -> int:
    match = re.search(r"^VmRSS:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text(), re.MULTILINE)
    assert match
    return int(match[1])


def test_a8_body_bombs_are_refused_without_swelling(local: LiveServer) -> None:
    bombs: list[tuple[bytes, dict[str, str], int]] = [
        (b'{"prompt":"' + b"a" * 20_000_000 + b'"}', {}, 413),
        (b'{"prompt":' + b"[" * 200_000 + b"]" * 200_000 + b"}", {}, 400),
        (b'{"prompt":[' + b"{}," * 1_300_000 + b"1]}", {}, 400),
        (b'{"prompt":[' + b"[]," * 70 + b'"' + b'\\"' * 1_900_000, {}, 400),
        (b'{"max_tokens":' + b"9" * 4_000_000 + b"}", {}, 400),
        (b'{"max_tokens":-' + b"9" * 5000 + b".0}", {}, 400),
        (b'{"a":1' + b',"a":1' * 600_000 + b"}", {}, 400),
        (b"\x1f\x8b\x08\x00" + b"\x00" * 1000, {"Content-Encoding": "gzip"}, 415),
        (b"\xff" * 4_000_000, {}, 400),
    ]
    ask(local.url, "POST", "/v1/completions", body=bombs[2][0])
    before = resident_kb(local)
    for body, headers, status in bombs:
        began = time.monotonic()
        reply = ask(local.url, "POST", "/v1/completions", {"Content-Type": "application/json", **headers}, body)
        assert reply.status == status and reply.error["message"] and time.monotonic() - began < 15, body[:40]
        assert ask(local.url, "GET", "/livez").status == 200
    host = "{}:{}".format(*place(local.url)).encode()
    head = (
        b"POST /v1/completions HTTP/1.1\r\nHost: "
        + host
        + b"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    assert statuses(raw(local.url, head + b"400000\r\n" + b"a" * (4 << 20) + b"\r\n1\r\na\r\n0\r\n\r\n")) == [413]
    assert statuses(raw(local.url, head + b"1\r\na\r\n" * 400_000)) == [400]
    assert resident_kb(local) - before < 64 << 10


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 10**6}, "n"),
        ({"n": 128, "prompt": ["a"] * 128}, "n"),
        ({"best_of": 10**6}, "best_of"),
        ({"prompt": ["a"] * 10_000}, "prompt"),
        ({"prompt": [[1]] * 10_000}, "prompt"),
        ({"prompt": [[1] * 2000] * 140}, "prompt"),
        ({"stop": ["x"] * 1000}, "stop"),
        ({"stop": ["x" * 1_000_000]}, "stop"),
        ({"stop_token_ids": [1] * 100_000}, "stop_token_ids"),
        ({"logprobs": 100_000}, "logprobs"),
        ({"logit_bias": {str(i): 1 for i in range(200_000)}}, "logit_bias"),
        ({"max_tokens": 2**63}, "max_tokens"),
        ({"tenant": "t" * 1_000_000}, "tenant"),
        ({"kind": "k" * 1_000_000}, "kind"),
    ],
)
def test_a9_a_small_request_cannot_fan_out(local: LiveServer, fields: dict[str, Any], param: str) -> None:
    before = untouched(local)
    reply = ask(local.url, "POST", "/v1/completions", body={"model": "null", "prompt": "hi", "max_tokens": 1} | fields)
    assert reply.status == 400 and reply.error["param"] == param, reply.body[:300]
    assert untouched(local) == before
