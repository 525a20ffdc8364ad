"""The live page of a server that has records and has served nobody since it started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from live_server import LiveServer
from playwright.sync_api import Page, expect
from simulated_records import RUN, Recorded

from app.supervisor.scenarios import describe
from scheduler.simulate import Ask


def test_it_says_that_nothing_ran_since_this_start_and_leads_to_the_last_run(
    tmp_path: Path, open_page: Callable[..., Page]
) -> None:
    Recorded(tmp_path / "batchscope.db", [Ask(0, 60, 20)]).close()
    with LiveServer(tmp_path, "--runner", "null") as server:
        page = open_page()
        page.goto(server.url)
        expect(page.locator("#sentence")).to_have_text("Ready: nothing has run since this start.")
        expect(page.locator("#try .intro")).to_contain_text("Nothing has run since this start; the records have the last run")
        expect(page.locator("#before a")).to_have_attribute("href", f"/runs/{RUN}")
        asked = describe("first_look")
        expect(page.locator("#try")).to_contain_text(
            f"for {asked['duration_s']:g} s; then at most {asked['drain_s']:g} s for the last answers"
        )
