"""The timeline page over one recorded run: what is drawn is what the records hold, and what is seen is in the link."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import LiveServer
from playwright.sync_api import Page, expect
from simulated_records import RUN, SECOND, Recorded

from scheduler.simulate import Ask

OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A run in which requests queue and are preempted, simulated into the records before the server starts."""
    data = tmp_path_factory.mktemp("timeline")
    asks = [Ask(n * SECOND // 40, 60 + 10 * (n % 9), 60 + n % 13, tenant="ab"[n % 2]) for n in range(50)]
    Recorded(data / "batchscope.db", asks, max_num_seqs=4, max_model_len=512, kv_cache_tokens=512).close()
    with LiveServer(data, "--runner", "null") as started:
        yield started


def opened(page: Page, server: LiveServer, query: str = "") -> Page:
    page.goto(f"{server.url}/timeline{query}")
    expect(page.locator("#drawing")).to_be_visible()
    expect(page.locator("#area dd").first).to_be_visible()
    return page


def fact(page: Page, card: str, name: str) -> str:
    return str(
        page.locator(f"{card} .facts div", has=page.locator("dt", has_text=re.compile(f"^{name}$"))).locator("dd").inner_text()
    )


def bars(server: LiveServer, **params: str) -> list[dict[str, Any]]:
    query = "&".join(f"{name}={value}" for name, value in ({"run": RUN} | params).items())
    columns = server.get(f"/api/segments?{query}")["segments"]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def click_bar(page: Page, server: LiveServer, bar: dict[str, Any], times: int = 1) -> None:
    """Press the middle of a bar, in a view of the whole run by slot."""
    box = page.locator("#bars canvas").bounding_box()
    assert box is not None
    last = max(each["t1"] for each in bars(server))
    plot = box["width"] - 64 - 12
    x = box["x"] + 64 + plot * (bar["t0"] + bar["t1"]) / 2 / last
    page.mouse.click(x, box["y"] + 22 * (bar["lane"] + 0.5), click_count=times)


def test_without_a_run_it_is_the_newest_and_the_whole_of_it_adds_up(server: LiveServer, open_page: OpenPage) -> None:
    page = opened(open_page(), server)
    steps = server.get(f"/api/steps?run={RUN}")["steps"]
    assert fact(page, "#area", "Requests").split()[0] == "50"
    assert fact(page, "#area", "Σ prefill tokens") == f"{sum(steps['prefill']):,}"
    assert fact(page, "#area", "Σ decode tokens") == f"{sum(steps['decode']):,}"
    assert fact(page, "#area", "Steps") == f"{len(steps['seq']):,}"
    assert page.locator("#run").input_value() == RUN and page.url.endswith("/timeline")
    assert page.locator("#bars canvas").get_attribute("aria-label").startswith(f"{len(bars(server))} bars in 4 rows")  # type: ignore[union-attr]
    page.get_by_role("button", name="Show as table").click()
    expect(page.locator(".astable tbody tr")).to_have_count(50)
    with page.expect_download() as told:
        page.locator("#export").click()
    assert json.loads(Path(told.value.path()).read_text())["otherData"] == {"run": RUN}


def test_a_bar_is_chosen_walked_from_and_found_again_by_its_link(server: LiveServer, open_page: OpenPage) -> None:
    page = opened(open_page(), server)
    bar = max((each for each in bars(server) if each["phase"] == "decode"), key=lambda each: each["t1"] - each["t0"])
    click_bar(page, server, bar)
    link = page.locator("#chosen .facts a")
    expect(link).to_have_attribute("href", f"/requests/{bar['id']}")
    assert fact(page, "#chosen", "Phase") == "decode"
    page.keyboard.press(",")
    expect(page.locator("#chosen dd").nth(1)).to_have_text("prefill")
    page.keyboard.press(".")
    expect(page.locator("#chosen dd").nth(1)).to_have_text("decode")
    for key in ("f", "r", "m", "p"):
        page.keyboard.press(key)
    expect(page).to_have_url(re.compile(r"from=.*sel=req.*area=.*marks=.*pins="))
    expect(page.locator("#area h2")).to_have_text("Selected area")
    window, words, area = (page.locator(name).inner_text() for name in ("#window", "#chosen .body", "#area .body"))
    fresh = opened(open_page(), server, page.url[page.url.index("?") :])
    expect(fresh.locator("#window")).to_have_text(window)
    assert fresh.locator("#chosen .body").inner_text() == words and fresh.locator("#area .body").inner_text() == area
    page.keyboard.press("Escape")
    expect(page.locator("#area h2")).to_have_text("In view")
    page.go_back()
    expect(page.locator("#area h2")).to_have_text("Selected area")
    expect(link).to_have_attribute("href", f"/requests/{bar['id']}")


def test_a_step_is_opened_by_click_key_or_link_and_back_closes_it(server: LiveServer, open_page: OpenPage) -> None:
    found = server.get(f"/api/steps?run={RUN}")["steps"]
    i = len(found["t"]) // 2
    page = opened(open_page(), server)
    box = page.locator("#bands canvas").bounding_box()
    assert box is not None
    end = server.get(f"/api/segments?run={RUN}")
    last = max(max(end["segments"]["t1"]), found["t"][-1])
    at = box["x"] + 64 + (box["width"] - 76) * (found["t"][i] - found["ms"][i] / 2) / last
    page.mouse.click(at, box["y"] + 120)
    dialog = page.locator("dialog#step")
    expect(dialog).to_contain_text("Decode")
    shown = re.search(r"step=(-?\d+)\.(\d+)", page.url)
    assert shown is not None and abs(found["seq"].index(int(shown[2])) - i) <= 1 and int(shown[1]) == found["boot"][i]
    page.go_back()
    expect(dialog).to_be_hidden()
    page.mouse.move(at, box["y"] + 120)
    page.keyboard.press("o")
    expect(page).to_have_url(re.compile(f"step={shown[1]}.{shown[2]}$"))
    expect(dialog).to_contain_text("Decode")
    said = dialog.inner_text()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page).to_have_url(re.compile(f"/timeline\\?run={RUN}$"))
    fresh = open_page()
    fresh.goto(f"{server.url}/timeline?run={RUN}&step={shown[1]}.{shown[2]}")
    expect(fresh.locator("dialog#step")).to_contain_text("Decode")
    assert fresh.locator("dialog#step").inner_text() == said
    expect(fresh.locator("#window")).to_contain_text(" s – ")
    first, until = map(float, re.findall(r"(-?[\d.]+) s", fresh.locator("#window").inner_text())[:2])
    middle = found["t"][found["seq"].index(int(shown[2]))] / 1000
    assert until - first < 2.01 < 0.9 * last / 1000 and first <= middle <= until
    fresh.keyboard.press("Escape")
    fresh.keyboard.press("d")
    fresh.wait_for_url(re.compile("from="))
    assert "step=" not in fresh.url


def test_a_request_is_found_by_a_part_of_its_id_and_enter_goes_to_the_next(server: LiveServer, open_page: OpenPage) -> None:
    page = opened(open_page(), server)
    slots = [bar for bar in bars(server) if bar["slot"] >= 0]
    ids = list(dict.fromkeys(bar["id"].split("/")[0] for bar in slots))
    wanted = ids[len(ids) // 2]
    page.keyboard.press("/")
    page.keyboard.type(wanted[-3:])
    alike = [each for each in ids if wanted[-3:] in each]
    for expected in (*alike, alike[0]):
        page.keyboard.press("Enter")
        expect(page.locator("#chosen .facts a")).to_have_text(expected)
        expect(page.locator("#found")).to_contain_text(re.compile(f"^found: .*{expected[-8:]}$"))
    expect(page).to_have_url(re.compile(f"sel=req:{alike[0]}"))
    page.fill("#find", "nobody")
    page.keyboard.press("Enter")
    expect(page.locator("#chosen .body")).to_contain_text("Request nobody has no bar here.")
    expect(page.locator("#found")).to_have_text("none found")
    page.locator("#find").press("End")
    page.keyboard.type("x")
    expect(page.locator("#found")).to_have_text("")


@pytest.mark.parametrize("deed", ["rows", "zoom", "find"])
def test_whatever_is_done_on_a_page_opened_without_a_run_its_address_names_the_one_shown(
    server: LiveServer, open_page: OpenPage, deed: str
) -> None:
    page = opened(open_page(), server)
    assert page.url == f"{server.url}/timeline"
    if deed == "rows":
        page.click("[data-rows=tenant]")
    elif deed == "zoom":
        page.keyboard.press("d")
    else:
        page.fill("#find", "nobody")
        page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/timeline\\?run={RUN}&"))
    if deed != "zoom":
        page.go_back()
        expect(page).to_have_url(f"{server.url}/timeline")
        expect(page.locator("#run")).to_have_value(RUN)


def test_what_was_changed_is_marked_over_the_steps(server: LiveServer, open_page: OpenPage) -> None:
    page = open_page()
    start = server.get(f"/api/segments?run={RUN}")["start_ms"]
    at = "1970-01-01T00:00:00.500000Z" if start == 0 else f"{start}"
    changes = [{"name": "policy", "from": "fcfs", "to": "vtc"}, {"name": "max_num_seqs", "from": 4, "to": 8}]
    item = {"boot": 1, "seq": 5, "version": 2, "run": None, "at": at, "changes": changes}
    page.route("**/api/scheduler/changes?*", lambda route: route.fulfill(json={"items": [item], "truncated": False}))
    opened(page, server)
    expect(page.locator("#bands canvas")).to_have_attribute(
        "aria-label", re.compile("; at 0.5 s policy fcfs → vtc, max_num_seqs 4 → 8$")
    )


def test_keys_and_drags_move_the_window_and_a_dragged_area_is_summed(server: LiveServer, open_page: OpenPage) -> None:
    page = opened(open_page(), server)
    box = page.locator("#bars canvas").bounding_box()
    assert box is not None
    whole = page.locator("#window").inner_text()
    page.keyboard.press(".")
    first = next(bar for bar in bars(server) if bar["slot"] >= 0)
    expect(page.locator("#chosen .facts a")).to_have_text(first["id"])
    page.keyboard.press("Escape")
    page.mouse.move(box["x"] + 300, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 30, steps=3)
    page.mouse.up()
    expect(page.locator("#area h2")).to_have_text("Selected area")
    last = max(bar["t1"] for bar in bars(server))
    second = [(x - 64) / (box["width"] - 76) * last for x in (300, 500)]
    alive = {bar["id"] for bar in bars(server) if bar["t0"] <= second[1] and bar["t1"] >= second[0]}
    expect(page.locator("#area dd").first).to_contain_text(f"{len(alive)} ")
    page.keyboard.press("w")
    expect(page.locator("#window")).not_to_have_text(whole)
    zoomed = page.locator("#window").inner_text()
    page.keyboard.press("d")
    expect(page.locator("#window")).not_to_have_text(zoomed)
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    expect(page.locator("#window")).to_have_text(whole)


def test_every_way_of_rows_fits_a_narrow_dark_page_and_says_where_data_is(server: LiveServer, open_page: OpenPage) -> None:
    page = opened(open_page(width=600, theme="dark"), server, "?rows=tenant")
    for name, rows in (("Requests", "request"), ("Slots", "slot"), ("Tenants", "tenant")):
        page.get_by_role("button", name=name).click()
        expect(page.locator("#bars canvas")).to_have_attribute("aria-label", re.compile(f"by {rows}"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 600
    page.goto(f"{server.url}/timeline?from=500&to=600")
    expect(page.locator("#message")).to_contain_text("No steps between 500 s and 600 s; data exists from 0.0 s")
    page.get_by_role("button", name="Show it").click()
    expect(page.locator("#drawing")).to_be_visible()
    page.locator("#run").select_option("live")
    expect(page.locator("#message")).to_contain_text("Nothing ran in the engine's last minute.")
    page.goto(f"{server.url}/timeline?run=nobody")
    expect(page.locator("#message")).to_contain_text("no run 'nobody'")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def test_more_bars_than_asked_for_are_said_in_words(server: LiveServer, open_page: OpenPage) -> None:
    page = open_page()
    page.route("**/api/segments?*", lambda route: route.continue_(url=re.sub(r"max=\d+", "max=40", route.request.url)))
    opened(page, server)
    expect(page.locator("#chart .note")).to_contain_text(f"showing the longest 40 of {len(bars(server))} bars: zoom in")
    assert fact(page, "#area", "Requests").startswith("≥ ")


def test_a_run_that_goes_on_is_followed_and_its_open_bars_reach_the_present(server: LiveServer, open_page: OpenPage) -> None:
    found, steps = server.get(f"/api/segments?run={RUN}"), server.get(f"/api/steps?run={RUN}")
    middle = found["segments"]["t1"][-1] / 2
    bar = next(bar for bar in bars(server) if bar["phase"] == "decode" and bar["t0"] < middle < bar["t1"])
    begun = [i for i, t0 in enumerate(found["segments"]["t0"]) if t0 < middle]
    cut = {name: [column[i] for i in begun] for name, column in found["segments"].items()}
    cut["t1"] = [None if t1 > middle else t1 for t1 in cut["t1"]]
    ended = sum(t <= middle for t in steps["steps"]["t"])
    early = {name: column[:ended] for name, column in steps["steps"].items() if name != "by_reason"}
    early["by_reason"] = {name: column[:ended] for name, column in steps["steps"]["by_reason"].items()}
    runs = server.get("/api/runs?limit=50")
    runs["items"][0]["status"] = "running"
    page = open_page()
    page.route("**/api/segments?*", lambda route: route.fulfill(json=found | {"segments": cut}))
    page.route("**/api/steps?*", lambda route: route.fulfill(json=steps | {"steps": early}))
    page.route("**/api/runs?*", lambda route: route.fulfill(json=runs))
    opened(page, server, f"?sel=req:{bar['id']}@2")
    assert fact(page, "#chosen", "Then") == "still going"
    lasted = steps["steps"]["t"][ended - 1] - bar["t0"]
    assert fact(page, "#chosen", "Lasted") == f"{lasted:,.0f} ms"
    expect(page.locator("#bands canvas")).to_have_attribute("aria-label", re.compile(rf"^{ended} steps"))
    page.unroute("**/api/segments?*")
    page.unroute("**/api/steps?*")
    total = len(steps["steps"]["seq"])
    expect(page.locator("#bands canvas")).to_have_attribute("aria-label", re.compile(rf"^{total:,} steps"))
    expect(page.locator("#chosen .facts")).to_contain_text("finished: length")
    expect(page.locator("#window")).to_contain_text(f"{max(t1 for t1 in found['segments']['t1']) / 1000:.3f} s (")
