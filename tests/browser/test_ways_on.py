"""A page says what comes next: of a run that is over its report, of a report the same load again, of a setting that is read at
the start the command, of a bound what it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from live_server import LiveServer, wait_until
from playwright.sync_api import Page, expect

OpenPage = Callable[..., Page]
ASKED = {"scenario": "poisson", "set": {"rate": 6, "duration_s": 1}, "seed": 7, "scheduler": {"max_num_seqs": 5}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("ways"), "--runner", "null", "--set", "kv_cache_tokens=8192") as started:
        yield started


def test_after_a_run_the_header_leads_to_its_report_and_that_to_the_same_load(server: LiveServer, open_page: OpenPage) -> None:
    page = open_page(width=900)
    page.goto(f"{server.url}/runs")
    expect(page.locator("#link .text")).to_have_text("live")
    expect(page.locator("#runchip")).to_be_hidden()
    run: dict[str, Any] = server.post("/api/runs", ASKED)
    expect(page.locator("#runchip")).to_have_text("poisson finished · report", timeout=30_000)
    told = page.locator("#runs tbody td", has_text="rate=6 duration_s=1 ")
    expect(told).to_contain_text("max_num_seqs=5")
    expect(told).to_contain_text("kv_cache_tokens=8192")
    assert told.evaluate("(cell) => cell.getBoundingClientRect().right") <= 900, "seen without scrolling"
    page.click("#runchip")
    expect(page).to_have_url(f"{server.url}/runs/{run['id']}")
    page.click("#again")
    expect(page.locator("[name=rate]")).to_have_value("6")
    expect(page.locator("#seed")).to_have_value("7")
    expect(page.locator("#scheduler [name=max_num_seqs]")).to_have_value("5")
    expect(page.locator("#scheduler .hint.wide")).to_contain_text("max_model_len, kv_cache_tokens")
    expect(page.locator("#warning")).to_be_hidden()


def test_a_run_is_run_again_with_its_policys_parameters_and_with_what_was_in_effect_then(
    server: LiveServer, open_page: OpenPage
) -> None:
    before = server.get("/api/scheduler")["settings"]["max_num_queued_reqs"]
    server.post("/api/scheduler", {"max_num_queued_reqs": 77}, method="PATCH")
    own = {"policy": "vtc", "policy_params": {"w_output": 1.5, "weight.a,b": 4}}
    run = server.post("/api/runs", ASKED | {"scheduler": own})["id"]
    wait_until(lambda: server.get(f"/api/runs/{run}")["ended"], 30, "the run to end")
    server.post("/api/scheduler", {"max_num_queued_reqs": before}, method="PATCH")
    page = open_page()
    page.goto(f"{server.url}/runs/{run}")
    expect(page.locator("#again")).to_have_attribute("href", re.compile("max_num_queued_reqs=77"))
    page.click("#again")
    for name, value in {
        "policy": "vtc",
        "policy_params.w_output": "1.5",
        "policy_params.w_input": "",
        "policy_params.weight.*": "a%2Cb=4",
        "max_num_queued_reqs": "77",
        "max_num_seqs": "",
    }.items():
        expect(page.locator(f'#scheduler [name="{name}"]')).to_have_value(value)
    page.click("#start")
    again = wait_until(lambda: (found := server.get("/api/runs")["items"][0])["id"] != run and found, 30, "it to be started")
    assert again["scheduler"] == own | {"max_num_queued_reqs": 77} and again["parameters"]["rate"] == 6
    wait_until(lambda: server.get(f"/api/runs/{again['id']}")["ended"], 30, "it to end")


def test_a_setting_that_is_read_at_the_start_gives_the_command(server: LiveServer, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{server.url}/policy")
    expect(page.locator("#restart")).to_be_hidden()
    page.fill("[name=kv_cache_tokens]", "4096")
    expect(page.locator("#command")).to_have_text("batchscope serve --set kv_cache_tokens=4096")
    expect(page.locator("#apply")).to_be_hidden()
    page.fill("[name=max_num_seqs]", "4")
    expect(page.locator("#apply")).to_be_enabled()
    page.click("#revert")
    expect(page.locator("#restart")).to_be_hidden()
    expect(page.locator("#apply")).to_be_disabled()


def test_a_bound_of_ttft_says_whom_it_leaves_out(server: LiveServer, open_page: OpenPage) -> None:
    page = open_page()
    page.route("**/api/requests?*lacks=ttft_ms*", lambda route: route.fulfill(json={"total": 6, "total_exact": True} | EMPTY))
    page.goto(f"{server.url}/requests?q=ttft%3E5s")
    page.locator("#lacking a", has_text="6 more have no first token").click()
    expect(page.locator("#q")).to_have_value("ttft:none")
    expect(page.locator("#lacking a")).to_have_count(0)


EMPTY: dict[str, Any] = {"items": [], "next_cursor": None, "asked": {"q": "ttft:none", "params": {"lacks": "ttft_ms"}}}
