"""The live push under bad weather, on the real server: outages, silent and rude clients, a killed engine.

Steps are compared by content with GET /api/steps; nobody's time is asserted, figures are printed (pytest -s).
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from bad_line import BadLine
from dashboards import Gone, Wire
from followers import Crowd, Follower, rows
from live_server import LiveServer, wait_until
from steady_load import Load, cpu_s, engine_pid, p99, rss_mb

from app.live import MAX_DASHBOARDS
from app.live_manners import WORDS_A_SECOND

HARDWARE = "h100-qwen3-32b-tp2-bf16"  # 15 ms a step: 65 steps a second
RING = 450  # 7 s of them
SIMULATED = ("--runner", "simulated", "--hardware", HARDWARE, "--set", "max_num_seqs=256", "--set", "max_model_len=16384")
STALLED = 20


def all_steps(server: LiveServer, boot: int) -> list[dict[str, Any]]:
    """Every step of a life, from the records."""
    found: list[dict[str, Any]] = []
    while True:
        start = found[-1]["seq"] + 1 if found else 1
        answer = server.get(f"/api/steps?boot={boot}&from_seq={start}")
        found += rows(answer["steps"])
        if not answer["truncated"]:
            return found


def at_rest(server: LiveServer) -> dict[str, Any]:
    """The snapshot once nothing runs and the records hold the newest step."""

    def settled() -> dict[str, Any] | None:
        live = dict(server.get("/api/live"))
        busy = live["gauges"]["running"] + live["gauges"]["waiting"]
        written = server.get(f"/api/steps?boot={live['boot']}&from_seq={live['steps']['seq'][-1]}")["steps"]["seq"]
        return live if not busy and written == live["steps"]["seq"][-1:] else None

    return dict(wait_until(settled, 60, "the engine to come to rest"))


@pytest.fixture(scope="module")
def line() -> Iterator[BadLine]:
    with BadLine() as made:
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, line: BadLine) -> Iterator[LiveServer]:
    allow = ("--allow-host", f"127.0.0.1:{line.port}", "--live-steps", str(RING))
    with LiveServer(tmp_path_factory.mktemp("live"), *SIMULATED, *allow) as started:
        host, port = started.url.removeprefix("http://").split(":")
        line.target = (host, int(port))
        yield started
        assert "Traceback" not in started.text_of_log(), started.text_of_log()


def outages(line: BadLine, server: LiveServer, followers: list[Follower]) -> None:
    """Every kind of bad weather: held and broken for up to 5 s, frames lost on the way, and one outage beyond the ring."""
    for seconds in (0.2, 1.0, 3.0, 5.0):
        for harm in (line.hold, line.cut) if seconds < 2 else (line.hold,) if seconds < 4 else (line.cut,):
            harm()
            time.sleep(seconds)
            line.heal()
            for follower in followers:
                wait_for(follower, "frames", follower.frames + 4)
    for follower in followers:
        follower.swallow = 5
    wait_until(lambda: not any(follower.swallow for follower in followers), 30, "frames to get lost")
    time.sleep(1.0)
    newest = server.get("/api/live")["steps"]["step"][-1]
    line.cut()
    wait_until(lambda: server.get("/api/live")["steps"]["step"][-1] > newest + RING + 20, 60, "more steps than the ring holds")
    before = [follower.snapshots for follower in followers]
    line.heal()
    for follower, count in zip(followers, before, strict=True):
        wait_for(follower, "snapshots", count + 1)


def wait_for(follower: Follower, what: str, wanted: int) -> None:
    """Until it saw so many."""

    def reached() -> bool:
        if follower.problem is not None:
            raise follower.problem
        return bool(getattr(follower, what) >= wanted)

    wait_until(reached, 30, f"{what} after an outage")


def test_after_outages_a_dashboard_has_the_steps_of_the_records_and_without_resync_it_has_not(
    server: LiveServer, line: BadLine
) -> None:
    followers = [Follower(line.url, server.get), Follower(line.url, server.get, resync=False)]
    whole, naive = followers
    for follower in followers:
        follower.start()
    wait_until(lambda: all(follower.snapshots for follower in followers), 20, "both to join")
    began = time.monotonic()
    with Load(server) as load:
        outages(line, server, followers)
    live = at_rest(server)
    wait_until(lambda: all(follower.last == live["seq"] for follower in followers), 20, "both to hear the end")
    for follower in followers:
        follower.stop()
    truth = all_steps(server, live["boot"])
    assert len(truth) / (time.monotonic() - began) >= 10, "too slow to prove anything"
    assert [whole.steps[seq] for seq in sorted(whole.steps)] == truth
    assert whole.twice == 0 and whole.holes >= 1 and whole.from_records >= 20 and whole.connections >= 5
    assert len(naive.steps) < len(truth), "the weather was too good: nothing was missing without resync"
    assert {name: whole.gauges[name] for name in live["gauges"] if name not in ("now_ms", "dashboards")} == {
        name: value for name, value in live["gauges"].items() if name not in ("now_ms", "dashboards")
    }
    assert not load.problems and set(load.counts) == {120}
    print(f"\n{len(truth)} steps; naive lacks {len(truth) - len(naive.steps)}; {whole.from_records} read from the records")


def stalled_stream(server: LiveServer, model: str) -> socket.socket:
    """A client that asks for eight long answers at once and reads none of them."""
    host, port = server.url.removeprefix("http://").split(":")
    body = {"model": model, "prompt": "stall", "max_tokens": 4000, "n": 8, "ignore_eos": True, "tenant": "stalled"}
    data = json.dumps(body | {"stream": True}).encode()
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((host, int(port)))
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    client.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return client


def speak_blindly(wires: list[Wire], stop: threading.Event) -> None:
    """Acknowledge what was never read, answer pings never seen, and ask for snapshots."""
    ack = 0
    while not stop.wait(0.5):
        ack += 1
        for wire in wires:
            try:
                wire.say(f"43/live,{ack}[]")
                wire.say("3")
                wire.say('42/live,["resync",{"boot":null,"last":null}]')
            except OSError:
                continue  # cut by now


def ended_by(server: LiveServer, detail: str) -> int:
    rows = server.get("/api/requests?tenant=stalled&finish=abort&limit=100")["items"]
    return sum(row["detail"] == detail for row in rows)


def test_stalled_dashboards_and_stream_readers_are_cut_and_harm_nobody(server: LiveServer) -> None:
    pid = server.process.pid
    bystander = Crowd(server.url, 1)
    stop = threading.Event()
    with Load(server) as load:
        time.sleep(3)
        before, fds, late = rss_mb(pid), len(os.listdir(f"/proc/{pid}/fd")), server.get("/api/live")["gauges"]["host_late"]
        quiet, load.gaps[:] = p99(load.gaps), []
        first = server.get("/api/live")["steps"]["step"][-1]
        streams = [stalled_stream(server, load.model) for _ in range(STALLED)]
        silent = [Wire(server.url, receive_buffer=4096) for _ in range(STALLED)]
        threading.Thread(target=speak_blindly, args=(silent[:5], stop), daemon=True).start()
        wait_until(lambda: server.get("/api/live")["gauges"]["dashboards"] == 1 + STALLED, 20, "all to join")
        highest = 0.0
        for _ in range(200):
            highest = max(highest, rss_mb(pid))
            if server.get("/api/live")["gauges"]["dashboards"] == 1 and ended_by(server, "slow_client") == STALLED:
                break
            time.sleep(0.3)
        live = server.get("/api/live")
        noisy, frames = p99(load.gaps), bystander.frames[0]
        wait_until(lambda: bystander.frames[0] >= frames + 10, 20, "frames for the healthy dashboard")
        assert live["gauges"]["dashboards"] == 1
        assert ended_by(server, "slow_client") == STALLED
        wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= fds + 2, 30, "the cut sockets to be closed on our side too")
    stop.set()
    bystander.stop()
    for end in (*streams, *(wire.sock for wire in silent)):
        end.close()
    assert not load.problems and set(load.counts) == {120}
    assert highest - before <= 64
    steps = live["steps"]["step"][-1] - first
    print(
        f"\n{steps} steps, {live['gauges']['host_late'] - late} of them late; "
        f"p99 between tokens {1e3 * quiet:.1f} → {1e3 * noisy:.1f} ms; "
        f"RSS {before:.0f} → {highest:.0f} MB; {bystander.frames[0]} frames"
    )


def test_the_51st_dashboard_is_told_why_and_a_frame_for_twenty_costs_little(server: LiveServer) -> None:
    pid = server.process.pid
    with Load(server):
        used, began = cpu_s(pid), time.monotonic()
        time.sleep(4)
        alone = (cpu_s(pid) - used) / (time.monotonic() - began)
        crowd = Crowd(server.url, 20)
        wait_until(lambda: min(crowd.frames) > 3, 20, "frames for all")
        used, frames, began = cpu_s(pid), sum(crowd.frames), time.monotonic()
        time.sleep(4)
        seconds, sent = time.monotonic() - began, sum(crowd.frames) - frames
        watched = (cpu_s(pid) - used) / seconds
        rest = Crowd(server.url, MAX_DASHBOARDS - 20)
        wait_until(lambda: min(rest.frames) > 3, 20, "frames for all")
        one_more = Wire(server.url)
        name, why = one_more.event()
        assert name == "refused" and str(MAX_DASHBOARDS) in why["message"]
        with pytest.raises(Gone):
            one_more.event()
        one_more.close()
        rest.stop()
        wait_until(lambda: server.get("/api/live")["gauges"]["dashboards"] == 20, 20, "the others to leave")
        joined(server).close()
        crowd.stop()
    print(
        f"\nweb CPU {100 * alone:.1f} % → {100 * watched:.1f} % with 20 dashboards; "
        f"{1e6 * (watched - alone) * seconds / sent:.0f} µs a frame, {sent / seconds / 20:.1f} frames/s each"
    )


RUDE: list[str | bytes] = [
    "", "x", "9", "4", "2", "5", "1", "3probe", "4\0", "bAAAA", b"\0\1", "44/live,{}", "41/live,", "40/live,", '40/live,{"a"',
    "40/live,[]", "4" + "[" * 10_000, "42/live," + "[" * 15_000, "x" * 17_000, "42/live,[]", "42/live,{}", '42/live,"x"',
    "42/live,[1]", '42["resync",{"boot":1,"last":1}]', '42/other,["resync",{"boot":1,"last":1}]',
    "43/live,0[]", "43/live,1{}", "43/live,1", "43/live,[]", "43/live,99999999999[]",
    '451-/live,["resync",{"_placeholder":true,"num":0}]', '4599999999-/live,["resync",{"boot":1,"last":1}]',
    '42/live,["resync"]', '42/live,["resync",[]]', '42/live,["resync",null]', '42/live,["resync",{"boot":1,"last":1},2]',
    '42/live,["resync",{"boot":"1","last":1}]', '42/live,["resync",{"boot":1.5,"last":2}]',
    '42/live,["resync",{"boot":true,"last":2}]', '42/live,["resync",{"boot":1,"last":-1}]',
    '42/live,["resync",{"boot":1,"last":' + "9" * 5000 + "}]",
]  # fmt: skip
HARMLESS = [
    '42/live,["connect",{}]', '42/live,["disconnect"]', '42/live,["__class__",1,2,3]', '42/live,["frame",{}]',
    '42/live,["resync",{"boot":null,"last":null}]', '42/live,["resync",{"boot":7,"last":9007199254740991}]',
    '42/live,7["resync",{"boot":1,"last":1,"more":[]}]', "43/live,999999[]",
]  # fmt: skip


def joined(server: LiveServer) -> Wire:
    wire = Wire(server.url)
    assert wire.event()[0] == "snapshot"
    return wire


def test_a_rude_message_closes_that_client_only(server: LiveServer) -> None:
    bystander = Crowd(server.url, 2)
    for words in RUDE:
        wire = joined(server)
        wire.say(words, 2 if isinstance(words, bytes) else 1)
        assert wire.ended(5), f"still connected after {words[:60]!r}"
        wire.close()
    wire = joined(server)
    for words in HARMLESS:
        wire.say(words)
    assert [wire.event()[0] for _ in range(3)].count("frame") >= 1
    wire.close()
    stranger = Wire(server.url, join=False)
    stranger.say("40/other,")
    assert stranger.ended(5)
    stranger.close()
    assert server.get("/api/live")["gauges"]["dashboards"] <= 3
    frames = min(bystander.frames)
    wait_until(lambda: min(bystander.frames) > frames, 10, "a frame for those who behave")
    bystander.stop()
    assert "Traceback" not in server.text_of_log()


@pytest.mark.parametrize(
    ("words", "opcode"),
    [('42/live,["resync",{"boot":1,"last":1}]', 1), ("3", 1), ("43/live,1[]", 1), ("are you there", 9), ("x" * 200, 10)],
)
def test_who_floods_is_cut(server: LiveServer, words: str, opcode: int) -> None:
    wire = joined(server)
    with suppress(OSError):
        for _ in range(20_000):
            wire.say(words, opcode)
    assert wire.ended(10)
    wire.close()


def test_ten_words_a_second_are_not_too_many(server: LiveServer) -> None:
    wire = joined(server)
    for _ in range(20):
        wire.say('42/live,["resync",{"boot":1,"last":1}]')
        time.sleep(1.05 / WORDS_A_SECOND)
    while wire.readable(0.2):
        assert wire.event()[0] in ("snapshot", "frame")
    wire.close()


def test_a_message_announced_as_huge_ends_its_connection_before_it_is_there(server: LiveServer) -> None:
    wire = joined(server)
    with suppress(OSError):
        wire.sock.sendall(b"\x81\xff" + (1 << 30).to_bytes(8) + b"\0\0\0\0")
        for _ in range(10_000):
            wire.sock.sendall(b"x" * 4096)
    assert wire.ended(10)
    wire.close()


@pytest.mark.parametrize("left_out", ["Sec-WebSocket-Key", "Sec-WebSocket-Version", "Upgrade", "Connection"])
def test_half_a_handshake_is_refused_and_leaves_nothing_behind(server: LiveServer, left_out: str) -> None:
    place = server.url.removeprefix("http://")
    headers = {"Host": place, "Origin": server.url, "Connection": "Upgrade", "Upgrade": "websocket"}
    headers |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    connection = http.client.HTTPConnection(place, timeout=10)
    with closing(connection):
        connection.putrequest("GET", "/socket.io/?EIO=4&transport=websocket", skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            if name != left_out:
                connection.putheader(name, value)
        connection.endheaders()
        assert 400 <= connection.getresponse().status < 500
    assert "Traceback" not in server.text_of_log()


def test_when_the_engine_is_killed_dashboards_see_it_down_and_then_the_next_life_alone(server: LiveServer) -> None:
    boot = server.get("/api/live")["boot"]
    crowd = Crowd(server.url, 3)
    wait_until(lambda: min(crowd.frames) >= 1, 20, "frames for all")
    with Load(server) as load:
        time.sleep(1)
        killed = time.monotonic()
        os.kill(engine_pid(server), signal.SIGKILL)
        wait_until(lambda: all(crowd.down_at), 20, "everybody to see it down")
        wait_until(lambda: all(boots[-1] > boot for boots in crowd.boots), 30, "the next life's snapshot")
        wait_until(lambda: load.counts, 30, "streams to be served again")
    live = at_rest(server)
    wait_until(lambda: all(gauges["finished"] == live["gauges"]["finished"] for gauges in crowd.gauges), 20, "the last frame")
    crowd.stop()
    assert all(boots == [boot, live["boot"]] for boots in crowd.boots)
    shown = rows(live["steps"])
    assert shown == all_steps(server, live["boot"])[-len(shown) :]
    assert live["gauges"]["host_late"] <= live["steps"]["step"][-1]
    print(f"\nseen down after {1e3 * max(at - killed for at in crowd.down_at if at):.0f} ms")
