"""The timeline's arithmetic, run by node: places of bars, sums of areas, the window on the axis. No browser."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def test_bars_areas_and_windows_keep_their_laws() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("NO NODE: the timeline's arithmetic is not tested here")
    file = Path(__file__).with_name("timeline_test.mjs")
    done = subprocess.run([node, "--test", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
