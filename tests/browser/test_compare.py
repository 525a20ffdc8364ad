"""Runs are picked, held against one another and split, by keyboard and by link; what cannot be compared is said in words."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import LiveServer, wait_until
from playwright.sync_api import Page, Route, expect
from simulated_records import RUN, Recorded

from app.store.adopt import simulation_path
from scheduler.simulate import Ask

PROBES = Path(__file__).with_name("page_probes.js").read_text("utf-8")
OTHER = "run_" + "1" * 26
ASKS = [Ask(n * 10**9 // 60, 30 + 50 * (n % 9), 2 + n % 13, tenant="ab"[n % 2]) for n in range(240)]
OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Two simulated runs of the same 240 requests, first come first served and shortest first."""
    data = tmp_path_factory.mktemp("compare")
    with LiveServer(data, "--runner", "null") as started:
        for run, policy in ((RUN, "fcfs"), (OTHER, "sjf")):
            path = simulation_path(data, run)
            path.parent.mkdir(exist_ok=True)
            recorded = Recorded(data / policy, ASKS, run, policy=policy, max_num_seqs=2)
            recorded.close()
            shutil.move(recorded.path, path)
            started.post("/api/runs/adopt", {"run": run})
        yield started


def probe(page: Page, name: str, argument: object = None) -> Any:
    return page.evaluate(f"(argument) => ({PROBES.strip()}).{name}(argument)", argument)


def figure(page: Page, label: str) -> list[str]:
    """The cells of a row of the figures."""
    return (
        page.locator("#figures tr", has=page.get_by_role("rowheader", name=label, exact=True)).locator("td").all_inner_texts()
    )


def test_runs_are_picked_by_keyboard_and_the_link_shows_the_same_to_whoever_opens_it(
    server: LiveServer, open_page: OpenPage
) -> None:
    page = open_page()
    page.goto(f"{server.url}/runs")
    compare = page.locator("#compare")
    expect(page.locator("#picked")).to_have_text("pick 2 to 5 runs")
    assert compare.get_attribute("href") is None
    expect(page.locator("#runs .tag", has_text="simulated")).to_have_count(2)
    for run in (RUN, OTHER):
        page.locator(f'[data-key="pick {run}"]').press("Space")
    expect(page.locator(f'[data-key="pick {OTHER}"]')).to_be_focused()
    assert page.url.endswith(f"picked={RUN},{OTHER}")
    page.reload()
    expect(compare).to_have_text("Compare 2")
    compare.press("Enter")
    expect(page).to_have_url(f"{server.url}/compare?runs={RUN},{OTHER}")
    expect(page.locator("#differing tbody tr", has_text="policy")).to_contain_text("fcfs")
    expect(page.locator("#differing dl")).to_be_hidden()
    said = server.get(f"/api/compare?runs={RUN},{OTHER}&lines=1")
    known = {row["name"]: row for row in said["metrics"]}["percentiles.client.ttft_ms.p50"]
    assert known["reading"][1] == "better" and figure(page, "TTFT p50")[4] == "✓ better"
    assert page.locator("#differing summary").inner_text() == f"{len(said['equal'])} equal"
    low, high = known["relative_interval"][1]
    assert -1 <= low < high < 0 and figure(page, "TTFT p50")[3] == f"[−{-100 * low:.0f}, −{-100 * high:.0f}] %"
    assert figure(page, "Attainment, %")[2].endswith(" points") and figure(page, "Attainment, %")[3].endswith("] points")
    waits = page.locator("#waits tbody tr").all_inner_texts()
    assert len(waits) == len(said["waits"]) + 1 and "slots" in waits[0]
    labels = page.locator("canvas").evaluate_all("(all) => all.map((canvas) => canvas.getAttribute('aria-label'))")
    assert len(labels) == 7 and all("A " in label and "B " in label for label in labels) and "n 240" in labels[0]
    stranger = open_page()
    stranger.goto(page.url)
    expect(stranger.locator("#figures tbody tr").first).to_be_visible()
    assert stranger.locator("#figures").inner_text() == page.locator("#figures").inner_text()
    page.locator("#swap").click()
    expect(page).to_have_url(f"{server.url}/compare?runs={OTHER},{RUN}")
    expect(page.locator("#differing tbody tr", has_text="policy").locator("td").nth(1)).to_have_text("sjf")
    assert figure(page, "TTFT p50")[4] == "✗ worse"
    page.go_back()
    expect(page.locator("#differing tbody tr", has_text="policy").locator("td").nth(1)).to_have_text("fcfs")
    link = page.locator("#figures tr", has=page.get_by_role("rowheader", name="TTFT p95", exact=True)).locator("a").first
    assert link.get_attribute("title") == f"{known_p95(said)} ms; the list is by the server’s clock"
    link.click()
    expect(page).to_have_url(f"{server.url}/requests?run={RUN}&min_ttft_ms={int(known_p95(said))}&sort=-ttft_ms")


