"""A server with a policy of the user's own: in the catalog, in force, in a run's record; named when it is wrong or raises."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from live_server import ROOT, LiveServer, wait_until

BRITTLE = """from scheduler.core.policies.base import Keyed, PolicyInfo


class Brittle(Keyed):
    def key_of(self, request, now):
        if request.kind == "bad":
            raise RuntimeError("no bad ones, please")
        return request.number


INFO = PolicyInfo("brittle", "breaks over a kind", (), "a test", "None.", lambda params, pool: Brittle())
"""
RAISED = "RuntimeError: no bad ones, please, raised by your policy 'brittle'"


def lacking(server: LiveServer) -> str:
    """What readiness lacks, as text."""
    try:
        with urllib.request.urlopen(server.url + "/readyz", timeout=10):
            return ""
    except urllib.error.HTTPError as error:
        with error:
            return str(json.load(error)["lacking"])


def ask(server: LiveServer, kind: str) -> Any:
    return server.post("/v1/completions", {"model": "null", "prompt": "Hello", "max_tokens": 3, "kind": kind})


def test_policy_of_ones_own_serves_is_recorded_and_is_named_when_it_raises(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "brittle.py").write_text(BRITTLE)
    with LiveServer(tmp_path / "data", "--runner", "null", "--policies", str(folder)) as server:
        policies = server.get("/api/scheduler")["policies"]
        [own] = [policy for policy in policies if policy["yours"]]
        assert (own["name"], own["file"]) == ("brittle", "brittle.py")
        assert own["sha256"] == sha256(BRITTLE.encode()).hexdigest()
        run = server.post("/api/runs", {"external": True, "name": "own", "scheduler": {"policy": "brittle"}})["id"]
        with closing(sqlite3.connect(tmp_path / "data" / "batchscope.db")) as records:
            [(versions,)] = records.execute("select versions from runs where id = ?", (run,)).fetchall()
        assert json.loads(versions)["policy"] == {name: own[name] for name in ("name", "file", "sha256")}
        assert ask(server, "good")["usage"]["completion_tokens"] == 3
        threading.Thread(target=fails, args=(server,), daemon=True).start()
        said = wait_until(lambda: RAISED in (text := lacking(server)) and text, 30, "readiness to name the policy")
        assert f"{folder / 'brittle.py'}, line 7" in said
        assert RAISED in server.text_of_log()


def fails(server: LiveServer) -> None:
    """What becomes of the request is for others to test; the server may be stopped before it says so."""
    try:
        ask(server, "bad")
    except OSError:
        return


def test_start_with_a_wrong_policy_ends_and_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("INFO = None\n")
    words = ["--runner", "null", "--port", "0", "--data-dir", str(tmp_path / "data"), "--policies", str(tmp_path)]
    ended = subprocess.run([sys.executable, "-m", "app.serve", *words], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert f"policies: {tmp_path / 'wrong.py'}: it defines no INFO = PolicyInfo(...)" in ended.stderr
