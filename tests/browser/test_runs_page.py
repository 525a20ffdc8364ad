"""The list of runs: one is deleted by keyboard, after a question; and a page that is not there leads back."""

from __future__ import annotations

from pathlib import Path

from live_server import LiveServer
from playwright.sync_api import Browser, Dialog, expect


def test_a_run_is_deleted_by_keyboard_once_it_is_confirmed_and_a_wrong_address_leads_back(
    browser: Browser, tmp_path: Path
) -> None:
    with LiveServer(tmp_path / "d", "--runner", "null") as server:
        for name in ("first", "second"):
            run = server.post("/api/runs", {"external": True, "name": name})
            server.post(f"/api/runs/{run['id']}/stop", {})
        page = browser.new_page()
        asked: list[str] = []

        def answer(dialog: Dialog) -> None:
            asked.append(dialog.message)
            if len(asked) == 1:
                dialog.dismiss()
            else:
                dialog.accept()

        page.on("dialog", answer)
        page.goto(server.url + "/runs")
        button = page.get_by_role("button", name="Delete run second")
        button.press("Enter")
        expect(button).to_be_enabled()
        assert len(server.get("/api/runs")["items"]) == 2, "asked, and told to keep it"
        button.press("Enter")
        expect(button).to_have_count(0)
        expect(page.get_by_role("button", name="Delete run first")).to_be_focused()
        expect(page.locator("#total")).to_have_text("1 run")
        assert [run["name"] for run in server.get("/api/runs")["items"]] == ["first"] and "second" in asked[1]
        assert page.goto(server.url + "/nope").status == 404  # type: ignore[union-attr]
        page.get_by_role("link", name="To the live page").click()
        expect(page).to_have_url(server.url + "/")
        page.close()