def known_p95(said: dict[str, Any]) -> float:
    return float({row["name"]: row for row in said["metrics"]}["percentiles.client.ttft_ms.p95"]["values"][0])


def test_both_sides_of_one_run_are_shown_and_told_apart_without_colour(server: LiveServer, open_page: OpenPage) -> None:
    for theme, width in (("light", 1920), ("dark", 320), ("light", 600)):
        page = open_page(width=width, theme=theme)
        page.goto(f"{server.url}/compare?runs={RUN}&split=2.5s&tail=1")
        expect(page.locator("#sides")).to_contain_text("Before and after 2.50 s")
        expect(page.locator("#sides")).to_contain_text("What waited at the change was handed on")
        assert probe(page, "overflow") == 0 and probe(page, "faint", 4.5) == []
        assert min(probe(page, "ink", ["prefill", "r-kv_blocks", "r-slots", "kv", "preempted"])) >= 3
        keys = page.locator("#cdfs .legend path:first-child").evaluate_all(
            "(all) => all.map((path) => path.getAttribute('stroke-dasharray'))"
        )
        assert len(set(keys)) == 2
        expect(page.locator("#tail")).to_have_attribute("aria-pressed", "true")
        page.locator("#courses [data-as-table]").click()
        expect(page.locator("#courses .astable tbody tr").first).to_contain_text("before")
        href = page.locator("#counts td a").nth(1).get_attribute("href") or ""
        assert href.startswith(f"/requests?run={RUN}&") and "since=" in href
    sent = server.get(f"/api/compare?runs={RUN}&split=2.5s")["runs"][1]["reconciliation"]["sent"]
    assert server.get("/api/" + href.lstrip("/"))["total"] == sent > 0


