"""The policy page: an edit stays while the settings are asked for again; records go only after a dry run and a yes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from live_server import LiveServer, wait_until
from playwright.sync_api import Dialog, Page, Route, expect

OpenPage = Callable[..., Page]
WHEN = "2026-11-01T00:00:00.000000Z"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("policy"), "--runner", "null", "--retain-days", "30") as started:
        yield started


def test_an_edit_begun_while_the_settings_are_asked_for_again_stays(server: LiveServer, open_page: OpenPage) -> None:
    page, asked = open_page(), list[Route]()

    def answer_the_first(route: Route) -> None:
        asked.append(route)
        if len(asked) == 1:
            route.continue_()

    page.route("**/api/scheduler", answer_the_first)
    page.goto(f"{server.url}/policy")
    expect(page.locator("select[name=policy]")).to_have_value("fcfs")
    wait_until(lambda: page.title() and len(asked) > 1, 20, "them to be asked for again, once it is known what serves")
    page.select_option("select[name=policy]", "vtc")
    with page.expect_response("**/api/scheduler"):
        asked[1].continue_()
    expect(page.locator("#flags")).to_contain_text("--scheduling-policy fcfs")
    expect(page.locator("select[name=policy]")).to_have_value("vtc")
    expect(page.locator("#diff")).to_contain_text("policy fcfs → vtc")
    expect(page.locator("#apply")).to_be_enabled()


def test_a_preset_is_a_link_that_shows_what_it_would_change_and_changes_nothing(
    server: LiveServer, open_page: OpenPage
) -> None:
    page = open_page()
    page.goto(f"{server.url}/policy")
    page.get_by_role("link", name="static batches").click()
    diff = page.locator("#diff")
    expect(diff).to_have_text(
        "enable_chunked_prefill true → false, batching continuous → static, allocation on_demand → reserve"
    )
    expect(page.locator("#apply")).to_be_enabled()
    expect(page).to_have_url(
        re.compile(r"enable_chunked_prefill=false&scheduler.batching=static&scheduler.allocation=reserve$")
    )
    page.select_option("select[name=policy]", "vtc")
    page.fill("[name='policy_params.weight.*']", "a=3")
    page.fill("[name='policy_params.w_output']", "4")
    fresh = open_page()
    fresh.goto(page.url + "&scheduler.nonsense=1&scheduler.admission=maybe")
    expect(fresh.locator("#warning")).to_contain_text("no scheduler.nonsense=1, scheduler.admission=maybe; the rest")
    expect(fresh.locator("#diff")).to_have_text(diff.inner_text())
    assert "policy fcfs → vtc" in diff.inner_text() and "weight.a=3" in diff.inner_text()
    assert server.get("/api/scheduler")["version"] == 1, "nothing was asked for"
    fresh.click("#revert")
    expect(fresh.locator("#diff")).to_have_text("Nothing is changed.")
    expect(fresh).to_have_url(f"{server.url}/policy")


def test_the_chosen_preset_and_what_it_changes_are_marked_and_revert_takes_them_back_with_a_refusal(
    server: LiveServer, open_page: OpenPage
) -> None:
    page = open_page()
    refusal = {"error": {"message": "not with these", "type": "invalid_request_error", "code": "no", "param": None}}
    page.route(
        "**/api/scheduler",
        lambda route: route.fulfill(status=400, json=refusal) if route.request.method == "PATCH" else route.continue_(),
    )
    page.goto(f"{server.url}/policy")
    page.get_by_role("link", name="static batches").click()
    marked, edited, note = page.locator("a.tag[aria-current]"), page.locator(".field.edited"), page.locator("#note")
    expect(marked).to_have_text("static batches")
    assert edited.locator("[name]").evaluate_all("all => all.map(({ name }) => name)") == [
        "enable_chunked_prefill",
        "batching",
        "allocation",
    ]
    page.select_option("select[name=policy]", "vtc")
    expect(marked).to_have_count(0)
    page.fill("[name='policy_params.w_output']", "4")
    expect(edited).to_have_count(5)
    page.click("#apply")
    expect(note).to_have_text("not with these")
    expect(note).to_have_class("error")
    page.click("#revert")
    expect(note).to_have_text("")
    expect(note).to_have_class("mut")
    expect(edited).to_have_count(0)
    expect(marked).to_have_count(0)


def test_a_preset_of_ones_own_holds_the_whole_form_and_fills_it_again(server: LiveServer, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{server.url}/policy")
    page.select_option("select[name=policy]", "vtc")
    page.fill("[name='policy_params.weight.*']", "a=3")
    page.fill("#presets input", "three for a")
    page.get_by_role("button", name="Save preset").click()
    expect(page.locator("#presets select")).to_have_value("three for a")
    page.click("#revert")
    expect(page.locator("#presets select")).to_have_value("")
    page.select_option("#presets select", "three for a")
    expect(page.locator("#diff")).to_have_text("policy fcfs → vtc, policy_params — → weight.a=3")
    expect(page.locator("#presets select")).to_have_value("three for a")


def test_what_was_changed_is_listed_from_what_to_what_as_soon_as_it_is_recorded(
    server: LiveServer, open_page: OpenPage
) -> None:
    page = open_page()
    page.goto(f"{server.url}/policy")
    expect(page.locator("#history .empty")).to_contain_text("Nothing was changed yet")
    page.fill("[name=max_num_seqs]", "9")
    page.click("#apply")
    expect(page.locator("#note")).to_have_text("applied")
    row = page.locator("#history tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("max_num_seqs 16 → 9")
    expect(page).to_have_url(f"{server.url}/policy")
    expect(row.locator("td").first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d\.\d{3}$"))
    server.post("/api/scheduler", {"max_num_seqs": 16}, method="PATCH")
    expect(row).to_have_count(2)
    expect(row.first).to_contain_text("max_num_seqs 9 → 16")


def test_records_go_only_after_a_dry_run_and_a_yes_and_piece_by_piece(server: LiveServer, open_page: OpenPage) -> None:
    page, asked, questions = open_page(), list[Any](), list[str]()

    def answer(dialog: Dialog) -> None:
        questions.append(dialog.message)
        dialog.dismiss() if len(questions) == 1 else dialog.accept()

    def removed(route: Route) -> None:
        asked.append(route.request.post_data_json)
        foretold = {"removed": {"requests": 5}, "removed_bytes": 2_500_000, "bytes": 10_000_000, "oldest_kept": WHEN}
        piece = {
            "removed": {"requests": 2 + asked[-1].get("since", "").count(WHEN)},
            "reached": WHEN,
            "bytes": 1,
            "done": len(asked) > 2,
        }
        route.fulfill(json=foretold if asked[-1].get("dry_run") else piece)

    page.on("dialog", answer)
    page.goto(f"{server.url}/policy")
    expect(page.locator("#kept")).to_have_text("30 days; what is beyond goes once an hour")
    assert server.get("/api/db")["retain_days"] == 30
    expect(page.locator("#kept-size")).to_contain_text("kB in use")
    expect(page.locator("#kept-since")).to_have_text("—")
    page.click("#foretell")
    expect(page.locator("#kept-note")).to_contain_text("Say what may go")
    page.fill("#keeping [name=days]", "7")
    page.click("#foretell")
    expect(page.locator("#kept-note")).to_have_text("Nothing would go; no request would be left.")
    expect(page.locator("#prune")).to_be_hidden()
    page.route("**/api/db/prune", removed)
    page.click("#foretell")
    expect(page.locator("#kept-note")).to_contain_text("Would remove 5 requests, about 2.50 MB of 10.0 MB; the oldest")
    page.click("#prune")
    assert len(asked) == 1, "asked, and told to keep them"
    page.click("#prune")
    expect(page.locator("#kept-note")).to_have_text("Removed 5 requests.")
    rule = {"keep_runs": False, "older_than_s": 7 * 86_400}
    assert asked == [rule | {"dry_run": True}, rule, rule | {"since": WHEN}] and len(questions) == 2
    expect(page.locator("#prune")).to_be_hidden()


def test_what_recording_costs_is_that_of_the_live_figures(server: LiveServer, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{server.url}/policy")
    expect(page.locator("#cost-step")).to_have_text("no step yet")
    server.post("/v1/completions", {"model": "null", "prompt": "a b c", "max_tokens": 30, "ignore_eos": True})
    gauges = wait_until(lambda: (g := server.get("/api/live")["gauges"])["observe_us_step"] and g, 10, "a step")
    expect(page.locator("#cost-step")).to_have_text(re.compile(r"^[\d.,]+ µs$"))
    shown = float(page.locator("#cost-step").inner_text().split()[0].replace(",", ""))
    assert shown == pytest.approx(gauges["observe_us_step"], rel=0.01)
    expect(page.locator("#cost-share")).to_contain_text("% of")
