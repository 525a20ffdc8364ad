"""The pages' scripts, run by node: the reducer, the words and what they fold, without a browser."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def test_reducer_words_and_spans_keep_their_laws() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("NO NODE: the reducer of the live page is not tested here")
    files = sorted(str(path) for path in Path(__file__).parent.glob("*_test.mjs"))
    done = subprocess.run([node, "--test", *files], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
