"""One look at a page: what it says, how far it runs over each width, what its canvases tell who cannot see them.

For tests that hold a law over every page; knows no page of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page

WIDTHS = (320, 600, 1280, 1920)
RAW = re.compile(r"\b(NaN|undefined|null|Infinity)\b")  # what a script makes of a figure that is not there
NULL_RUNNER = re.compile(r"\bnull\b")  # is a model and a runner of its own
SETTLED = """() => !document.querySelector("#link") || (document.querySelector("#link").dataset.link === "live" &&
  !/Loading|Connecting/.test(document.querySelector("main").innerText) && !document.querySelector("[aria-busy=true]") &&
  (window.Chart || !document.querySelector('script[src*="/vendor/chart-"]')))"""
SAID = """() => ({
  text: document.body.innerText,
  titles: [...document.querySelectorAll("body *")].flatMap((node) =>
    ["title", "aria-label", "placeholder"].map((name) => node.getAttribute(name)).filter(Boolean)),
  tiles: [...document.querySelectorAll("[data-tile]")].map((node) =>
    [node.dataset.tile, JSON.parse(node.dataset.value ?? '"never"'), node.textContent]),
  canvases: [...document.querySelectorAll("canvas")].map((canvas) => ({
    place: (canvas.closest("[id]") || canvas).id,
    role: canvas.getAttribute("role"),
    label: canvas.getAttribute("aria-label") || "",
    table: Boolean(canvas.closest("fieldset, .card")?.querySelector("fieldset ul, [data-as-table]")),
  })),
})"""
BEYOND = """() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() =>
  resolve(document.documentElement.scrollWidth - innerWidth))))"""


@dataclass(frozen=True, slots=True)
class Seen:
    """`beyond`: px of the document outside the window, by its width. `tiles`: [name, value, shown text]."""

    text: str
    titles: list[str]
    tiles: list[list[Any]]
    canvases: list[dict[str, Any]]
    beyond: dict[int, int]

    def raw_words(self, *, null_runner: bool = False) -> list[str]:
        """Where a script's own word stands for a figure that is not there."""
        lines = [*self.text.splitlines(), *self.titles]
        return [line for line in lines if RAW.search(NULL_RUNNER.sub("", line) if null_runner else line)]


def settle(page: Page) -> None:
    """Nothing is being loaded any more, and the websocket lives."""
    page.wait_for_function(SETTLED, timeout=15_000)


def look(page: Page, url: str) -> Seen:
    """Open the page and see it at all widths; it is left at 1280 px."""
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(url)
    settle(page)
    said = page.evaluate(SAID)
    beyond = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        beyond[width] = page.evaluate(BEYOND)
    page.set_viewport_size({"width": 1280, "height": 900})
    return Seen(**said, beyond=beyond)
