"""More than can be served: refusals are early and counted, slow readers cut, and a web process that stood still lost none."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from live_server import LiveServer, wait_until

from benchmarks.rig.open_loop import Loop, Offer, Seen

SLO_S = 1.0
MIB = 1 << 20


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    sets = ("max_num_seqs=64", "max_num_batched_tokens=1024", f"ttft_slo_ms={SLO_S * 1000:g}")
    arguments = [word for each in sets for word in ("--set", each)]
    with LiveServer(tmp_path_factory.mktemp("simulated"), "--runner", "simulated", *arguments) as server:
        yield server


@pytest.fixture(scope="module")
def null(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    sets = ("max_num_seqs=64", "kv_cache_tokens=2000000", "max_model_len=32000")
    arguments = [word for each in sets for word in ("--set", each)]
    with LiveServer(tmp_path_factory.mktemp("null"), "--runner", "null", *arguments) as server:
        yield server


def offered(server: LiveServer, admission: str, run: str | None, seconds: float = 5.0) -> list[Seen]:
    """About four times what the simulated hardware can do."""
    server.post("/api/scheduler", {"admission": admission}, method="PATCH")
    model = server.get("/v1/models")["data"][0]["id"]
    seen = Loop(Offer(server.url, model, 90.0, seconds, (1400, 1600), (20, 100), seed=3, run=run)).run()
    wait_until(lambda: metric(server, "requests_in_flight") == 0, what="the hang-ups to be noticed")
    return seen


def metric(server: LiveServer, name: str) -> float:
    """Its value, or the sum over all its labels."""
    key = f"batchscope:{name}"
    return sum(value for each, value in metrics(server).items() if key in (each, each.partition("{")[0]))


def metrics(server: LiveServer) -> dict[str, float]:
    with socket_to(server) as sock:
        sock.sendall(f"GET /metrics HTTP/1.1\r\nHost: {urlsplit(server.url).netloc}\r\nConnection: close\r\n\r\n".encode())
        text = b"".join(iter(lambda: sock.recv(1 << 16), b"")).decode()
    lines = [line.rsplit(" ", 1) for line in text.partition("\r\n\r\n")[2].splitlines() if line.startswith("batchscope:")]
    return {name: float(value) for name, value in lines}


def good(seen: list[Seen], warm_s: float = 2.0) -> int:
    return sum(one.first is not None and one.first - one.due <= SLO_S for one in seen if one.due >= warm_s)


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def total(server: LiveServer, query: str) -> int:
    return int(server.get(f"/api/requests?{query}&limit=1")["total"])


def test_shed_serves_in_time_what_it_takes_and_bounded_serves_everyone_late(simulated: LiveServer) -> None:
    run = simulated.post("/api/runs", {"external": True, "name": "overload"})["id"]
    before = resident(simulated.process.pid)
    seen = offered(simulated, "shed", run)
    grown = resident(simulated.process.pid) - before
    statuses = Counter(one.status for one in seen)
    assert set(statuses) <= {0, 200, 503} and statuses[503] > statuses[200] > 0, statuses
    assert {int(one.retry_after or 0) for one in seen if one.status == 503} <= set(range(1, 61))
    late = [one for one in seen if one.first is not None and one.first - one.due > SLO_S]
    assert len(late) < good(seen, 0.0) / 2, "what is taken is taken to be served in time"
    assert grown < 32 * MIB
    wait_until(lambda: total(simulated, f"run={run}&state=finished") == len(seen), what="a row of each POST of the run")
    assert statuses[503] <= total(simulated, f"run={run}&finish=rejected&detail=shed") <= statuses[503] + statuses[0]
    simulated.post(f"/api/runs/{run}/stop", {})
    bounded = offered(simulated, "bounded", None)
    assert not any(one.status == 503 for one in bounded)
    assert good(seen) > 2 * good(bounded), "in a queue of everybody, nobody is in time"


def test_refused_posts_without_a_run_are_all_counted_and_some_are_recorded(simulated: LiveServer) -> None:
    names = ("requests_refused_total", 'request_success_total{model_name="Llama-3.1-8B",finished_reason="rejected"}')
    before, recorded = [metric(simulated, name) for name in names], total(simulated, "finish=rejected")
    seen = offered(simulated, "shed", None, seconds=3.0)
    early, by_engine = (metric(simulated, name) - old for name, old in zip(names, before, strict=True))
    statuses = Counter(one.status for one in seen)
    assert 100 < statuses[503] <= early + by_engine <= statuses[503] + statuses[0], "some are refused as they hang up"
    assert 0 < total(simulated, "finish=rejected") - recorded <= by_engine + 10 * 5
    assert by_engine < early, "most are refused before they cost a message"


def test_a_deadline_of_its_own_decides_for_a_request(simulated: LiveServer) -> None:
    model = simulated.get("/v1/models")["data"][0]["id"]
    told: list[str] = []

    def crowd(letter: str, **more: int) -> list[threading.Thread]:
        bodies = [body(model, f"{letter}{number}" * 700, 2) | more for number in range(10)]
        threads = [threading.Thread(target=lambda one=one: told.append(ask(simulated, one))) for one in bodies]
        for thread in threads:
            thread.start()
        return threads

    simulated.post("/api/scheduler", {"admission": "bounded"}, method="PATCH")
    for thread in crowd("a"):  # so that the engine has measured itself
        thread.join()
    simulated.post("/api/scheduler/pause", {})
    waiting = crowd("b")
    wait_until(lambda: simulated.get("/api/live")["gauges"]["waiting"] == 10, what="a queue")
    simulated.post("/api/scheduler", {"admission": "shed"}, method="PATCH")
    hurried = ask(simulated, body(model, "y" * 1500, 2) | {"deadline_ms": 20})
    waiting += crowd("c", deadline_ms=60_000)
    wait_until(lambda: simulated.get("/api/live")["gauges"]["waiting"] == 20, what="the patient ones")
    simulated.post("/api/scheduler/resume", {})
    for thread in waiting:
        thread.join()
    assert hurried.startswith("HTTP/1.1 503") and '"code":"server_overloaded"' in hurried and "x-should-retry" not in hurried
    assert len(told) == 30 and all(one.startswith("HTTP/1.1 200") for one in told)
    wait_until(lambda: metric(simulated, "requests_in_flight") == 0)
    alone = ask(simulated, body(model, "w" * 1500, 2) | {"deadline_ms": 0.001})
    assert alone.startswith("HTTP/1.1 200"), "an idle engine serves"


# ---- who does not read, who does not run


def test_a_reader_that_stops_is_cut_and_the_others_get_everything(null: LiveServer) -> None:
    wanted, more = 6000, 30_000  # the engine is far ahead of the web here: there must be something left to end
    with socket_to(null, receive=4096) as slow, socket_to(null) as quick:
        for sock, tenant, tokens in ((slow, "slow", more), (quick, "quick", wanted)):
            post(sock, null, body("null", "x", tokens, stream=True) | {"tenant": tenant})
        told = read_to_end(quick)
        wait_until(lambda: total(null, "tenant=slow&state=finished") == 1, what="the slow one's end")
    # The engine is ahead, so an event may carry the text of several steps; each token of this runner is one character.
    events = [json.loads(line[6:]) for line in unchunked(told).split(b"\n") if line.startswith(b"data: {")]
    assert sum(len(event["choices"][0]["text"]) for event in events if event["choices"]) == wanted
    assert told.count(b"data: [DONE]") == 1
    rows = {item["tenant"]: item for item in null.get("/api/requests?state=finished&limit=100")["items"]}
    assert (rows["slow"]["finish"], rows["slow"]["detail"]) == ("abort", "slow_client")
    assert (rows["quick"]["finish"], rows["quick"]["output_tokens"]) == ("length", wanted)
    assert rows["slow"]["output_tokens"] < more, "what nobody reads is not computed"


def test_while_the_web_stands_still_the_engine_waits_at_a_full_outbox_and_nothing_is_lost(null: LiveServer) -> None:
    requests, streamed, wanted = 64, 4, 16_000  # three times what an outbox holds
    done: dict[int, bytes] = {}

    def wait_for(number: int) -> None:
        with socket_to(null) as sock:
            post(sock, null, body("null", f"{number}", wanted, stream=number < streamed) | {"tenant": "still"})
            done[number] = read_to_end(sock)

    threads = [threading.Thread(target=wait_for, args=(number,)) for number in range(requests)]
    null.post("/api/scheduler/pause", {})  # so that none has ended before the last has come
    for thread in threads:
        thread.start()
    wait_until(lambda: null.get("/api/live")["gauges"]["waiting"] == requests, what="all to come")
    null.post("/api/scheduler/resume", {})
    wait_until(lambda: null.get("/api/live")["gauges"]["running"] == requests, what="all to run")
    engine = engine_of(null)
    os.kill(null.process.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: stands_still(engine), what="the engine to stop stepping")
        held, worked = resident(engine), used_ns(engine)
        wait_until(lambda: stands_still(engine))
        assert resident(engine) == held and not done
    finally:
        os.kill(null.process.pid, signal.SIGCONT)
    for thread in threads:
        thread.join()
    assert used_ns(engine) > 1.2 * worked, "it had more to do than it could tell of"
    assert engine_of(null) == engine, "a web process that slept must not take its engine for hung"
    assert len(done) == requests and all(done[number].count(b"data: [DONE]") == 1 for number in range(streamed))
    assert all(told.startswith(b"HTTP/1.1 200") for told in done.values())
    wait_until(lambda: total(null, "tenant=still&state=finished") == requests)
    items = null.get("/api/requests?tenant=still&limit=100")["items"]
    assert {(item["finish"], item["output_tokens"]) for item in items} == {("length", wanted)}


# ---- raw HTTP


def body(model: str, prompt: str, max_tokens: int, *, stream: bool = False) -> dict[str, Any]:
    return {"model": model, "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "stream": stream}


def socket_to(server: LiveServer, receive: int = 0) -> socket.socket:
    sock = socket.socket()
    sock.settimeout(120)
    if receive:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    sock.connect((urlsplit(server.url).hostname, urlsplit(server.url).port))
    return sock


def post(sock: socket.socket, server: LiveServer, asked: dict[str, Any]) -> None:
    data = json.dumps(asked).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {urlsplit(server.url).netloc}\r\nConnection: close\r\n"
    sock.sendall(head.encode() + f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)


def read_to_end(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(1 << 16), b""))


def unchunked(told: bytes) -> bytes:
    """The body of a chunked answer; an event may lie across two chunks."""
    body, rest = b"", told.partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body, rest = body + rest[:length], rest[length + 2 :]
    return body


def ask(server: LiveServer, asked: dict[str, Any]) -> str:
    with socket_to(server) as sock:
        post(sock, server, asked)
        return read_to_end(sock).decode()


def engine_of(server: LiveServer) -> int:
    pid = server.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert len(children) == 1
    return int(children[0])


def stands_still(pid: int) -> bool:
    """No processor time used over a while."""
    used = used_ns(pid)
    threading.Event().wait(0.3)
    return used_ns(pid) == used


def used_ns(pid: int) -> int:
    """Processor time of its main thread."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
