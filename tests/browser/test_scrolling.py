"""Whatever scrolls sideways shows at which edge there is more, and is reached and moved by keys, under its card's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from case_records import CaseServer
from page_walk import settle
from playwright.sync_api import Page, expect
from simulated_records import RUN

PROBES = Path(__file__).with_name("page_probes.js").read_text("utf-8")
OpenPage = Callable[..., Page]
PAGES = (
    "/",
    "/load?scenario=shape",
    "/runs",
    "/runs/{run}",
    "/compare?runs={run},{seen}",
    "/requests",
    "/requests/{request}",
    "/policy",
    "/lesson",
)
LOOKS: tuple[tuple[int, Literal["light", "dark"]], ...] = (
    (320, "light"), (600, "dark"), (900, "light"), (1280, "dark"), (1920, "light"),
)  # fmt: skip
# every box whose content is wider than itself and that can be scrolled: what it says of itself, at its left end and at its
# right; null where one was drawn anew meanwhile
SIDEWAYS = """async () => {
  const two = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  await two();
  const boxes = [...document.querySelectorAll("body *")].filter((node) => node.checkVisibility() &&
    /auto|scroll/.test(getComputedStyle(node).overflowX) && node.scrollWidth - node.clientWidth > 1);
  const found = [];
  for (const box of boxes) {
    const said = async (left) => {
      box.scrollLeft = left;
      await two();
      return [box.dataset.more || "", getComputedStyle(box).boxShadow !== "none"];
    };
    const [end, start] = [await said(box.scrollWidth), await said(0)];
    found.push({ box: `${box.tagName}#${box.closest("[id]")?.id}.${box.className}`, start, end, role: box.getAttribute("role"),
      keys: box.tabIndex === 0 || box.tagName === "NAV", name: box.getAttribute("aria-label") || "" });
  }
  return boxes.every((box) => box.isConnected) ? found : null;
}"""


def amiss(box: dict[str, Any]) -> bool:
    """Whether one that scrolls keeps it to itself."""
    (start, shaded), (end, shaded_too) = box["start"], box["end"]
    edges = "right" in start and "left" not in start and "left" in end and "right" not in end
    named = box["name"].strip() and (box["role"] == "region" or box["box"].startswith("NAV"))
    return not (edges and shaded and shaded_too and named and box["keys"])


def boxes(page: Page) -> list[dict[str, Any]]:
    """What each box that scrolls sideways says of itself now."""
    found = None
    while found is None:
        found = page.evaluate(SIDEWAYS)
    return list(found)


def test_every_box_that_scrolls_sideways_says_so_on_every_page(cases: CaseServer, open_page: OpenPage) -> None:
    page, scrolling, silent = open_page(), dict.fromkeys(LOOKS, 0), []
    for path in PAGES:
        page.goto(cases.url + path.format(run=RUN, seen=cases.seen, request=cases.preempted))
        settle(page)
        for width, theme in LOOKS:
            page.emulate_media(color_scheme=theme)
            page.set_viewport_size({"width": width, "height": 900})
            found = boxes(page)
            scrolling[width, theme] += len(found)
            silent += [(path, width, box) for box in found if amiss(box)]
            assert min(page.evaluate(f"({PROBES.strip()}).ink(['mut'])")) >= 3, "the shade of an edge"
    assert silent == []
    assert all(count >= 8 for (width, _), count in scrolling.items() if width <= 600), scrolling


def test_keys_scroll_a_table_and_one_that_fits_takes_none(cases: CaseServer, open_page: OpenPage) -> None:
    page = open_page(width=600)
    page.goto(f"{cases.url}/runs/{RUN}")
    box = page.get_by_role("region", name="Latency: scrolls")
    expect(box).to_have_attribute("data-more", "right")
    box.focus()
    page.keyboard.press("ArrowRight")
    expect(box).to_have_attribute("data-more", "left right")
    page.set_viewport_size({"width": 1600, "height": 900})
    latency = page.locator("#percentiles .body")
    for name in ("data-more", "tabindex", "role", "aria-label"):
        expect(latency).not_to_have_attribute(name, "")
        assert latency.get_attribute(name) is None
    page.set_viewport_size({"width": 600, "height": 900})
    expect(box).to_have_attribute("tabindex", "0")
