"""Fixtures for every room: one browser for the whole session, since Playwright runs only once a thread; and what tests say.

What a test says (how many lives a state machine lived, which files grow long) is printed at the end of the session, also
when the test ran in a worker process of pytest-xdist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from chromium import browser, playwright, whole_browser
from hypothesis import HealthCheck, settings

__all__ = ["browser", "playwright", "whole_browser"]
# How long drawing an example takes says something of the machine, not of the law.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")
SAID = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Say a line at the end of the session."""
    return request.config.stash.setdefault(SAID, []).append


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands over what its tests said."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["said"] = session.config.stash.get(SAID, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """The controller takes it."""
    node.config.stash.setdefault(SAID, []).extend(getattr(node, "workeroutput", {}).get("said", []))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """All that was said."""
    for line in config.stash.get(SAID, []):
        terminalreporter.write_line(line)
