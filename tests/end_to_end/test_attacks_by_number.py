"""Attacks by their number: A10 floods, A11 handshake floods, A12 guessed keys. The others are in test_attacks.py."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_client import Reply, ask, open_websocket, place, raw, statuses
from keyed_server import KEY, READER, Keyed, bearer
from live_server import LiveServer, wait_until


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """As it starts by default: loopback, no keys."""
    with LiveServer(tmp_path_factory.mktemp("local"), "--runner", "null") as started:
        yield started


def own_address() -> str:
    """An address of this machine that is not loopback; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        address: str = probe.getsockname()[0]
        return "" if address.startswith(("127.", "0.")) else address


def held(address: str, port: int, count: int, said: bytes) -> tuple[list[socket.socket], list[bytes]]:
    """`count` connections that say `said` and wait; those that stay open, and what the others were told."""
    socks = [socket.create_connection((address, port), 10) for _ in range(count)]
    for sock in socks:
        with contextlib.suppress(OSError):
            sock.sendall(said)
    time.sleep(0.3)
    kept, told = [], []
    for sock in socks:
        sock.setblocking(False)
        try:
            told.append(sock.recv(65536))
            sock.close()
        except BlockingIOError:
            kept.append(sock)
        except OSError:
            told.append(b"")
            sock.close()
    return kept, told


def test_a10_a_flood_from_another_machine_is_capped_and_nobody_else_notices(tmp_path: Path) -> None:
    address = own_address()
    if not address:
        pytest.skip("LOUD SKIP: this machine has no address but loopback")
    with Keyed(tmp_path, "--host", "0.0.0.0", "--allow-host", address, "--max-connections-per-peer", "64") as server:
        port = place(server.url)[1]
        remote = f"http://{address}:{port}"
        assert ask(remote, "GET", "/v1/models", bearer()).status == 200
        kept: list[socket.socket] = []
        told: list[bytes] = []
        for said in (b"", b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Le", b"GET / HT"):
            more, answers = held(address, port, 660, said)
            kept, told = kept + more, told + answers
        assert len(kept) == 64 and len(told) == 3 * 660 - 64
        assert all(not each or (statuses(each) == [503] and b"Retry-After: 1" in each) for each in told)
        assert sum(1 for each in told if each) > len(told) // 2  # a reset may overtake the answer
        for _ in range(20):
            assert ask(server.url, "GET", "/v1/models", bearer()).status == 200  # loopback is not a stranger
        for sock in kept:
            sock.close()
        wait_until(
            lambda: (
                statuses(raw(remote, b"GET /livez HTTP/1.1\r\nHost: " + f"{address}:{port}".encode() + b"\r\n\r\n", 0.5))
                == [200]
            )
        )
        assert "Traceback" not in server.text_of_log()


def test_a10_a_thousand_idle_connections_of_our_own_disturb_nobody(local: LiveServer) -> None:
    kept, told = held(*place(local.url), 1000, b"GET /")
    try:
        assert len(kept) == 1000 and not told
        body = {"model": "null", "prompt": "hi", "max_tokens": 1}
        assert all(ask(local.url, "POST", "/v1/completions", body=body).status == 200 for _ in range(10))
    finally:
        for sock in kept:
            sock.close()
    assert "Traceback" not in local.text_of_log()


def threads_of(server: LiveServer) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/task").iterdir()))


def test_a11_a_flood_of_handshakes_is_capped_and_costs_no_threads(tmp_path: Path) -> None:
    floor = (4, 13, 2)  # below it a flood of PONGs was never answered by a close
    assert tuple(map(int, importlib.metadata.version("python-engineio").split("."))) >= floor
    with LiveServer(tmp_path / "data", "--runner", "null") as server:
        before = threads_of(server)
        opened = [open_websocket(server.url) for _ in range(200)]
        answered = [status for status, _ in opened]
        assert answered.count(101) == 64 and answered.count(503) == 136
        assert threads_of(server) - before <= 2
        assert ask(server.url, "GET", "/livez").status == 200
        for _, sock in opened:
            sock.close()

        def room() -> bool:
            status, sock = open_websocket(server.url)
            sock.close()
            return status == 101

        wait_until(room, 30, "closed websockets to make room")
        assert "Traceback" not in server.text_of_log()


def test_a12_keys_cannot_be_guessed_by_trying(tmp_path: Path) -> None:
    """That every key is compared whatever is offered is in tests/app/test_keys.py; that a stranger waits is here."""
    with Keyed(tmp_path) as server:

        def offer(key: str) -> Reply:
            return ask(server.url, "GET", "/v1/models", {"Authorization": f"Bearer {key}"})

        tried = [offer(f"sk-guess-{number}") for number in range(13)]
        assert [reply.status for reply in tried] == [401] * 10 + [429] * 3
        assert all(
            reply.error["code"] == "too_many_wrong_keys" and int(reply.headers["retry-after"]) >= 1 for reply in tried[10:]
        )
        assert offer(READER).status == 429  # a right guess looks like a wrong one
        assert offer(KEY).status == 200  # who was here before goes on
        run = server_post(server, "/api/runs", {"scenario": "poisson", "set": {"duration_s": 1}})
        wait_until(
            lambda: ask(server.url, "GET", f"/api/runs/{run['id']}", bearer()).body.count(b'"finished"'),
            40,
            "our own generator",
        )
        assert b"sk-guess" not in b"".join(reply.body for reply in tried) and "sk-guess" not in server.text_of_log()


def server_post(server: LiveServer, path: str, body: Any) -> Any:
    reply = ask(server.url, "POST", path, bearer(), body)
    assert reply.status in (200, 201), reply.body
    return json.loads(reply.body)


def test_a10_a_key_that_sends_too_often_is_told_when_to_come_again(tmp_path: Path) -> None:
    body = {"model": "null", "prompt": [1, 2], "max_tokens": 1}
    with Keyed(tmp_path, "--max-requests-per-minute", "3") as server:
        replies = [ask(server.url, "POST", "/v1/completions", bearer(), body) for _ in range(5)]
        assert [reply.status for reply in replies] == [200, 200, 200, 429, 429]
        assert replies[-1].error["code"] == "rate_limit_exceeded" and 1 <= int(replies[-1].headers["retry-after"]) <= 20
        assert ask(server.url, "GET", "/api/requests", bearer()).status == 200, "only inference is counted"
        assert b'reason="rate_limit_exceeded"} 2' in ask(server.url, "GET", "/metrics", bearer()).body
