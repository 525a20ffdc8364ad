"""The live page, reloaded in mid-run and with its theme changed under its charts: the same points, and all of it readable."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from followers import rows
from playwright.sync_api import Page, expect

OpenPage = Callable[..., Page]
PROBES = Path(__file__).with_name("page_probes.js").read_text("utf-8")
PROBE = """async () => {
  const [{ createStore }, { connect }] = [await import("/static/js/store.js"), await import("/static/js/socket.js")];
  window.probe = createStore();
  connect(window.probe);
}"""
LINES = ("prefill", "decode-edge", "preempted", "kv", "running")
REASONS = ("step", "slots", "token_budget", "kv_blocks", "prefill_cap", "quota", "static_batch", "engine_down", "paused")
TEXTS = (("fg", "card"), ("mut", "card"), ("fg", "bg"), ("mut", "bg"), ("tip-fg", "tip-bg"))
# the contrast of pairs of the style sheet's colours
CONTRAST = """(pairs) => {
  const light = (name) => {
    const node = document.body.appendChild(document.createElement("i"));
    node.style.color = `var(--${name})`;
    const rgb = getComputedStyle(node).color.match(/[\\d.]+/g).slice(0, 3).map((value) => value / 255);
    node.remove();
    const linear = rgb.map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return linear[0] * 0.2126 + linear[1] * 0.7152 + linear[2] * 0.0722;
  };
  return pairs.map((pair) => pair.map(light).sort((a, b) => b - a)).map(([x, y]) => (x + 0.05) / (y + 0.05));
}"""
# of every visible canvas, what is on it
PICTURES = """() => [...document.querySelectorAll("canvas")].filter((canvas) => canvas.checkVisibility() && canvas.width)
  .map((canvas) => canvas.toDataURL())"""


def load(stage: str, seconds: int) -> None:
    asked = urllib.request.Request(f"{stage}/api/runs?seconds={seconds}", b"{}", {"Content-Type": "application/json"})
    urllib.request.urlopen(asked, timeout=10).close()


def points(page: Page, least: int) -> dict[int, dict[str, Any]]:
    """Every series of a fresh page's state, by step: x, y and the reasons."""
    page.evaluate(PROBE)
    page.wait_for_function("(least) => probe.state.steps.seq.length >= least", arg=least, timeout=15_000)
    steps = page.evaluate("probe.state.steps")
    lengths = {name: len(column) for name, column in steps.items() if name != "by_reason"}
    lengths |= {reason: len(column) for reason, column in steps["by_reason"].items()}
    assert set(lengths.values()) == {len(steps["seq"])}, "a series that has fewer points than the others"
    return {row["seq"]: row for row in rows(steps)}


def test_a_page_reloaded_in_mid_run_has_the_same_points_in_every_series(stage: str, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(stage)
    load(stage, 20)
    before = points(page, 150)
    page.reload()
    after = points(page, len(before))
    shared = before.keys() & after.keys()
    assert len(shared) >= 100 and max(after) > max(before)
    assert min(before) >= min(after) or len(after) == 600, "what was shown is shown again, as far as the ring goes"
    assert {seq: before[seq] for seq in shared} == {seq: after[seq] for seq in shared}


def test_both_themes_can_be_read_with_the_charts_alive_and_paper_is_light(stage: str, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(stage)
    load(stage, 12)
    expect(page.locator("#queue canvas")).to_be_visible(timeout=15_000)
    page.evaluate("() => { window.sameDocument = true; }")
    for theme in ("Dark", "Light"):
        page.get_by_role("button", name=theme, exact=True).click()
        page.wait_for_timeout(300)
        assert page.evaluate(f"() => ({PROBES.strip()}).faint(4.5)") == [], theme
        for pair, ratio in zip(TEXTS, page.evaluate(CONTRAST, TEXTS), strict=True):
            assert ratio >= 4.5, (theme, pair)
        marks = [(name, "card") for name in (*LINES, *(f"r-{reason}" for reason in REASONS))]
        for pair, ratio in zip(marks, page.evaluate(CONTRAST, marks), strict=True):
            assert ratio >= 3, (theme, pair)
    page.locator("#freeze").click()
    page.get_by_role("button", name="Light", exact=True).click()
    page.wait_for_timeout(300)
    light = page.evaluate(PICTURES)
    page.get_by_role("button", name="Dark", exact=True).click()
    page.wait_for_timeout(300)
    dark = page.evaluate(PICTURES)
    assert len(light) == len(dark) >= 3 and all(one != other for one, other in zip(light, dark, strict=True))
    page.emulate_media(media="print")
    page.wait_for_timeout(300)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(PICTURES) == light and page.evaluate(f"() => ({PROBES.strip()}).faint(4.5)") == []
    assert page.evaluate("window.sameDocument")
