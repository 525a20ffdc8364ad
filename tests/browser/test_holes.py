"""The page over a bad line: frames that never arrive, lines that break, a hidden tab; and what it shows in the end."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bad_line import BadLine
from followers import rows
from live_server import LiveServer, wait_until
from playwright.sync_api import Page, WebSocketRoute, expect

PROBES = Path(__file__).with_name("page_probes.js").read_text("utf-8")
RING = 120  # less than 2 s of steps
HARDWARE = ("--runner", "simulated", "--hardware", "h100-qwen3-32b-tp2-bf16")
OPEN = '0{"sid":"x","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":100000}'
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  Object.defineProperty(document, "visibilityState", { value: hidden ? "hidden" : "visible", configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
PROBE = """async () => {
  const [{ createStore }, { connect }] = [await import("/static/js/store.js"), await import("/static/js/socket.js")];
  window.probe = createStore();
  connect(window.probe);
}"""
SIX_THOUSAND = """async (snapshot) => {
  const { createStore } = await import("/static/js/store.js");
  const { createLoop } = await import("/static/js/draw.js");
  const store = createStore();
  const drawn = [];
  createLoop(store).add(100, (state) => drawn.push(state.seq));
  store.dispatch({ type: "snapshot", data: snapshot });
  const { boot, seq, gauges, segments, steps: columns } = snapshot;
  const names = Object.keys(columns).filter((name) => name !== "by_reason");
  const changes = Object.fromEntries(Object.keys(segments).map((name) => [name, []]));
  for (let at = seq; at < seq + 6000; at += 1) {
    const steps = Object.fromEntries(names.map((name) => [name, [name === "binding" ? "step" : at + 1]]));
    const rest = { gauges, changes, waiting_now: [], markers: [] };
    store.dispatch({ type: "frame", data: { boot, from: at, to: at + 1, steps: { ...steps, by_reason: {} }, ...rest } });
  }
  await new Promise((resolve) => setTimeout(resolve, 400));
  const hiddenDraws = drawn.length;
  Object.defineProperty(document, "hidden", { value: false, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
  await new Promise((resolve) => setTimeout(resolve, 500));
  return { hiddenDraws, drawn, newest: store.state.seq, kept: store.state.steps.seq.length };
}"""
# Every word that the link's pill ever showed: a line may be down for less time than lies between two looks of a test.
LINK_WORDS = """window.linkWords = [];
const note = () => {
  const pill = document.getElementById("link");
  const word = pill && `${pill.dataset.link}: ${pill.textContent.trim()}`;
  if (word && word !== window.linkWords.at(-1)) window.linkWords.push(word);
};
const what = { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: ["data-link"] };
new MutationObserver(note).observe(document, what);
"""
SHOWED = "([words, times]) => window.linkWords.filter((shown) => shown.includes(words)).length >= times"
FRAME = re.compile(r'^42/live,(\d+)\["frame"')


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
    page.add_init_script(LINK_WORDS)
    page.goto(stage)
    load(stage, 6)
    for cut in (1, 2):
        page.wait_for_timeout(1500)
        sockets[-1].close(code=1011, reason="cut")
        page.wait_for_function(SHOWED, arg=["disconnected", cut], timeout=10_000)
        expect(page.locator("#link")).to_have_attribute("data-link", "live", timeout=15_000)
    wait_until(lambda: page.evaluate("1") and at_rest(stage), 40, "the load to end")
    assert len(sockets) == 3
    assert_page_is_whole(page, stage)


def test_after_outages_the_page_has_the_steps_of_the_records_and_says_what_it_read_there(
    tmp_path: Path, open_page: Callable[..., Page]
) -> None:
    with BadLine() as line:
        allow = ("--allow-host", f"127.0.0.1:{line.port}", "--live-steps", str(RING))
        with LiveServer(tmp_path, *HARDWARE, *allow) as server:
            host, port = server.url.removeprefix("http://").split(":")
            line.target = (host, int(port))
            stop = keep_busy(server)
            page = open_page()
            page.goto(line.url)
            page.evaluate(PROBE)
            for harm, ms in ((line.hold, 200), (line.hold, 1000), (line.cut, 3000), (line.cut, 5000)):
                page.wait_for_timeout(500)
                harm()
                page.wait_for_timeout(ms)
                line.heal()
                expect(page.locator("#link")).to_have_attribute("data-link", "live", timeout=20_000)
            note = page.locator("#strip .note")
            expect(note).to_contain_text("went by while this page was away", timeout=20_000)
            expect(note).to_contain_text("of them read from the records", timeout=20_000)
            stop.set()
            wait_until(lambda: page.evaluate("1") and not server.get("/api/live")["gauges"]["running"], 40, "rest")
            seq = server.get("/api/live")["seq"]
            page.wait_for_function(
                "(seq) => probe.state.seq === seq && probe.state.gap !== null && probe.state.gap.filled > 0",
                arg=seq,
                timeout=20_000,
            )
            state = page.evaluate("() => ({ boot: probe.state.boot, steps: probe.state.steps })")
            shown = rows(state["steps"])
            assert RING < len(shown) <= 600
            assert [row["step"] for row in shown] == list(range(shown[0]["step"], shown[0]["step"] + len(shown)))
            span = f"from_seq={shown[0]['seq']}&to_seq={shown[-1]['seq']}"
            recorded = (
                f"/api/steps?boot={state['boot']}&{span}"  # steps that nothing else comes with are written a moment later
            )
            wait_until(lambda: shown[-1]["seq"] in server.get(recorded)["steps"]["seq"], 10, "the newest step to be recorded")
            assert shown == rows(server.get(recorded)["steps"])
            assert "Traceback" not in server.text_of_log()


def keep_busy(server: LiveServer) -> threading.Event:
    """Requests that follow one another until the event is set."""
    stop = threading.Event()
    body = {"model": server.get("/v1/models")["data"][0]["id"], "prompt": "busy", "max_tokens": 60, "ignore_eos": True}

    def loop() -> None:
        while not stop.is_set():
            server.post("/v1/completions", body)

    for _ in range(3):
        threading.Thread(target=loop, daemon=True).start()
    return stop


def test_a_hidden_page_draws_nothing_and_shows_the_newest_state_when_it_is_seen_again(
    stage: str, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    page.goto(stage)
    load(stage, 5)
    expect(page.locator("#timeline canvas")).to_be_visible(timeout=10_000)
    page.evaluate(HIDE, True)
    before = live(stage)["seq"]
    assert page.evaluate(f"() => ({PROBES.strip()}).changes(3000)") == []
    assert live(stage)["seq"] > before + 100
    page.evaluate(HIDE, False)
    wait_until(lambda: page.evaluate("1") and at_rest(stage), 40, "the load to end")
    assert_page_is_whole(page, stage)


def test_six_thousand_frames_in_a_hidden_tab_are_no_draw_and_then_one(stage: str, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(stage)
    page.evaluate(HIDE, True)
    found = page.evaluate(SIX_THOUSAND, live(stage))
    assert found["hiddenDraws"] == 0 and found["drawn"] == [found["newest"]]
    assert found["kept"] == 600


def test_a_page_that_is_refused_says_why_and_comes_in_later(stage: str, open_page: Callable[..., Page]) -> None:
    attempts: list[int] = []
    page = open_page()

    def line(socket: WebSocketRoute) -> None:
        attempts.append(1)
        if len(attempts) > 1:
            socket.connect_to_server()
            return
        socket.on_message(lambda _: socket.send('44/live,{"message":"at most 50 dashboards at once are served"}'))
        socket.send(OPEN)

    page.route_web_socket(re.compile("/socket.io/"), line)
    page.add_init_script(LINK_WORDS)
    page.goto(stage)
    page.wait_for_function(SHOWED, arg=["refused: at most 50 dashboards", 1], timeout=10_000)
    expect(page.locator("#link")).to_have_attribute("data-link", "live", timeout=15_000)
    assert len(attempts) == 2