def test_what_is_missing_or_too_much_is_said_with_a_way_on(server: LiveServer, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{server.url}/compare?runs={RUN}&colour=red")
    expect(page.locator("#sides h2")).to_contain_text("Pick a second run")
    expect(page.locator("#warning")).to_have_text("This page knows no colour; the rest of the link is applied.")
    page.locator("#sides li a").click()
    expect(page).to_have_url(f"{server.url}/compare?runs={RUN},{OTHER}")
    page.go_back()
    page.get_by_label("Seconds since it began").fill("1.5")
    page.get_by_role("button", name="Split").click()
    expect(page).to_have_url(f"{server.url}/compare?runs={RUN}&split=1.5s")
    expect(page.locator("#counts")).to_contain_text("after")
    page.goto(f"{server.url}/compare?runs=a,b,c,d,e,f")
    expect(page.locator("#sides")).to_contain_text("At most 5 runs can be compared at once; this link names 6.")
    expect(page.locator("#figures")).to_be_hidden()
    page.goto(f"{server.url}/compare?runs={RUN},nobody")
    expect(page.get_by_role("alert")).to_contain_text("no run 'nobody'")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    newest, oldest = [run["id"] for run in server.get("/api/runs")["items"]]
    page.goto(f"{server.url}/runs/{newest}")
    page.get_by_role("link", name="Compare with previous").click()
    expect(page).to_have_url(f"{server.url}/compare?runs={oldest},{newest}")


def test_while_figures_are_made_the_page_says_whose_and_how_far_and_can_end_it(server: LiveServer, open_page: OpenPage) -> None:
    page, stopped, making = open_page(), list[str](), True
    far = {"run": OTHER, "what": "client_requests", "rows": 1200, "of": 4000, "elapsed_s": 3.2, "ready": 1, "runs": 2}

    def compare(route: Route) -> None:
        far["rows"] += 100
        if making:
            route.fulfill(status=202, json={"computing": far})
        else:
            route.continue_()

    def stop(route: Route) -> None:
        stopped.append(route.request.url)
        route.fulfill(json={"stopped": True})

    page.route("**/api/compare?*wait=0*", compare)
    page.route("**/report/stop", stop)
    page.goto(f"{server.url}/compare?runs={RUN},{OTHER}")
    expect(page.locator("#sides")).to_contain_text(f"Making the figures of {OTHER}: client requests, 1,")
    expect(page.locator("#sides")).to_contain_text("of 4,000 rows, 3.2 s · 1 of 2 runs are ready")
    expect(page.locator("#figures")).to_be_hidden()
    button, bar = page.get_by_role("button", name="Stop"), page.get_by_role("progressbar", name="rows read")
    button.focus()
    before = bar.get_attribute("value") or ""
    expect(bar).not_to_have_attribute("value", before)
    expect(button).to_be_focused()
    button.press("Enter")
    wait_until(lambda: stopped, 5, "the stop")
    assert stopped == [f"{server.url}/api/runs/{OTHER}/report/stop"]
    making = False
    expect(page.locator("#figures tbody tr").first).to_be_visible()
    expect(page.locator("progress")).to_have_count(0)


def test_who_leaves_a_comparison_that_is_being_made_is_not_drawn_it_later(server: LiveServer, open_page: OpenPage) -> None:
    page, asked = open_page(), list[str]()
    far = {"run": OTHER, "what": "queued", "rows": 0, "of": 4000, "elapsed_s": 0.1, "ready": 0, "runs": 2}

    def compare(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=202, json={"computing": far})

    page.goto(f"{server.url}/compare")
    page.route("**/api/compare?*", compare)
    page.evaluate(
        "(url) => { history.pushState(null, '', url); dispatchEvent(new PopStateEvent('popstate')); }",
        f"/compare?runs={RUN},{OTHER}",
    )
    expect(page.locator("progress")).to_be_visible()
    page.go_back()
    expect(page.locator("#sides h2")).to_contain_text("Pick a first run")
    known = len(asked)
    page.wait_for_timeout(1500)  # longer than the pause between two questions
    assert len(asked) == known
    expect(page.locator("progress")).to_have_count(0)


def test_filters_and_order_of_the_runs_are_in_the_link(server: LiveServer, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{server.url}/runs?policy=sjf")
    expect(page.locator("#total")).to_have_text("1 of 2 runs")
    page.locator("#filter-policy").select_option("")
    page.get_by_role("button", name="Policy").press("Enter")
    expect(page.locator('th[aria-sort="descending"]')).to_have_text("Policy ↓")
    assert page.url == f"{server.url}/runs?sort=-policy"
    assert page.locator("#runs tbody tr td:nth-child(6)").all_inner_texts() == ["sjf", "fcfs"]
    page.goto(f"{server.url}/runs?verdict=nothing&sort=colour")
    expect(page.locator("#runs")).to_contain_text("No run is like that.")
    expect(page.locator("#warning")).to_contain_text("sort=colour")
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("#runs tbody tr")).to_have_count(2)
