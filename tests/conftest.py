"""Fixtures for every room: one browser for the whole session, since Playwright runs only once a thread."""

from __future__ import annotations

from chromium import browser

__all__ = ["browser"]
