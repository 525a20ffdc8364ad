"""The page over a bad line: frames that never arrive, sockets that close, and what it shows in the end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import wait_until
from playwright.sync_api import Page, WebSocketRoute, expect

PROBES = Path(__file__).with_name("page_probes.js").read_text("utf-8")
FRAME = re.compile(r'^42/live,(\d+)\["frame"')


@pytest.fixture(scope="module")
def stage() -> Iterator[str]:
    """The URL of a stage at rest."""
    command = [sys.executable, str(Path(__file__).with_name("stage_server.py")), "--rest"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()


def live(stage: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{stage}/api/live", timeout=10) as answer:
        return dict(json.load(answer))


def load(stage: str, seconds: int) -> None:
    asked = urllib.request.Request(f"{stage}/api/runs?seconds={seconds}", b"{}", {"Content-Type": "application/json"})
    urllib.request.urlopen(asked, timeout=10).close()


def at_rest(stage: str) -> bool:
    now = live(stage)
    return now["gauges"]["running"] == now["gauges"]["waiting"] == 0 and now["run"]["status"] == "finished"


def assert_page_is_whole(page: Page, stage: str) -> None:
    """It shows the newest state, and its last 50 steps follow one another."""
    expect(page.locator("body")).to_have_attribute("data-seq", str(live(stage)["seq"]), timeout=15_000)
    values = page.evaluate(f"() => ({PROBES.strip()}).tiles()")["values"]
    assert values["itl_p95_ms"] == live(stage)["gauges"]["itl_p95_ms"]
    if page.locator("#strip .astable").is_hidden():
        page.click("#strip [data-as-table]")
    page.wait_for_timeout(1200)
    shown = [int(text.replace(",", "")) for text in page.locator("#strip tbody td:first-child").all_inner_texts()]
    last = live(stage)["steps"]["step"][-1]
    assert shown == list(range(last, last - len(shown), -1)) and len(shown) == 50


def test_frames_that_get_lost_are_asked_for_again(stage: str, open_page: Callable[..., Page]) -> None:
    lost: list[str] = []
    seen: list[int] = []
    page = open_page()

    def line(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def pass_on(message: str | bytes) -> None:
            frame = FRAME.match(message) if isinstance(message, str) else None
            seen.extend([1] if frame else [])
            if frame and len(seen) % 6 == 0:
                lost.append(frame.group(1))
                server.send(f"43/live,{frame.group(1)}[]")  # the network swallowed it after the acknowledgement
            else:
                socket.send(message)

        server.on_message(pass_on)

    page.route_web_socket(re.compile("/socket.io/"), line)
    page.goto(stage)
    load(stage, 6)
    wait_until(lambda: page.evaluate("1") and at_rest(stage), 40, "the load to end")
    page.wait_for_timeout(1500)
    assert len(lost) >= 4
    assert_page_is_whole(page, stage)


def test_a_closed_socket_is_opened_again_and_nothing_is_missing(stage: str, open_page: Callable[..., Page]) -> None:
    sockets: list[WebSocketRoute] = []
    page = open_page()

    def line(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.connect_to_server()

    page.route_web_socket(re.compile("/socket.io/"), line)
    page.goto(stage)
    load(stage, 6)
    for _ in range(2):
        page.wait_for_timeout(1500)
        sockets[-1].close(code=1011, reason="cut")
        expect(page.locator("#link")).to_contain_text("disconnected", timeout=3000)
        expect(page.locator("#link")).to_have_attribute("data-link", "live", timeout=15_000)
    wait_until(lambda: page.evaluate("1") and at_rest(stage), 40, "the load to end")
    assert len(sockets) == 3
    assert_page_is_whole(page, stage)
