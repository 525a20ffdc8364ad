"""Pictures of the pages under load, for the documentation: `python tests/browser/screenshots.py DIRECTORY [URL]`.

The server at URL plays first_look, or one of its own on the simulated runner where no URL is given. Pictures are taken
while at least eight wait, then of the report.
"""

from __future__ import annotations

import json
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from chromium import CHROMIUM  # noqa: E402
from live_server import LiveServer, wait_until  # noqa: E402
from playwright.sync_api import Browser, sync_playwright  # noqa: E402

FORMS = (("light", 1280), ("dark", 1280), ("light", 600))
LIMITS = ("max_num_seqs=16", "max_num_batched_tokens=256", "kv_cache_tokens=6144", "max_model_len=2048")


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def start(url: str) -> str:
    """Begin first_look; its id, once eight wait."""
    asked = urllib.request.Request(f"{url}/api/runs", b'{"scenario": "first_look"}', {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        run = str(json.load(answer)["id"])
    wait_until(lambda: get(f"{url}/api/live")["gauges"]["waiting"] >= 8, 40, "eight to wait")
    return run


def take(browser: Browser, url: str, name: str, folder: Path) -> None:
    for theme, width in FORMS:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(url)
        page.wait_for_timeout(3000 if name in ("live", "playback") else 1000)
        page.screenshot(path=folder / f"{name}-{theme}-{width}.png", full_page=True)
        context.close()


def shoot(folder: Path, url: str) -> None:
    """Load the server at `url` and take every picture."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        run = start(url)
        take(browser, url, "live", folder)
        take(browser, f"{url}/load", "load", folder)
        take(browser, f"{url}/requests?run={run}&sort=-ttft_ms", "requests", folder)
        wait_until(lambda: get(f"{url}/api/runs/{run}")["status"] in ("finished", "failed"), 120, "the run to end")
        take(browser, f"{url}/runs/{run}", "run", folder)
        take(browser, f"{url}/compare?runs={run}&split=30s", "compare", folder)
        take(browser, f"{url}/runs", "runs", folder)
        slowest = get(f"{url}/api/requests?sort=-ttft_ms&limit=1")["items"][0]["id"]
        take(browser, f"{url}/requests/{slowest}", "request", folder)
        take(browser, f"{url}/timeline?run={run}&from=20&to=26", "timeline", folder)
        take(browser, f"{url}/sql?q=SELECT+tenant,+count(*),+avg(ttft_ms)+FROM+requests+GROUP+BY+tenant", "sql", folder)
        take(browser, f"{url}/policy", "policy", folder)
        take(browser, f"{url}/lesson", "lesson", folder)
        take(browser, f"{url}/?recorded=tutorial&step=160", "playback", folder)
        browser.close()


def main(folder: Path, url: str | None = None) -> None:
    if url is not None:
        shoot(folder, url)
        return
    limits = [part for limit in LIMITS for part in ("--set", limit)]
    model = ("--runner", "simulated", "--hardware", "h100-llama-3.1-8b-tp1-bf16")
    with tempfile.TemporaryDirectory() as data, LiveServer(Path(data), *model, *limits) as server:
        shoot(folder, server.url)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
