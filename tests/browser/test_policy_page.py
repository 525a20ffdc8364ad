"""The policy page: an edit stays while the settings are asked for again; records go only after a dry run and a yes."""

from __future__ import annotations

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
