"""The pages' scripts, run by node: the reducer, the words and what they fold, without a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from app.supervisor import scenarios
from app.supervisor.run_life import parameters
from scheduler.settings import SchedulerSettings

STATIC = Path(__file__).parents[2] / "static" / "js"


def test_reducer_words_and_spans_keep_their_laws() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("NO NODE: the reducer of the live page is not tested here")
    files = sorted(str(path) for path in Path(__file__).parent.glob("*_test.mjs"))
    done = subprocess.run([node, "--test", *files], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", scenarios.names())
def test_the_load_page_has_a_field_for_all_that_the_link_to_run_again_asks_for(name: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("NO NODE: the link of a report to the Load page is not tested here")
    shown = scenarios.describe(name)
    run = {"scenario": name, "parameters": parameters(shown), "seed": 7}
    code = f"import {{ again }} from '{STATIC / 'api.js'}'; console.log(again(...JSON.parse(process.argv[1])))"
    said = json.dumps([run, {"max_num_seqs": 8, **shown["scheduler"]}])
    command = [node, "--input-type=module", "-e", code, said]
    link = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    live = {f"scheduler.{spec.name}" for spec in fields(SchedulerSettings) if spec.metadata["live"]}
    known = {"scenario", "seed", *live, *(spec["name"] for spec in shown["parameters"])}
    asked = set(parse_qs(link.removeprefix("?"), keep_blank_values=True))
    assert asked <= known and {"scenario", "seed", "scheduler.max_num_seqs"} <= asked
