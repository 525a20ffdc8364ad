"""The recorded run on the Live page: no engine, no API and no websocket behind it, only the pages and their files."""

from __future__ import annotations

import gzip
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from playwright.sync_api import Page, WebSocketRoute, expect
from werkzeug.serving import make_server

from app.lesson import ROOT, recordings
from app.pages import pages

PROBES = Path(__file__).with_name("page_probes.js").read_text("utf-8")
OpenPage = Callable[..., Page]
ACTS = ("#try", "#hold", "#pause", "#freeze")
MESSAGES = json.loads(gzip.decompress(recordings()["tutorial"]))["messages"]
FRAMES = [data for _, name, data in MESSAGES if name == "frame"]
LAST = len(FRAMES)
FULL = max(at for at, frame in enumerate(FRAMES, 1) if frame["gauges"]["waiting"] == 4)  # the last frame in which four wait
ONE_LEFT = min(at for at, frame in enumerate(FRAMES, 1) if frame["steps"]["step"][-1:] >= [160])


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    app = Flask("pages", template_folder=str(ROOT / "templates"), static_folder=str(ROOT / "static"))
    app.register_blueprint(pages)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def quiet(open_page: OpenPage) -> Iterator[OpenPage]:
    """Pages that may log no error, open no websocket, and ask for nothing but files, pages and the recording."""
    told: list[str] = []

    def make(**how: Any) -> Page:
        page = open_page(**how)
        page.on("console", lambda line: told.append(line.text) if line.type in ("error", "warning") else None)
        page.on("websocket", lambda socket: told.append(socket.url))
        page.on("request", lambda asked: told.append(asked.url) if re.search("/api/|/v1/|socket.io/", asked.url) else None)
        return page

    yield make
    assert told == []


def place(position: int) -> float:
    """The instant of that frame, in seconds."""
    return float([ms for ms, name, _ in MESSAGES if name == "frame"][position - 1]) / 1000


def at(page: Page, position: int) -> Any:
    """The gauges of that frame, once the tiles show them."""
    gauges = FRAMES[position - 1]["gauges"]
    expect(page.locator("#playback")).to_have_attribute("data-position", str(position))
    expect(page.locator("[data-tile=waiting]")).to_have_attribute("data-value", str(gauges["waiting"]))
    expect(page.locator("[data-tile=running]")).to_have_attribute("data-value", str(gauges["running"]))
    expect(page.locator("body")).to_have_attribute("data-seq", str(FRAMES[position - 1]["to"]))
    return gauges


def test_keys_step_through_the_recording_and_the_panels_follow(url: str, quiet: OpenPage) -> None:
    page = quiet()
    page.goto(f"{url}/?recorded=tutorial&at={place(FULL):.2f}")
    bar = page.locator("#playback")
    expect(bar).to_have_attribute("data-playing", "false")
    assert at(page, FULL)["waiting"] == 4
    expect(page.locator("#waiting tbody tr")).to_have_count(4)
    page.keyboard.press(".")
    assert at(page, FULL + 1)["waiting"] == 2
    expect(page.locator("#waiting tbody")).to_contain_text(re.compile("req3.*req4"))
    page.keyboard.press(",")
    page.keyboard.press(",")
    at(page, FULL - 1)
    expect(page.locator("#waiting tbody tr")).to_have_count(4)
    page.click("#playback-step")
    at(page, FULL)
    page.keyboard.press("End")
    assert at(page, LAST)["finished"] == 5
    expect(page.locator("#playback-play")).to_have_text("Play again")
    page.keyboard.press("Home")
    expect(bar).to_have_attribute("data-position", "0")
    expect(page.locator("#playback output")).to_contain_text("before the first step")


def test_it_plays_to_its_end_at_the_speed_chosen_and_says_where_in_the_url(url: str, quiet: OpenPage) -> None:
    page = quiet()
    page.clock.install()
    page.goto(f"{url}/?recorded=tutorial&at=0")
    expect(page.locator("#playback-play")).to_have_text("Play")
    for _ in range(4):
        page.keyboard.press(">")
    expect(page.get_by_label("Speed")).to_have_value("16")
    page.keyboard.press("<")
    expect(page.get_by_label("Speed")).to_have_value("8")
    page.clock.pause_at(page.evaluate("Date.now()") + 1000)
    page.keyboard.press("p")
    page.clock.run_for(1000)
    expect(page.locator("#playback-play")).to_have_text("Pause")
    page.keyboard.press("p")
    expect(page.locator("#playback-play")).to_have_text("Play")
    said = page.locator("#playback output").inner_text()
    there = float(said.split(" of ")[0])
    begin = MESSAGES[0][0] / 1000
    assert begin + 7.2 <= there <= begin + 8.01, said
    page.clock.run_for(400)
    expect(page).to_have_url(f"{url}/?recorded=tutorial&at={there:.2f}&speed=8")
    held = page.locator("#playback").get_attribute("data-position")
    page.clock.run_for(3000)
    assert page.locator("#playback").get_attribute("data-position") == held
    page.keyboard.press("p")
    page.clock.run_for(3000)
    expect(page.locator("#playback")).to_have_attribute("data-position", str(LAST))
    expect(page.locator("#playback")).to_have_attribute("data-playing", "false")
    page.clock.resume()

    shared = quiet()
    shared.goto(f"{url}/?recorded=tutorial&at={there:.2f}&speed=8")
    expect(shared.locator("#playback")).to_have_attribute("data-position", str(held))
    expect(shared.get_by_label("Speed")).to_have_value("8")


