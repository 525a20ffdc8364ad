"""The records in a browser: one search for box, link and facets; places of mistakes; a brush; rows that stand still; SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from live_server import LiveServer, wait_until
from playwright.sync_api import Page, expect

from app.store.fields import RANGES
from app.store.filters import SORTS

EVIL = '=</script><img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """24 answered requests of two tenants, one of them with a name that would run."""
    with LiveServer(tmp_path_factory.mktemp("requests") / "data", "--runner", "null") as running:
        for n in range(24):
            ask(running, n)
        wait_until(lambda: running.get("/api/requests?state=finished&limit=1")["total"] == 24, 10, "24 rows")
        yield running


def ask(server: LiveServer, n: int) -> None:
    prompt, tenant = [1] * (3 + n), EVIL if n % 4 == 0 else "b"
    server.post("/v1/completions", {"model": "null", "prompt": prompt, "max_tokens": 1 + n % 5, "tenant": tenant})


def params(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def brush(page: Page, start: float, end: float) -> None:
    """Drag over a part of the histogram."""
    plot = page.locator("#spread canvas").bounding_box()
    assert plot is not None
    page.mouse.move(plot["x"] + plot["width"] * start, plot["y"] + 50)
    page.mouse.down()
    page.mouse.move(plot["x"] + plot["width"] * end, plot["y"] + 50)
    page.mouse.up()


def test_search_facets_and_brush_are_one_question_in_the_url(server: LiveServer, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{server.url}/requests")
    total, box = page.locator("#total"), page.locator("#q")
    expect(total).to_have_text("24 requests")
    page.keyboard.press("/")
    expect(box).to_be_focused()
    box.fill("tenant:b outpt>2")
    box.press("Enter")
    expect(page.locator("#mistake p")).to_have_text("at character 10: unknown field 'outpt': did you mean output?")
    assert page.locator("#mistake pre").inner_text().split("\n")[1].index("▲") == 9
    box.fill("output>2")
    box.press("Enter")
    expect(page.locator("#mistake")).to_be_hidden()
    wanted = server.get("/api/requests?above_output_tokens=2&limit=100")
    expect(total).to_have_text(f"{wanted['total']} requests")
    page.locator('[data-field="tenant"] a', has_text="b").click()
    expect(box).to_have_value("output>2 tenant:b")
    both = server.get("/api/requests?above_output_tokens=2&tenant=b&limit=100")
    expect(total).to_have_text(f"{both['total']} requests")
    page.locator("#measure").select_option("prompt_tokens")
    expect(page.locator("#percentiles")).not_to_contain_text("ms")
    expect(page.locator("#percentiles")).to_contain_text(f"n {both['total']}")
    expect(page.locator("#percentiles .few").first).to_contain_text("few")
    brush(page, 0.6, 0.8)
    expect(box).to_have_value(re.compile(r"prompt<=[\d.]+ prompt>=[\d.]+"))
    low, high = float(params(page)["min_prompt_tokens"]), float(params(page)["max_prompt_tokens"])
    inside = [row for row in both["items"] if low <= row["prompt_tokens"] <= high]
    assert 0 < len(inside) < both["total"]
    expect(page.locator("#rows tbody tr")).to_have_count(len(inside))
    link, shown = page.url, page.locator("#rows tbody").inner_text()
    page.go_back()
    expect(total).to_have_text(f"{both['total']} requests")
    other = open_page()
    other.goto(link)
    expect(other.locator("#rows tbody tr")).to_have_count(len(inside))
    assert other.locator("#rows tbody").inner_text() == shown, "a fresh profile sees what the link's sender saw"


def test_unknown_keys_warn_and_the_rest_applies_with_columns_order_and_names_as_text(
    server: LiveServer, open_page: Callable[..., Page]
) -> None:
    page = open_page(600)
    page.goto(
        f"{server.url}/requests?colour=red&tenant={quote(EVIL)}&sort=-prompt_tokens&cols=id,tenant,prompt_tokens,nope&limit=4"
    )
    expect(page.locator("#warning")).to_have_text("Not known, and left out: colour, column nope. The rest applies.")
    expect(page.locator("#total")).to_have_text("6 requests")
    assert page.locator("#rows th").all_inner_texts() == ["Request", "Tenant", "Prompt ↓"]
    assert page.locator("#rows tbody tr td:nth-child(2)").all_inner_texts() == [EVIL] * 4
    assert page.locator("#rows tbody tr td:nth-child(3)").all_inner_texts() == ["23", "19", "15", "11"]
    assert page.locator("main img").count() == 0 and page.title() == "Requests · Batchscope"
    page.locator("#next").click()
    expect(page.locator("#rows tbody tr td:nth-child(3)")).to_have_text(["7", "3"])
    expect(page.locator("#next")).to_be_disabled()
    page.locator("#previous").click()
    expect(page.locator("#rows tbody tr")).to_have_count(4)
    with page.expect_download() as download:
        page.locator("#csv").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == 1 + 6 and all("'=</script>" in line for line in lines[1:])
    page.locator("#columns summary").click()
    page.get_by_label("Priority").check()
    expect(page.locator("#rows th")).to_have_text(["Request", "Tenant", "Prompt ↓", "Priority"])
    assert page.evaluate("document.documentElement.scrollWidth") == 600


def test_rows_stand_still_while_others_arrive_and_keys_walk_them(server: LiveServer, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{server.url}/requests?tenant=b&limit=5")
    rows = page.locator("#rows tbody tr")
    expect(rows).to_have_count(5)
    before = page.locator("#rows tbody").inner_text()
    ask(server, 1)
    expect(page.locator("#new")).to_have_text("1 new · show", timeout=10_000)
    assert page.locator("#rows tbody").inner_text() == before
    page.locator("#new").click()
    expect(rows.nth(1).locator("td").first).to_have_text(before.split("\t")[0])
    expect(page.locator("#new")).to_be_hidden()
    wanted = server.get("/api/requests?tenant=b&limit=5")["items"][1]["id"]
    for key in ("]", "]", "]", "["):
        page.keyboard.press(key)
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{server.url}/requests/{wanted}")


def test_a_view_is_kept_in_the_browser_and_every_sort_key_and_name_is_offered(
    server: LiveServer, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    columns = "received,id,queue_ms,ttft_ms,tpot_ms,e2e_ms,prompt_tokens,output_tokens,preemptions,priority,cached_tokens"
    page.goto(f"{server.url}/requests?q=output%3E2&cols={columns}")
    expect(page.locator("#rows th a")).to_have_count(len(SORTS))
    links = [link.get_attribute("href") or "" for link in page.locator("#rows th a").all()]
    assert {parse_qs(urlsplit(link).query)["sort"][0].lstrip("-") for link in links} == set(SORTS)
    page.get_by_label("Name of this view").fill("long answers")
    page.get_by_role("button", name="Save view").click()
    kept = page.url
    page.goto(f"{server.url}/requests")
    page.get_by_label("Saved views").select_option("long answers")
    expect(page.locator("#q")).to_have_value("output>2")
    assert page.url == kept
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_label("Saved views")).to_be_disabled()
    page.locator("summary", has_text="What can be asked").click()
    words = page.locator("#how").inner_text()
    assert all(name.removeprefix("wait_").removesuffix("_ms").removesuffix("_tokens") in words for name in RANGES)


def test_the_question_as_sql_gives_the_same_ids_and_a_wrong_one_its_reason(
    server: LiveServer, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    page.goto(f"{server.url}/requests?q=output%3E2%20tenant%3Ab&sort=-prompt_tokens")
    expect(page.locator("#rows tbody tr").first).to_be_visible()
    page.locator("#sql").click()
    expect(page.locator("#took")).to_contain_text("rows in")
    wanted: list[Any] = server.get("/api/requests?above_output_tokens=2&tenant=b&sort=-prompt_tokens&limit=100")["items"]
    assert page.locator("#result tbody tr td:first-child").all_inner_texts() == [row["id"] for row in wanted]
    page.locator("#statement").fill("DELETE FROM requests")
    page.locator("#statement").press("Control+Enter")
    expect(page.locator("#mistake p")).to_contain_text("not allowed here: only SELECT")
    page.locator("#statement").fill("SELECT DISTINCT tenant AS '=t' FROM requests ORDER BY 1")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#result tbody tr")).to_have_text([EVIL, "b"])
    assert params(page)["q"].startswith("SELECT DISTINCT") and page.locator("main img").count() == 0
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    assert Path(download.value.path()).read_text().splitlines()[0] == "'=t"
