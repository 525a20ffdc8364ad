"""Why a request waits, on screen: the hold, its ledger, its gaps and the step that stretched them, the frozen view; in order.

The server has few slots, little KV memory and a quota, and is held until all requests have come: so that they wait for each.
"""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from live_server import LiveServer, wait_until
from playwright.sync_api import Page, expect

PROBES = Path(__file__).with_name("page_probes.js").read_text("utf-8")
LIMITS = (
    "max_num_seqs=8", "max_num_batched_tokens=128", "kv_cache_tokens=1024", "max_model_len=512", "tenant_max_running=4",
)  # fmt: skip
REQUESTS = 48
OpenPage = Callable[..., Page]


class Crowd:
    """A server, and requests of three tenants that came to it while it was held; each client notes what it saw."""

    def __init__(self, server: LiveServer, pool: ThreadPoolExecutor) -> None:
        self.server = server
        self.run = server.post("/api/runs", {"external": True, "name": "crowd"})["id"]
        self.model = server.get("/v1/models")["data"][0]["id"]
        server.post("/api/scheduler/pause", {})
        self.seen: list[Future[dict[str, Any]]] = []
        for index in range(REQUESTS):
            self.seen.append(pool.submit(self._ask, index))
            wait_until(lambda: self.waiting() > index or self.seen[-1].done(), 20, "it to wait")  # noqa: B023 - asked at once
            assert not self.seen[-1].done(), self.seen[-1].result()

    def waiting(self) -> int:
        return int(self.server.get("/api/live")["gauges"]["waiting"])

    def settled(self) -> None:
        """All have been answered, and what their clients saw is in the records."""
        if self.seen:
            self.server.post("/api/scheduler/resume", {})
            lines = "\n".join(json.dumps(each.result(60)) for each in self.seen)
            path = f"{self.server.url}/api/runs/{self.run}/client_requests"
            told = urllib.request.Request(path, lines.encode(), {"Content-Type": "application/x-ndjson"})
            urllib.request.urlopen(told, timeout=30).close()
            self.server.post(f"/api/runs/{self.run}/stop", {})
            self.seen = []

    def _ask(self, index: int) -> dict[str, Any]:
        long, tenant = index % 7 == 6, "aaabc"[index % 5]
        body = {"model": self.model, "prompt": f"{index} " + "word " * (70 if long else 6), "max_tokens": 30, "tenant": tenant}
        headers = {"Content-Type": "application/json", "X-Batchscope-Run": self.run, "X-Request-Id": f"c-{index}"}
        sent = time.perf_counter()
        asked = urllib.request.Request(self.server.url + "/v1/completions", json.dumps(body).encode(), headers)
        urllib.request.urlopen(asked, timeout=120).read()
        ended = time.perf_counter()
        return {"id": f"c-{index}", "status": "ok", "sent_ms": sent * 1e3, "first_ms": ended * 1e3, "last_ms": ended * 1e3}


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    limits = [part for limit in LIMITS for part in ("--set", limit)]
    model = ("--runner", "simulated", "--hardware", "h100-llama-3.1-8b-tp1-bf16")
    with (
        LiveServer(tmp_path_factory.mktemp("ledger"), *model, *limits) as started,
        ThreadPoolExecutor(REQUESTS) as pool,
    ):
        crowd = Crowd(started, pool)
        yield crowd
        crowd.settled()


def probe(page: Page, name: str, argument: object = None) -> Any:
    return page.evaluate(f"(argument) => ({PROBES.strip()}).{name}(argument)", argument)


def test_the_held_engine_takes_one_step_and_says_who_was_picked_and_why_not_the_others(
    crowd: Crowd, open_page: OpenPage
) -> None:
    page, server = open_page(), crowd.server
    page.goto(server.url)
    expect(page.locator("#hold")).to_be_visible()
    expect(page.locator("#waiting tbody tr")).to_have_count(10)
    reasons = set()
    for number in range(1, 13):
        page.keyboard.press("s")
        expect(page.locator("#hold .note")).to_have_text(f"step {number} was made")
        said = page.locator("#hold").inner_text()
        steps = server.get("/api/live")["steps"]
        assert steps["step"][-1] == number and f"{steps['prefill'][-1]} prefill, {steps['decode'][-1]} decode" in said
        assert {"Admitted", "Prefill", "Decode", "Not picked", "Why"} <= set(said.split("\n"))
        reasons |= set(re.findall(r"of its 4|of 8 slots: tenant|needs \d+ KV blocks|of 128 tokens of the step: tenant", said))
        if len(reasons) > 1:
            break
    assert len(reasons) > 1, said
    rows = page.locator("#tenants tbody tr").all_inner_texts()
    assert sorted(row.split()[0] for row in rows) == ["a", "b", "c"]
    page.keyboard.press("f")
    expect(page.locator("#frozen")).to_have_text(f"frozen at step {number}")
    shown = server.get("/api/live")["seq"]
    wait_until(lambda: probe(page, "tiles")["seq"] == shown, 10, "the frozen state to be drawn")
    page.click("#one-step")
    expect(page.locator("#frozen")).to_have_text(f"frozen at step {number} · 1 step since")
    assert page.url.endswith("?freeze=1") and probe(page, "tiles")["seq"] == shown, "a frozen view moved"
    page.keyboard.press("f")
    expect(page.locator("#frozen")).to_be_hidden()
    expect(page.locator("body")).not_to_have_attribute("data-seq", str(shown))