def test_without_a_place_it_plays_by_itself_and_the_scrubber_halts_it(url: str, quiet: OpenPage) -> None:
    page = quiet()
    page.goto(f"{url}/?recorded=tutorial")
    expect(page.locator("#playback-play")).to_have_text("Pause")
    expect(page.locator("#playback")).not_to_have_attribute("data-position", re.compile("^[012]$"))
    page.get_by_label("Place in the recording").fill(str(LAST // 2))
    expect(page.locator("#playback-play")).to_have_text("Play")
    at(page, LAST // 2)
    expect(page.get_by_label("Place in the recording")).to_have_attribute(
        "aria-valuetext", re.compile(rf"of {place(LAST):.2f} s · step \d+")
    )


def test_all_says_recorded_and_nothing_acts_on_an_engine(url: str, quiet: OpenPage) -> None:
    page = quiet()
    page.goto(f"{url}/?recorded=tutorial&step=160")
    expect(page.locator("#link .text")).to_have_text("recorded")
    expect(page).to_have_title(re.compile("^Recorded"))
    expect(page.locator("#playback h2")).to_have_text("Recorded: tutorial")
    expect(page.locator(".says .tag", has_text="recorded")).to_be_visible()
    for node in ACTS:
        expect(page.locator(node)).to_be_hidden()
    page.keyboard.press("s")
    page.keyboard.press("f")
    page.keyboard.press("?")
    keys = page.locator("#keys")
    expect(keys).to_contain_text("play the recording, or pause")
    expect(keys).not_to_contain_text("freeze")
    page.keyboard.press("Escape")
    page.locator("#waiting tbody a").first.click()
    expect(page.locator("#playback .note")).to_contain_text("not on this server: start tutorial yourself")
    page.locator("#timeline canvas").click()
    assert page.url.startswith(f"{url}/?recorded=tutorial")


def test_a_recording_that_is_not_there_or_cannot_be_read_says_so(url: str, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{url}/?recorded=nobody")
    expect(page.get_by_role("alert")).to_have_text("There is no recording “nobody”. Watch the tutorial instead")
    expect(page.locator("#strip")).to_be_hidden()
    page.route("**/recorded/tutorial.json", lambda route: route.abort())
    page.get_by_role("link", name="Watch the tutorial instead").click()
    expect(page.get_by_role("alert")).to_contain_text("could not be read: the server does not answer.")
    page.unroute("**/recorded/tutorial.json")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#playback h2")).to_have_text("Recorded: tutorial")


def test_while_the_engine_is_down_the_bar_offers_the_recording(url: str, open_page: OpenPage) -> None:
    snapshot = MESSAGES[0][2]
    snapshot = snapshot | {"gauges": snapshot["gauges"] | {"engine": "down", "engine_text": "killed"}}

    def answer(socket: WebSocketRoute, said: str | bytes) -> None:
        if said == "40/live,":
            socket.send('40/live,{"sid": "one"}')
            socket.send("42/live,1" + json.dumps(["snapshot", snapshot]))

    def serve(socket: WebSocketRoute) -> None:
        socket.on_message(lambda said: answer(socket, said))
        socket.send('0{"sid": "one", "upgrades": [], "pingInterval": 60000, "pingTimeout": 60000, "maxPayload": 100000}')

    page = open_page()
    page.route_web_socket(re.compile("socket.io"), serve)
    page.goto(url)
    expect(page.locator("#enginebar")).to_contain_text("The engine is down: killed")
    page.locator("#enginebar").get_by_role("link", name="Watch a recorded run meanwhile").click()
    expect(page.locator("#playback h2")).to_have_text("Recorded: tutorial")
    expect(page.locator("#enginebar")).to_be_hidden()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_every_window_and_can_be_read(url: str, quiet: OpenPage, theme: str) -> None:
    page = quiet(theme=theme)
    page.goto(f"{url}/?recorded=tutorial&step=160")
    at(page, ONE_LEFT)
    assert page.evaluate(f"({PROBES.strip()}).faint(4.5)") == []
    for width in (320, 600, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(f"({PROBES.strip()}).overflow()") <= 0, f"{width} px"


def test_it_costs_little() -> None:
    folder = ROOT / "static" / "js" / "playback"
    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in folder.glob("*.js")) <= 4096
