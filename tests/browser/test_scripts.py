"""The page's scripts, run by node: the reducer and the words, without a browser."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def test_reducer_words_and_spans_keep_their_laws() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("NO NODE: the reducer of the live page is not tested here")
    file = Path(__file__).with_name("store_test.mjs")
    done = subprocess.run([node, "--test", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
