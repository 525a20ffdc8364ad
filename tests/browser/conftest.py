"""Pages that fail on any script error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from case_records import CaseServer, case_server
from playwright.sync_api import Browser, Page


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """open_page(width=1280, theme="light") → Page; at the end no script may have failed and no policy been broken."""
    yield from pages_of(browser)


@pytest.fixture
def open_whole_page(whole_browser: Browser) -> Iterator[Callable[..., Page]]:
    """The same in the whole browser."""
    yield from pages_of(whole_browser)


def pages_of(browser: Browser) -> Iterator[Callable[..., Page]]:
    contexts, problems = [], list[str]()

    def make(width: int = 1280, theme: str = "light") -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text) if "Content Security Policy" in line.text else None)
        return page

    yield make
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture(scope="package")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaseServer]:
    """One server with hostile records for all test_case_*; what a test adds, it adds beside the two runs."""
    with case_server(tmp_path_factory.mktemp("cases")) as started:
        yield started


@pytest.fixture(scope="module")
def stage() -> Iterator[str]:
    """The URL of a stage at rest."""
    command = [sys.executable, str(Path(__file__).with_name("stage_server.py")), "--rest"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()
