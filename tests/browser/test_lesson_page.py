"""The lesson in the browser: each link of it answers, each control that it names is there, in both languages; nothing fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import LiveServer
from playwright.sync_api import Page, expect

PROBES = Path(__file__).with_name("page_probes.js").read_text("utf-8")
OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    model = ("--runner", "simulated", "--hardware", "h100-llama-3.1-8b-tp1-bf16")
    with LiveServer(tmp_path_factory.mktemp("lesson"), *model) as started:
        yield started


@pytest.fixture
def quiet(open_page: OpenPage) -> Iterator[OpenPage]:
    """Pages that may log no error."""
    told: list[str] = []

    def make(**how: Any) -> Page:
        page = open_page(**how)
        page.on("console", lambda line: told.append(f"{page.url}: {line.text}") if line.type in ("error", "warning") else None)
        return page

    yield make
    assert told == []


def test_every_link_answers_and_every_control_named_is_on_its_page(server: LiveServer, quiet: OpenPage) -> None:
    page = quiet()
    told = set[tuple[str, str]]()
    for path, lang in (("/lesson", "en"), ("/lesson?lang=zh", "zh-CN")):
        page.goto(server.url + path)
        assert page.locator("html").get_attribute("lang") == lang
        expect(page.locator("nav a[aria-current=page]")).to_have_text("Lesson")
        hrefs = set(page.locator(".lesson a").evaluate_all("links => links.map((link) => link.getAttribute('href'))"))
        for href in hrefs:
            assert page.request.get(server.url + href).status == 200, href
        rows = page.locator(".lesson tr:has(td strong)").evaluate_all(
            "rows => rows.map((row) => [row.querySelector('a').getAttribute('href'), row.querySelector('strong').textContent])"
        )
        assert len(rows) == 10
        told |= {(href, name) for href, name in rows}
    assert len(told) == 10, "the two languages name other places"
    pages = dict[str, str]()  # one visit a page: which moments the recording has is a test of its own
    for href, name in sorted(told):
        path = href.partition("?")[0]
        if path not in pages:
            page.goto(server.url + pages.setdefault(path, href))
        expect(page.locator("main").get_by_text(re.compile(f"^{name}")).locator("visible=true").first).to_be_visible()


def test_it_is_offered_on_the_live_page_and_opens_the_recording_where_it_says(server: LiveServer, quiet: OpenPage) -> None:
    page = quiet()
    page.goto(server.url)
    expect(page.locator("#try .intro a")).to_have_text(["Watch a recorded run", "the lesson"])
    page.get_by_role("link", name="Watch a recorded run").click()
    expect(page.locator("#playback h2")).to_have_text("Recorded: tutorial")
    page.get_by_role("link", name="Leave the recording").click()
    expect(page.locator("#sentence")).to_have_text("Ready: nothing has run yet.")
    page.keyboard.press("7")
    page.wait_for_url("**/lesson")
    page.get_by_role("link", name="step 160", exact=True).first.click()
    expect(page.locator("#playback output")).to_contain_text(re.compile("step 16[0-9]$"))
    page.get_by_role("link", name="What to look at: the lesson").click()
    page.get_by_role("link", name="中文").click()
    expect(page.locator("h1")).to_have_text("课程：三个管理器，五个请求")


@pytest.mark.parametrize(("theme", "path"), [("light", "/lesson?lang=zh"), ("dark", "/lesson")])
def test_it_fits_every_window_and_can_be_read(server: LiveServer, quiet: OpenPage, theme: str, path: str) -> None:
    page = quiet(theme=theme)
    page.goto(server.url + path)
    assert page.evaluate(f"({PROBES.strip()}).faint(4.5)") == []
    for width in (320, 600, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(f"({PROBES.strip()}).overflow()") <= 0, f"{width} px"
