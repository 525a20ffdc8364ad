"""The headless Chromium that all browser tests share, or a loud skip; and the whole one, window, toolbar and all, for the walk.

The shell is the same engine without a window round it, whose toolbar is made of pages today: a page costs less than half.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SHELL = shutil.which("chromium-headless-shell") or CHROMIUM


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """It runs only once a thread."""
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """One for the session: the system's, else the one that Playwright installed."""
    yield from launched(playwright, SHELL)


@pytest.fixture(scope="module")
def whole_browser(playwright: Playwright) -> Iterator[Browser]:
    """As a person starts it, but that nobody sees its window."""
    yield from launched(playwright, CHROMIUM)


def launched(playwright: Playwright, path: str | None) -> Iterator[Browser]:
    """The browser at `path` until the caller is done with it."""
    try:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
    except Exception as error:  # Playwright has one error class for "not installed" and for everything else
        pytest.skip(f"NO BROWSER: the pages are not tested here ({error})")
    yield started
    started.close()
