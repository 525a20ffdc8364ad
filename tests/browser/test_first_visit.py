"""The pages against the real server and a real browser, on the simulated runner: what a newcomer does, in order."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import page_walk
import pytest
from flask import Flask
from live_server import LiveServer, wait_until
from playwright.sync_api import Page, expect

from app.pages import pages

PROBES = Path(__file__).with_name("page_probes.js").read_text("utf-8")
HARDWARE = "h100-llama-3.1-8b-tp1-bf16"
LIMITS = ("max_num_seqs=16", "max_num_batched_tokens=256", "kv_cache_tokens=6144", "max_model_len=2048")
GAUGES = ("waiting", "running", "output_tok_s", "prefill_tok_s", "step_ms_p50", "ttft_p95_ms", "itl_p95_ms", "observe_us_step")
HOSTILE = "</script><img src=x onerror=alert(1)>"
CHART_TIP = """(selector) => {
  const { opacity, title, body } = Chart.getChart(document.querySelector(selector)).tooltip;
  return opacity ? [...title, ...body.flatMap(({ lines }) => lines)] : null;
}"""
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    limits = [part for limit in LIMITS for part in ("--set", limit)]
    with LiveServer(tmp_path_factory.mktemp("browser"), "--runner", "simulated", "--hardware", HARDWARE, *limits) as started:
        yield started


def probe(page: Page, name: str, argument: object = None) -> Any:
    if name in ("tiles", "watchTiles"):  # a page that has drawn nothing yet has no values
        page.wait_for_selector("body[data-seq]", timeout=15_000)
    return page.evaluate(f"(argument) => ({PROBES.strip()}).{name}(argument)", argument)


def get(server: LiveServer, path: str) -> Any:
    with urllib.request.urlopen(server.url + path, timeout=10) as answer:
        return json.load(answer)


def post(server: LiveServer, path: str, body: object) -> Any:
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(server.url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.load(answer)


def assert_tiles_equal_gauges(values: dict[str, Any], gauges: dict[str, Any]) -> None:
    assert {name: values[name] for name in GAUGES} == {name: gauges[name] for name in GAUGES}
    assert values["kv"] == gauges["blocks_total"] - gauges["blocks_free"]


def test_empty_it_offers_three_things_and_one_prompt_comes_back_with_its_bars(server: LiveServer, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{server.url}/load")
    expect(page.locator("#runs")).to_contain_text("No run yet.")
    page.goto(server.url)
    expect(page.locator("#sentence")).to_have_text("Ready: nothing has run yet.")
    expect(page.locator("#simulated")).to_have_text(f"simulated hardware: {HARDWARE}")
    expect(page.locator("#start-first-look")).to_be_enabled()
    expect(page.locator("#curl")).to_contain_text(f"{server.url}/v1/chat/completions")
    expect(page.locator("#timeline")).to_be_hidden()
    with page.expect_request("**/v1/chat/completions") as sent:
        page.click("#send")
    assert sent.value.post_data_json["temperature"] == 0  # a small model at temperature 1 answers with nonsense
    expect(page.locator("#prompt-note")).to_contain_text("first token after", timeout=15_000)
    assert page.locator("#answer").inner_text()
    expect(page.locator("#timeline canvas")).to_be_visible()
    page.click("#timeline [data-as-table]")
    phases = page.locator("#timeline tbody tr td:nth-child(4)").all_inner_texts()
    assert {"prefill", "decode"} <= set(phases)


def test_first_look_makes_a_queue_and_the_page_says_what_api_live_says(server: LiveServer, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(server.url)
    page.click("#start-first-look")
    expect(page.locator("#runchip")).to_contain_text("first_look", timeout=15_000)
    wait_until(lambda: probe(page, "tiles")["values"]["waiting"] >= 8, 40, "8 waiting on the page")
    expect(page.locator("#sentence")).to_contain_text("wait")
    expect(page.locator("#waiting tbody tr").first).to_be_visible()
    same = probe(page, "watchTiles", 4000)
    assert same, "no answer of /api/live met a state that the page showed"
    for each in same:
        assert_tiles_equal_gauges(each["values"], each["gauges"])
    page.goto(f"{server.url}/load")
    expect(page.locator("#progress")).to_contain_text("running")
    page.click("#progress button.danger")
    expect(page.locator("#progress")).to_be_hidden(timeout=60_000)
    expect(page.locator("#runs tbody tr").first).to_contain_text("stopped")


def test_at_rest_nothing_changes_for_5_s_and_the_tiles_are_those_of_api_live(server: LiveServer, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(server.url)
    settle(server)
    live = get(server, "/api/live")
    expect(page.locator("body")).to_have_attribute("data-seq", str(live["seq"]))
    page.wait_for_timeout(1500)
    assert probe(page, "changes", 5000) == []
    shown = probe(page, "tiles")
    assert (shown["boot"], shown["seq"]) == (live["boot"], live["seq"])
    assert_tiles_equal_gauges(shown["values"], get(server, "/api/live")["gauges"])


def settle(server: LiveServer) -> None:
    """No run and no request is under way, whatever the test before left behind."""
    run = get(server, "/api/live")["run"]
    if run is not None and run["status"] in ("pending", "running", "draining"):
        post(server, f"/api/runs/{run['id']}/stop", {})
    wait_until(lambda: _idle(get(server, "/api/live")), 60, "the server to be at rest")


def _idle(live: dict[str, Any]) -> bool:
    gauges, run = live["gauges"], live["run"]
    over = run is None or run["status"] in ("finished", "stopped", "failed")
    return over and gauges["waiting"] == gauges["running"] == gauges["preempted"] == 0


def test_one_cursor_is_on_every_chart_and_latency_says_what_the_tiles_say(server: LiveServer, open_page: OpenPage) -> None:
    settle(server)
    page = open_page()
    page.goto(server.url)
    page.wait_for_selector("body[data-seq]")
    page.wait_for_function("() => window.Chart?.getChart(document.querySelector('#queue canvas'))")
    page.hover("#queue canvas", position={"x": 1100, "y": 60})
    expect(page.locator(".hair:visible")).to_have_count(3)
    places = page.locator(".hair").evaluate_all("(hairs) => hairs.map((hair) => hair.getBoundingClientRect().x)")
    assert places[0] == pytest.approx(places[1], abs=1.5)  # strip and queue: the same step at the same place
    said = page.wait_for_function(CHART_TIP, arg="#queue canvas").json_value()
    assert re.match(r"step [\d,]+\nrunning \d+", "\n".join(said))
    page.mouse.move(5, 5)
    expect(page.locator(".hair:visible")).to_have_count(0)
    gauges, bars = get(server, "/api/live")["gauges"], page.locator("#latency .percentiles .num").all_inner_texts()
    assert len(bars) == 6 and gauges["ttft_p50_ms"] <= gauges["ttft_p95_ms"] <= gauges["ttft_p99_ms"]
    tile = page.locator("[data-tile=ttft_p95_ms]")
    assert bars[1].startswith(f"{tile.inner_text()} {tile.locator('+ .unit').inner_text()}")


def test_the_slowest_request_is_one_click_away_and_its_parts_sum_up(server: LiveServer, open_page: OpenPage) -> None:
    settle(server)
    page = open_page()
    page.goto(f"{server.url}/requests")
    page.click("#rows th >> text=TTFT")
    expect(page.locator("#rows th[aria-sort=descending]")).to_contain_text("TTFT")
    slowest = get(server, "/api/requests?sort=-ttft_ms&limit=1")["items"][0]
    first = page.locator("#rows tbody tr").first
    expect(first.locator("a").first).to_have_attribute("href", f"/requests/{slowest['id']}")
    first.click()
    page.wait_for_url(f"**/requests/{slowest['id']}")
    expect(page.locator("#life .lane i.decode").first).to_be_visible()
    parts = sum(slowest["waits"].values()) + sum(
        slowest[f"{part}_ms"] for part in ("prefill", "decode", "stalled", "preempted")
    )
    assert parts == pytest.approx(slowest["e2e_ms"], abs=0.001)
    expect(page.locator("#ledger")).to_contain_text("E2E")
    assert page.locator("#events tbody tr").count() >= 4


def test_the_report_begins_with_its_verdict_and_reconciles(server: LiveServer, open_page: OpenPage) -> None:
    settle(server)
    page = open_page()
    run = get(server, "/api/runs")["items"][0]["id"]
    page.goto(f"{server.url}/runs/{run}")
    report = get(server, f"/api/runs/{run}/report")
    expect(page.locator("#head .headline")).to_have_text(report["headline"].replace("`", ""))
    sent = report["reconciliation"]["sent"]
    expect(page.locator("#reconciliation tbody tr").first).to_contain_text(f"{sent:,}")
    expect(page.locator("#percentiles tbody tr").first).to_contain_text("TTFT")


def test_markup_in_a_tenant_stays_text(server: LiveServer, open_page: OpenPage) -> None:
    post(server, "/v1/completions", {"model": _model(server), "prompt": "hi", "max_tokens": 3, "tenant": HOSTILE})
    page = open_page()
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    page.goto(f"{server.url}/requests")
    expect(page.locator("#rows tbody")).to_contain_text(HOSTILE)  # the newest come first
    assert page.locator("#rows img").count() == 0


def _model(server: LiveServer) -> str:
    return str(get(server, "/v1/models")["data"][0]["id"])


def test_a_setting_changed_on_the_policy_page_is_in_effect_and_marked(server: LiveServer, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{server.url}/policy")
    page.fill("input[name=max_num_seqs]", "8")
    expect(page.locator("#diff")).to_have_text("max_num_seqs 16 → 8")
    page.click("#apply")
    expect(page.locator("#note")).to_have_text("applied")
    assert get(server, "/api/scheduler")["settings"]["max_num_seqs"] == 8
    page.goto(server.url)
    expect(page.locator("[data-tile=running] + .unit")).to_have_text("/ 8 slots")
    assert get(server, "/api/live")["markers"][-1]["text"] == "max_num_seqs 16 → 8"


def test_weights_of_tenants_are_set_in_one_line_and_shown_as_they_were_set(server: LiveServer, open_page: OpenPage) -> None:
    page, weights = open_page(), 'input[name="policy_params.weight.*"]'
    page.goto(f"{server.url}/policy")
    page.select_option("select[name=policy]", "vtc")
    page.fill(weights, "ann=2, b%2Cc = 0.5")
    page.click("#apply")
    expect(page.locator("#note")).to_have_text("applied")
    assert get(server, "/api/scheduler")["settings"]["policy_params"] == {"weight.ann": 2, "weight.b,c": 0.5}
    page.reload()
    expect(page.locator(weights)).to_have_value("ann=2, b%2Cc=0.5")
    expect(page.locator("#diff")).to_have_text("Nothing is changed.")
    page.fill(weights, "ann")
    page.click("#apply")
    expect(page.locator("#note")).to_contain_text("policy_params.weight.ann must be a number")
    page.reload()
    page.select_option("select[name=policy]", "fcfs")
    page.click("#apply")
    expect(page.locator("#note")).to_have_text("applied")
    assert get(server, "/api/scheduler")["settings"]["policy_params"] == {}


def test_every_page_fits_its_window_and_can_be_read_in_both_themes(server: LiveServer, open_page: OpenPage) -> None:
    run = get(server, "/api/runs")["items"][0]["id"]
    request = get(server, "/api/requests?limit=1")["items"][0]["id"]
    page = open_page()
    for path in ("/", "/load", "/runs", f"/runs/{run}", "/requests", f"/requests/{request}", "/policy"):
        page.goto(server.url + path)
        page_walk.settle(page)
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            page.wait_for_timeout(150)
            assert probe(page, "faint", 4.5) == [], (path, theme)
        for width in (320, 600, 1280, 1920):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(150)
            assert probe(page, "overflow") <= 0, f"{path} at {width} px"


def every_page(server: LiveServer) -> list[str]:
    """The path of each page; those of one run or one request with the newest."""
    app = Flask("routes")
    app.register_blueprint(pages)
    run = get(server, "/api/runs")["items"][0]["id"]
    request = get(server, "/api/requests?limit=1")["items"][0]["id"]
    values = {"run_id": run, "request_id": request, "sequence": 0}
    rules = [
        rule for rule in app.url_map.iter_rules() if rule.endpoint.startswith("pages.") and not rule.rule.endswith(".json")
    ]
    return [str(rule.build({name: values[name] for name in rule.arguments})[1]) for rule in rules]  # type: ignore[index]


def test_no_page_writes_to_the_console_and_none_allows_inline_code(server: LiveServer, open_page: OpenPage) -> None:
    page, said = open_page(), list[str]()
    page.on("console", lambda line: said.append(f"{page.url}: {line.type}: {line.text}"))
    page.on("requestfailed", lambda failed: said.append(f"{page.url}: {failed.url} failed"))
    paths = every_page(server)
    assert len(paths) >= 12
    for path in paths:
        answer = page.goto(server.url + path)
        assert answer is not None and answer.ok, path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy and "unsafe" not in policy, path
        page.wait_for_selector("#link[data-link=live]", timeout=15_000)
        page.wait_for_load_state("networkidle")
    assert said == []
