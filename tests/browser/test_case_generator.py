"""What the page says of a load run is what its process does: started, stopped, started again, killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from case_records import CaseServer
from live_server import wait_until
from playwright.sync_api import Page, expect

OpenPage = Callable[..., Page]
LOADS = (
    ("steady", {"users": 2, "duration_s": 60}),
    ("burst", {}),
    ("poisson", {"rate": 4, "duration_s": 60}),
    ("steady", {"users": 2, "duration_s": 60}),
)


def generators(cases: CaseServer) -> list[int]:
    """The pids of the server's load generators, the leaders of their sessions."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            after_name = (place / "stat").read_bytes().rpartition(b")")[2].split()
            if int(after_name[1]) == cases.live.process.pid and b"loadgen" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except (OSError, IndexError, ValueError):
            continue  # no process, or none any more
    return found


def start(cases: CaseServer, page: Page, scenario: str, values: dict[str, Any]) -> str:
    """A run that is seen on the page while its process lives; its id."""
    run = cases.live.post("/api/runs", {"scenario": scenario, "set": values})["id"]
    expect(page.locator("#progress .phase")).to_contain_text(f"{scenario} · running", timeout=15_000)
    assert len(generators(cases)) == 1
    assert page.locator("#progress [href^='/runs/']").get_attribute("href") == f"/runs/{run}"
    expect(page.locator("#start")).to_be_disabled()
    return str(run)


def test_start_and_stop_three_times_and_the_state_shown_is_that_of_the_process(cases: CaseServer, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{cases.url}/load")
    for scenario, values in LOADS[:3]:
        run = start(cases, page, scenario, values)
        page.click("#progress button.danger")
        expect(page.locator("#progress")).to_be_hidden(timeout=15_000)
        wait_until(lambda: generators(cases) == [], 2, "the generator to be gone once the page says so")
        assert cases.live.get(f"/api/runs/{run}")["status"] == "stopped"
        expect(page.locator("#start")).to_be_enabled()


def test_a_generator_that_is_killed_is_a_failed_run_that_says_how(cases: CaseServer, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{cases.url}/load")
    run = start(cases, page, *LOADS[3])
    os.kill(generators(cases)[0], signal.SIGKILL)
    expect(page.locator("#progress")).to_be_hidden(timeout=5_000)
    found = cases.live.get(f"/api/runs/{run}")
    assert found["status"] == "failed" and found["ended"] and "-9" in found["error"], found["error"]
    page.goto(f"{cases.url}/runs/{run}")
    expect(page.locator("#head")).to_contain_text(found["error"])
    expect(page.locator("#tags")).to_contain_text("failed")
    wait_until(lambda: not cases.live.get("/api/live")["gauges"]["running"], 20, "what it had asked for to end")
