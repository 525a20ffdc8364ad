"""The live page: what was changed is marked on every chart, and a step leads to its place on the timeline."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from live_server import LiveServer, wait_until
from playwright.sync_api import Page, expect

OpenPage = Callable[..., Page]
HARDWARE = ("--runner", "simulated", "--hardware", "h100-qwen3-32b-tp2-bf16")
# [card, text] of everything that is written on a canvas
WRITTEN = """window.written = [];
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
  const card = this.canvas.closest(".card");
  window.written.push(`${card ? card.id : ""}: ${text}`);
  return write.call(this, text, ...place);
};"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("live"), *HARDWARE, "--set", "max_num_seqs=16") as started:
        yield started


def ask(server: LiveServer, tokens: int) -> None:
    server.post("/v1/completions", {"model": "Qwen3-32B", "prompt": "a b c", "max_tokens": tokens, "ignore_eos": True})


def test_a_change_of_limits_is_marked_on_every_chart_and_in_its_table(server: LiveServer, open_page: OpenPage) -> None:
    page = open_page()
    page.add_init_script(WRITTEN)
    page.goto(server.url)
    ask(server, 30)
    server.post("/api/scheduler", {"max_num_seqs": 12}, method="PATCH")
    ask(server, 30)
    changed = "max_num_seqs 16 → 12"
    for card in ("strip", "queue", "timeline"):
        page.wait_for_function("(said) => window.written.includes(said)", arg=f"{card}: {changed}")
    first = server.get("/api/live")["steps"]["step"][-1] - 29
    for card in ("strip", "queue"):
        page.click(f"#{card} [data-as-table]")
        row = page.locator(f"#{card} tbody tr", has_text=changed)
        expect(row).to_have_count(1)
        expect(row.locator("td").first).to_have_text(f"{first:,}")
    server.post("/api/scheduler", {"max_num_seqs": 11}, method="PATCH")
    expect(page.locator("#queue tbody tr").first).to_contain_text("then max_num_seqs 12 → 11")


def test_a_step_leads_to_the_timeline_where_its_link_shows_the_same_to_whoever_opens_it(
    server: LiveServer, open_page: OpenPage
) -> None:
    page = open_page()
    page.goto(server.url)
    ask(server, 40)
    live = server.get("/api/live")
    boot, seq, step = live["boot"], live["steps"]["seq"][-1], live["steps"]["step"][-1]
    expect(page.locator("#strip canvas")).to_have_attribute("aria-label", re.compile(f"Step {step}:"))
    box = page.locator("#strip canvas").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] - 45, box["y"] + 90)
    page.wait_for_url(f"**/timeline?run=live&step={boot}.{seq}")
    dialog = page.locator("dialog#step")
    expect(dialog.locator("h2")).to_have_text(f"Step {step:,}")
    said = dialog.inner_text()
    assert "Decode" in said
    fresh = open_page()
    fresh.goto(page.url)
    expect(fresh.locator("dialog#step h2")).to_have_text(f"Step {step:,}")
    assert fresh.locator("dialog#step").inner_text() == said
    fresh.keyboard.press("Escape")
    expect(fresh.locator("dialog#step")).to_be_hidden()
    assert "step=" not in fresh.url and "run=live" in fresh.url


def test_what_a_link_names_in_vain_is_said_in_the_dialog(server: LiveServer, open_page: OpenPage) -> None:
    ask(server, 5)
    page = open_page()
    page.goto(f"{server.url}/timeline?run=live&step=99.5")
    expect(page.locator("dialog#step .error")).to_contain_text("step 99/5", timeout=10_000)
    page.get_by_role("button", name="Close").click()
    wait_until(lambda: page.title() and "step=" not in page.url, 5, "the address to forget it")
