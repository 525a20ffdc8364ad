"""A report's file opens from a disk with the network blocked, draws its charts, and shows what others wrote as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from builders import make_request
from played_run import add_lines, line
from playwright.sync_api import Browser, Page
from records import WALL, Records, make_bench

from app.report_file.page import report_html
from app.store import runs
from app.store.runs import NewRun

ATTACK = "</script></style></title><img src=x onerror=alert(1)>"


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    made = Records(tmp_path / "records.sqlite3")
    yield made
    made.close()


def report(records: Records, count: int, text: str = "plain") -> dict[str, Any]:
    """Of a run of so many requests; its name, tenants and errors say `text`."""
    new = NewRun("one", WALL - 1, started_wall=WALL - 1, scenario=text, name=text, seed=1)
    records.job(partial(runs.create, run=new))
    requests = [make_request(f"r{n}", tenant=text) for n in range(count)]
    records.play(make_bench(2, max_num_seqs=2), requests, run="one", settings={"max_num_seqs": 2})
    lines = [line(f"c-r{n}", n, tenant=text) for n in range(count - 1)]
    failed = {"status": "http_error", "error": text, "first_ms": None, "last_ms": None} if count > 1 else {}
    add_lines(records, "one", [*lines, line(f"c-r{count - 1}", count * 300, tenant=text, **failed)])
    records.job(partial(runs.change, run_id="one", status="finished", ended_wall=WALL + 10**12))
    return records.queries.report("one")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Nothing can be fetched, and whoever tries is written down."""
    context = browser.new_context(offline=True)
    opened = context.new_page()
    opened.route(re.compile("^(?!file:).*"), lambda route: route.abort())
    yield opened
    context.close()


def opened(page: Page, made: dict[str, Any], folder: Path) -> dict[str, list[str]]:
    """The file on the page; what went wrong meanwhile, by kind."""
    file = folder / "report.html"
    file.write_bytes(report_html(made))
    said: dict[str, list[str]] = {"dialogs": [], "requests": [], "errors": []}
    page.on("dialog", lambda dialog: (said["dialogs"].append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: said["requests"].append(request.url))
    page.on("console", lambda message: said["errors"].append(message.text))
    page.goto(file.as_uri(), wait_until="load")
    said["requests"].remove(file.as_uri())
    return said


def test_it_opens_from_a_disk_without_a_network_and_draws_its_charts(records: Records, page: Page, tmp_path: Path) -> None:
    said = opened(page, report(records, 8), tmp_path)
    assert said == {"dialogs": [], "requests": [], "errors": []}
    drawn = page.eval_on_selector_all(
        "polyline.line, rect.bar", "all => all.map(each => each.getBBox()).filter(box => box.width + box.height > 5).length"
    )
    assert drawn >= 3, "the rates, the depth, the waits"
    text = (tmp_path / "report.html").read_text()
    links = re.findall(r"(?:src|href|url|@import|action)\s*[=(]", text)
    assert links == [] and set(re.findall(r"https?://[^\s\"'<]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "<script" not in text


def test_a_run_of_one_request_shows_its_numbers(records: Records, page: Page, tmp_path: Path) -> None:
    made = report(records, 1)
    said = opened(page, made, tmp_path)
    assert said["errors"] == [] and page.locator("circle.dot, polyline.line").count() >= 1
    row = page.locator("tr", has=page.get_by_role("rowheader", name="client: TTFT", exact=True)).inner_text()
    assert row.split("\t")[1] == "1" and "(40)" in row, row


def test_what_others_wrote_is_text(records: Records, page: Page, tmp_path: Path) -> None:
    said = opened(page, report(records, 8, ATTACK), tmp_path)
    assert said == {"dialogs": [], "requests": [], "errors": []}
    assert page.locator("img").count() == 0 and page.locator("h1").inner_text().startswith(ATTACK)
    shown = page.locator("body").inner_text()
    assert shown.count(ATTACK) >= 4, "its name, its scenario, its tenant, its error"
    assert page.title().startswith(ATTACK)


def test_it_follows_the_system_and_prints_light(records: Records, page: Page, tmp_path: Path) -> None:
    opened(page, report(records, 8), tmp_path)
    found = []
    for media in ({"color_scheme": "light"}, {"color_scheme": "dark"}, {"color_scheme": "dark", "media": "print"}):
        page.emulate_media(**media)  # type: ignore[arg-type]
        found.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert found == ["rgb(255, 255, 255)", "rgb(16, 20, 24)", "rgb(255, 255, 255)"]