def test_a_waiting_request_shows_its_place_and_goes_on_by_itself_to_its_end(crowd: Crowd, open_page: OpenPage) -> None:
    last = crowd.server.get(f"/api/requests?run={crowd.run}&sort=-received&limit=1")["items"][0]
    page = open_page()
    page.goto(f"{crowd.server.url}/requests/{last['id']}")
    expect(page.locator("#tags .tag")).to_have_text("waiting")
    expect(page.locator("#waited .note")).to_contain_text(re.compile(r"number \d+ in the queue by arrival"))
    expect(page.locator("#cancel")).to_be_visible()
    expect(page.locator("#next")).to_have_attribute("aria-disabled", "true")
    crowd.server.post("/api/scheduler/resume", {})
    expect(page.locator("#tags .tag")).to_have_text(re.compile("length|stop"), timeout=60_000)
    expect(page.locator("#cancel")).to_be_hidden()
    expect(page.locator("#ledger")).to_contain_text("waited for paused")


def test_the_ledger_names_the_holders_of_slots_blocks_and_quota(crowd: Crowd, open_page: OpenPage) -> None:
    crowd.settled()
    rows = crowd.server.get(f"/api/requests?run={crowd.run}&limit=1000")["items"]
    page = open_page()
    for reason, name, words in (
        ("slots", "slots", r"8 of 8 slots: tenant [abc] \d"),
        ("kv_blocks", "KV blocks", r"needs \d+ KV blocks?, \d+ free.*; held: tenant [abc] \d"),
        ("quota", "quota", r"tenant [abc] runs [34] of its 4"),
    ):
        longest = max(rows, key=lambda row: row["waits"].get(reason, 0))  # noqa: B023 - asked at once
        assert longest["waits"].get(reason), f"nobody waited for {reason}"
        page.goto(f"{crowd.server.url}/requests/{longest['id']}")
        expect(page.locator("#waited .ledger")).to_contain_text(re.compile(name + r" — held by tenant [abc] [\d.]+ %"))
        if not page.locator("#waited details[open]").count():
            page.click("#waited summary")
        expect(page.locator("#waited details")).to_contain_text(re.compile(words))
        expect(page.locator("#waited .note")).to_contain_text("overtaken by")
        expect(page.locator("#summary")).to_contain_text("on our clock, ±")
        expect(page.locator("#life .lane")).to_have_count(2)


def test_the_worst_gap_leads_to_the_step_that_stretched_it(crowd: Crowd, open_page: OpenPage) -> None:
    crowd.settled()
    server = crowd.server
    found = None
    for row in server.get("/api/requests?sort=-output_tokens&limit=60")["items"]:
        shown = server.get(f"/api/requests/{row['id']}")
        found = next((gap for gap in shown["gaps"]["worst"] if gap["prefills"] and gap["prefills"][0]["id"]), None)
        if found and shown["previous"]:
            break
    assert found, "no gap shared its step with a prefill"
    page = open_page()
    page.goto(f"{server.url}/requests/{row['id']}")
    line = page.locator("#gaps .worst tbody tr", has_text=f"{found['step']:,}")
    expect(line).to_contain_text(f"{found['prefill_tokens']:,} prefill token")
    expect(line.locator("a").first).to_have_attribute("href", f"/requests/{found['prefills'][0]['id']}")
    line.locator("button").click()
    expect(page.locator("#step h2")).to_have_text(f"Step {found['step']:,}")
    expect(page.locator("#step .step")).to_contain_text(f"{found['prefills'][0]['tokens']:,} token")
    page.keyboard.press("Escape")
    expect(page.locator("#step")).to_be_hidden()
    expect(page.locator("#mates tbody tr").first).to_be_visible()
    page.keyboard.press("[")
    page.wait_for_url(f"**/requests/{shown['previous']}")
    expect(page.locator("#next")).to_have_attribute("href", f"/requests/{row['id']}")
    page.keyboard.press("]")
    page.wait_for_url(f"**/requests/{row['id']}")


def test_keys_zone_and_a_missing_request(crowd: Crowd, open_page: OpenPage) -> None:
    crowd.settled()
    server = crowd.server
    page = open_page()
    page.goto(f"{server.url}/requests/req_nobody")
    expect(page.locator("#life")).to_contain_text("There is no such request in the records")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_contain_text("search the records")
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_have_count(0)
    page.keyboard.press("1")
    page.wait_for_url(server.url + "/")
    one = server.get("/api/requests?limit=1")["items"][0]
    page.goto(f"{server.url}/requests/{one['id']}")
    page.click("#zone")
    expect(page.locator("#zone")).to_have_text("UTC")
    expect(page.locator("#tags small")).to_have_text(one["received"][:19].replace("T", " "))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_request_and_the_held_live_page_fit_and_can_be_read(crowd: Crowd, open_page: OpenPage, theme: str) -> None:
    crowd.settled()
    server = crowd.server
    slow = server.get("/api/requests?sort=-queue_ms&limit=1")["items"][0]["id"]
    page = open_page(theme=theme)
    server.post("/api/scheduler/pause", {})
    try:
        for path, ready in (("/", "#hold"), (f"/requests/{slow}", "#gaps canvas")):
            page.goto(server.url + path)
            expect(page.locator(ready)).to_be_visible()
            assert probe(page, "faint", 4.5) == [], path
            for width in (320, 600, 1280):
                page.set_viewport_size({"width": width, "height": 900})
                assert probe(page, "overflow") <= 0, f"{path} at {width} px"
    finally:
        server.post("/api/scheduler/resume", {})
