"""The headless Chromium that all browser tests share, or a loud skip."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for the session: the system's, else the one that Playwright installed."""
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        except Exception as error:  # Playwright has one error class for "not installed" and for everything else
            pytest.skip(f"NO BROWSER: the pages are not tested here ({error})")
        yield started
        started.close()
