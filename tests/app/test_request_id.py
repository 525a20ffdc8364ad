"""Our ids, and the version that the code says it is."""

from __future__ import annotations

import re
import time
import tomllib
from pathlib import Path

from app.request_id import new_request_id
from app.version import VERSION


def test_ids_are_unique_and_sort_by_time() -> None:
    ids = [new_request_id() for _ in range(1000)]
    assert len(set(ids)) == 1000 and all(re.fullmatch(r"req_[0-9a-hjkmnp-tv-z]{26}", each) for each in ids)
    early = new_request_id()
    time.sleep(0.002)
    assert early < new_request_id()


def test_the_version_is_the_packages() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["version"] == VERSION
