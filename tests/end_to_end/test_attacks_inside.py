"""Attacks through what we do for a caller, and what may leak: A13 the load generator as a cannon, A14 injected arguments,
A15 scenarios from elsewhere, A16 the shared prefix cache; keys, paths and prompts in answers and logs; headers everywhere.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeRequest, FakeServer
from hostile_client import OPENING, Reply, ask, place, raw
from keyed_server import Keyed
from live_server import ROOT, LiveServer, wait_until

from app.cli.failures import CommandError
from app.cli.target import local_target
from app.supervisor import scenarios
from app.supervisor.generator import Order, command
from loadgen import library
from loadgen.target import Target, TargetError

KEY, READER, PROMPT = "CANARYkey0123456789", "CANARYreader98765", "CANARYprompt"
BEARER = {"Authorization": f"Bearer {KEY}"}
SECRETS = (KEY.encode(), READER.encode(), PROMPT.encode())


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("local"), "--runner", "null") as started:
        yield started


# ---- A13: whom a load may be aimed at

ELSEWHERE = [
    "http://evil.test", "http://evil.test:80/", "https://127.0.0.1:8000", "ftp://127.0.0.1", "file:///etc/passwd",
    "//127.0.0.1:8000", "127.0.0.1:8000", "http:127.0.0.1:8000", "http:/127.0.0.1", "http://", "http://:8000", "",
    "gopher://127.0.0.1:25/", "http://127.0.0.1@evil.test/", "http://127.0.0.1:80@evil.test/", "http://user:pw@127.0.0.1/",
    "http://evil.test#@127.0.0.1/", "http://evil.test\\@127.0.0.1/", "http://127.0.0.1\\@evil.test/",
    "http://127.0.0.1.evil.test/", "http://127.evil.test/", "http://localhost.evil.test/",
    "http://evil.test?http://127.0.0.1/", "http://127.0.0.1 .evil.test/", "http://127.0.0.1%2eevil.test/",
    "http://127.0.0.1\n.evil.test/", "http://127.0.0.1\t/", "http://127.0.0.1/\r\nHost: evil.test", " http://127.0.0.1/",
    "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://127.1/", "http://127.0.0.256/",
    "http://127.0.0.01/", "http://0.0.0.0:8000/", "http://0/", "http://[::]/", "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:169.254.169.254]/", "http://[::1%25eth0]/", "http://[::1]@evil.test/",
    "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://192.168.1.1", "http://metadata.google.internal/",
    "http://ⓛocalhost/", "http://127。0。0。1/", "http://127.0.0.1:99999/", "http://127.0.0.1:0/", "http://127.0.0.1:-1/",
    "http://127.0.0.1:80:80/", "http://127.0.0.1/../..//evil.test", "http://127.0.0.1/?x=1", "http://127.0.0.1/#x",
]  # fmt: skip


@pytest.mark.parametrize("url", ELSEWHERE)
def test_a13_what_is_not_plainly_this_machine_is_no_target(url: str) -> None:
    """A run of the server is aimed at the server itself, always; `batchscope load --url` at this machine only. There is no
    list of targets to name: what could be aimed elsewhere does not exist. Nothing is resolved, so nothing can be rebound
    between check and use."""
    with pytest.raises(CommandError):
        local_target(url)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://127.8.9.10:1/", "http://127.8.9.10:1"),
        ("http://LOCALHOST/v1/", "http://localhost:80/v1"),
        ("http://[::1]:65535/a/b", "http://[::1]:65535/a/b"),
    ],
)
def test_a13_this_machine_is_a_target_written_in_one_way(url: str, target: str) -> None:
    assert local_target(url) == target
    assert f"http://{Target(target).authority}{Target(target).prefix}" == target


@pytest.mark.parametrize(
    "url", [url for url in ELSEWHERE if re.search(r"[@\\#?%\s]|^[^h]|^$|:/[^/]|^https|:0/|9{5}|-1|80:80", url)]
)
def test_a13_the_generator_takes_no_url_that_can_be_read_in_two_ways(url: str) -> None:
    with pytest.raises(TargetError):
        Target(url)


def test_a13_the_command_refuses_before_anything_is_sent(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "app.cli",
        "load",
        "poisson",
        "--url",
        "http://127.0.0.1@192.0.2.1/",
        "--out",
        str(tmp_path / "o"),
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "only servers on this machine" in done.stderr and not (tmp_path / "o").exists()


def test_a13_a_redirect_is_an_answer_and_is_not_followed(tmp_path: Path) -> None:
    def redirect(request: FakeRequest) -> list[bytes]:
        return [f"HTTP/1.1 302 Found\r\nLocation: {elsewhere.url}/v1/completions\r\nContent-Length: 0\r\n\r\n".encode()]

    with FakeServer() as elsewhere, FakeServer(script=redirect) as server:
        words = [sys.executable, "-m", "loadgen", "--scenario=steady", f"--url={server.url}", "--run=r", f"--out={tmp_path}"]
        done = subprocess.run(
            [*words, "--set=duration_s=1", "--set=users=2"], cwd=ROOT, capture_output=True, timeout=60, check=False
        )
        rows = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
        assert server.posts and not elsewhere.requests, done.stderr
    assert rows and {(row["status"], row["http"]) for row in rows} <= {("http_error", 302), ("incomplete", None)}


@pytest.mark.parametrize("field", ["url", "target", "host", "base_url", "headers", "env", "out", "argv"])
def test_a13_a_run_is_told_no_target(local: LiveServer, field: str) -> None:
    reply = ask(local.url, "POST", "/api/runs", body={"scenario": "poisson", field: "http://192.0.2.1/"})
    assert reply.status == 400 and reply.error["param"] == field
    assert local.get("/api/runs")["items"] == []


# ---- A14: arguments

HOSTILE_WORDS = [
    "--host=http://evil.test", "--config=/etc/passwd", "-f /tmp/evil.py", "; rm -rf /", "$(id)", "`id`", "a\nb", "a\0b", "'",
    '"', "--", "../../etc/passwd", "%s%n", "\x1b[2J", "=cmd|' /C calc'!A0",
]  # fmt: skip


@pytest.mark.parametrize("word", HOSTILE_WORDS)
def test_a14_no_word_of_a_caller_becomes_an_argument(local: LiveServer, word: str) -> None:
    for body, param in (
        ({"scenario": word}, "scenario"),
        ({"scenario": "poisson", "set": {word: 1}}, None),
        ({"scenario": "poisson", "set": {"rate": word}}, "set.rate"),
        ({"scenario": "poisson", "seed": word}, "seed"),
        ({"scenario": "poisson", "processes": word}, "processes"),
        ({"scenario": "poisson", "scheduler": {"policy": word}}, None),
    ):
        reply = ask(local.url, "POST", "/api/runs", body=body)
        assert reply.status == 400 and (param is None or reply.error["param"] == param), body
    assert local.get("/api/runs")["items"] == []
    order = Order(run=word, scenario=word, url=word, seed=1, set={word: word}, processes=1, out=Path("/x"))
    words = command(order)
    assert words[1:3] == ["-m", "loadgen"]
    own = [each for each in words[3:] if each != "--orders"]  # it takes no word: the rate comes by a line on its input
    assert all(re.match(r"--(scenario|url|run|seed|out|processes|set)=", each) for each in own)


# ---- A15: scenarios

NAMES = [
    "../poisson", "..%2fpoisson", "%2e%2e/%2e%2e/pyproject", "/etc/passwd", "poisson.toml", "poisson%00", "POISSON",
    "./poisson", "poisson/..", "....//poisson", "poisson.pyc", "nul", "*", "poi*", "~",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a15_only_listed_scenarios_exist(local: LiveServer, name: str) -> None:
    reply = ask(local.url, "GET", f"/api/scenarios/{name}")
    assert reply.status in (308, 404) and b"streams" not in reply.body and b"[project]" not in reply.body
    reply = ask(local.url, "POST", "/api/runs", body={"scenario": name})
    assert reply.status == 400 and reply.error["param"] == "scenario"


def test_a15_none_can_be_brought_along(local: LiveServer) -> None:
    for method in ("PUT", "POST", "PATCH", "DELETE"):
        assert ask(local.url, method, "/api/scenarios/evil", body={"title": "x"}).status == 405
        assert ask(local.url, method, "/api/scenarios", body={"title": "x"}).status == 405
    words = [sys.executable, "-m", "app.cli", "scenarios", "../poisson"]
    assert subprocess.run(words, cwd=ROOT, capture_output=True, timeout=60, check=False).returncode == 2


def test_a15_a_link_that_leads_out_of_the_folder_is_no_scenario(tmp_path: Path) -> None:
    home = tmp_path / "scenarios"
    home.mkdir()
    (home / "own.toml").write_text("")
    (tmp_path / "other.toml").write_text("")
    (home / "linked.toml").symlink_to(tmp_path / "other.toml")
    (home / "compiled.pyc").write_text("")
    assert scenarios.names(home) == library.names(home) == ["own"]


# ---- A16: the prefix cache


def test_a16_the_prefix_cache_is_one_and_can_be_switched_off(local: LiveServer, tmp_path: Path) -> None:
    """All keys of a server share one prefix cache: a server is one team's laboratory, and what a shared cache does to waiting
    is what it is there to show. Who serves strangers starts it with enable_prefix_caching=false (docs/security.md): then no
    key learns from timing what another one asked. Blocks are found by SHA-256 over their whole prefix, never by hash()."""
    assert _cached_of_the_second(local) >= 64
    with LiveServer(tmp_path / "data", "--runner", "null", "--set", "enable_prefix_caching=false") as server:
        assert _cached_of_the_second(server) == 0


def _cached_of_the_second(server: LiveServer) -> int:
    """How much of a prompt that was sent twice came from the cache."""
    body = {"model": "null", "prompt": list(range(100)), "max_tokens": 1, "ignore_eos": True}
    request_id = [ask(server.url, "POST", "/v1/completions", body=body).headers["x-request-id"] for _ in range(2)][1]
    row = wait_until(lambda: ask(server.url, "GET", f"/api/requests/{request_id}").body, 10, "the row")
    return int(json.loads(row)["cached_tokens"])


# ---- what leaks


def test_no_key_path_prompt_or_traceback_is_in_any_answer_log_or_record(tmp_path: Path) -> None:
    with Keyed(tmp_path, key=KEY, reader=READER) as server:
        replies = _provoke(server)
        engine = _engine_pid(server)
        os.kill(engine, signal.SIGKILL)
        wait_until(
            lambda: _engine_pid(server) not in (0, engine) and ask(server.url, "GET", "/readyz", BEARER).status == 200, 30
        )
        replies += _provoke(server)
        commands = b"".join(path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
        assert KEY.encode() not in commands
    assert len(replies) > 60 and {reply.status for reply in replies} >= {200, 400, 401, 403, 404, 405, 413, 415, 421}
    for reply in replies:
        told = reply.body + json.dumps(reply.headers).encode()
        found = [
            secret
            for secret in (*SECRETS, b"Traceback", b"site-packages", str(ROOT).encode(), str(tmp_path).encode())
            if secret in told
        ]
        assert not found and reply.status < 500, (found, reply)
    log = (tmp_path / "data" / "server.log").read_bytes()
    assert not [secret for secret in (*SECRETS, b"Traceback") if secret in log]
    assert all(line.isprintable() for line in log.decode().splitlines())
    for path in (tmp_path / "data").rglob("*"):
        if path.is_file():
            assert not [secret for secret in SECRETS if secret in path.read_bytes()], path


def _provoke(server: LiveServer) -> list[Reply]:
    """Every kind of refusal, with secrets in all the places where they do not belong."""
    here, replies = server.url, _provoke_inference(server.url)
    for path in (
        "/nothing",
        "/%1b%5b2J%0aERROR",
        "/v1/models/x%0a",
        "/api/requests?sort=x",
        "/api/requests?min_ttft_ms=x",
        "/api/runs/x",
    ):
        replies.append(ask(here, "GET", path, BEARER))
    for path in (
        "/api/requests/x/y",
        "/api/steps?since=x",
        "/api/compare?runs=a,b",
        "/api/export/requests.exe",
        "/api/scenarios/x",
        OPENING,
    ):
        replies.append(ask(here, "GET", path, BEARER))
    for body in ({"scenario": PROMPT[:3]}, {"external": True, "name": 5}, {"scenario": "poisson", "scheduler": {"x": 1}}):
        replies.append(ask(here, "POST", "/api/runs", BEARER, body))
    replies.append(ask(here, "PATCH", "/api/scheduler", BEARER, {"max_num_seqs": "many"}))
    replies.append(ask(here, "PATCH", "/api/scheduler", {"Authorization": f"Bearer {READER}"}, {"max_num_seqs": 1}))
    return replies


def _provoke_inference(here: str) -> list[Reply]:
    good: dict[str, Any] = {"model": "null", "prompt": PROMPT, "max_tokens": 1}
    chat = {"model": "null", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 1}
    replies: list[Reply] = []
    for path, body in (("/v1/completions", good), ("/v1/chat/completions", chat)):
        for change in (
            {},
            {"max_tokens": -1},
            {"temperature": 99},
            {"n": 1000},
            {"stop": [""]},
            {"stream": "yes"},
            {"model": None},
        ):
            replies.append(ask(here, "POST", path, BEARER, body | change))
        replies.append(ask(here, "POST", path, BEARER | {"X-Request-Id": "a\x9b2Jb", "X-Batchscope-Run": "\x9b"}, body))
        replies.append(ask(here, "POST", path, {}, body))
        replies.append(ask(here, "POST", path, {"Authorization": f"Bearer {READER}"}, body))
        replies.append(ask(here, "POST", path, {"Authorization": f"Digest {KEY}"}, body))
        replies.append(ask(here, "POST", path, {"X-Api-Key": KEY, "Cookie": f"key={KEY}"}, body))
        replies.append(ask(here, "POST", f"{path}?api_key={KEY}", {}, body))
        replies.append(ask(here, "POST", path, BEARER | {"Content-Type": "text/plain"}, PROMPT.encode()))
        replies.append(ask(here, "POST", path, BEARER | {"Content-Type": "application/json"}, PROMPT.encode()))
        replies.append(
            ask(here, "POST", path, BEARER | {"Content-Type": "application/json"}, b'{"prompt": "' + PROMPT.encode() + b"\xff")
        )
        replies.append(
            ask(here, "POST", path, BEARER | {"Content-Type": "application/json"}, b'{"prompt": "' + b"x" * (5 << 20) + b'"}')
        )
        replies.append(ask(here, "POST", path, BEARER | {"Host": "evil.test\x9b"}, body))
        replies.append(ask(here, "POST", path, BEARER | {"Origin": f"http://{KEY}.test"}, body))
        replies.append(ask(here, "DELETE", path, BEARER))
    return replies


def _engine_pid(server: LiveServer) -> int:
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            child = f"\nPPid:\t{server.process.pid}\n" in status.read_text()
            if child and b"scheduler.engine" in (status.parent / "cmdline").read_bytes():
                return int(status.parent.name)
        except OSError:
            continue  # it has ended meanwhile
    return 0


# ---- headers

EVERYWHERE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def test_every_answer_carries_the_safe_headers_and_an_id_of_its_own(local: LiveServer) -> None:
    pages = (ROOT / "docs" / "api.md").read_text("utf-8")
    paths = {re.sub(r"\{.*?\}", "x", path) for path in re.findall(r"`GET (/[^`? ]*)`", pages)} | {
        "/static/js/store.js",
        "/nothing",
    }
    asked: list[tuple[str, str, dict[str, str], Any]] = [("GET", path, {}, None) for path in sorted(paths)]
    asked += [("HEAD", path, {}, None) for path in ("/", "/api/live", "/nothing")]
    asked += [("OPTIONS", path, {"Origin": local.url}, None) for path in ("/", "/v1/completions", OPENING)]
    asked += [
        ("GET", OPENING, {"Origin": local.url}, None),
        ("POST", "/socket.io/", {"Origin": local.url}, {}),
        ("GET", "/", {"Host": "evil.test"}, None),
        ("GET", "/", {"Origin": "http://evil.test"}, None),
        ("POST", "/v1/completions", {"Content-Type": "text/plain"}, b"x"),
        ("POST", "/v1/completions", {}, {"model": "null", "prompt": "hi", "max_tokens": 1}),
        ("POST", "/v1/completions", {}, {"model": "null", "prompt": "hi", "max_tokens": 1, "stream": True}),
        ("POST", "/v1/completions", {"Content-Length": "99999999"}, b"{}"),
        ("TRACE", "/", {}, None),
        ("GET", "/" + "a" * 9000, {}, None),
        ("GET", "/", {"X-A": "a" * 40_000}, None),
    ]
    ids = set()
    for method, path, headers, body in asked:
        reply = ask(local.url, method, path, headers, body)
        assert reply.headers.items() >= EVERYWHERE.items(), (method, path, reply.headers)
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert ("no-store" in reply.headers["cache-control"]) or path.startswith("/static/") or reply.status == 200
        assert not [name for name in reply.headers if name.startswith("access-control-") or name == "server"]
        ids.add(reply.headers["x-request-id"])
    assert len(ids) == len(asked) and all(each.startswith("req_") for each in ids)


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET / HTTP/3.0\r\n\r\n"]
)
def test_also_what_was_never_a_request_is_answered_so(local: LiveServer, data: bytes) -> None:
    head = raw(local.url, data).partition(b"\r\n\r\n")[0].decode().lower()
    assert head.startswith("http/1.1 400 ") and "x-request-id: req_" in head and "content-security-policy: " in head
    assert all(f"{name}: {value}" in head for name, value in EVERYWHERE.items())


def test_a_websocket_refused_by_a_peer_that_lies_about_its_host_gets_no_policy_with_that_host(local: LiveServer) -> None:
    host, port = place(local.url)
    reply = ask(local.url, "GET", "/", {"Host": f"{host}:{port};script-src *"})
    assert reply.status == 421 and "script-src *" not in reply.headers["content-security-policy"]
