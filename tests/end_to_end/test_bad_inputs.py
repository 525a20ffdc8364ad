"""The whole list of bad inputs against real servers, and after each entry: nothing is left of it.

In both sizes of the KV cache, with and without keys, on simulated hardware; once more on the real model in float32. After each
entry a fixed prompt gives the tokens that it gave before, the engine is the same process, no row is open, nothing runs, and
the log has no traceback.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sqlite3
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from live_server import ROOT, LiveServer, wait_until

KEY = "sk-test"
LIST = Path(__file__).parents[3] / "shared" / "run_bad_inputs.py"
WEIGHTS = ROOT / "data" / "models" / "SmolLM2-135M-Instruct" / "model.safetensors"
MOST_GROWTH_KB = 64 << 10
PROMPT = [5, 17, 93, 211, 40, 8, 120, 65]

pytestmark = pytest.mark.skipif(not LIST.exists(), reason=f"LOUD SKIP: the list of bad inputs is not at {LIST}")


class KeyedServer(LiveServer):
    """Sends a key, which a server without keys does not look at."""

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=60) as response:
            return json.load(response)

    def _ready(self) -> bool:
        told = self.data_dir / "server.json"
        if not told.exists() or not told.read_text():
            return False
        self.url = json.loads(told.read_text())["url"]
        try:
            return bool(self.ask("/readyz")["status"] == "ready")
        except OSError:
            return False

    def engine_pid(self) -> int:
        """The one child of the web process that is an engine."""
        found = []
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                parent = re.search(r"^PPid:\s+(\d+)", status.read_text(), re.MULTILINE)
                if parent and int(parent[1]) == self.process.pid:
                    command = (status.parent / "cmdline").read_bytes()
                    found += [int(status.parent.name)] if b"scheduler.engine" in command else []
            except (OSError, UnicodeDecodeError):
                continue  # it has ended meanwhile
        (pid,) = found
        return pid

    def resident_kb(self) -> int:
        match = re.search(r"^VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text(), re.MULTILINE)
        assert match
        return int(match[1])

    def rows(self, condition: str = "1=1") -> int:
        path = self.data_dir / "batchscope.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return int(database.execute(f"SELECT count(*) FROM requests WHERE {condition}").fetchone()[0])


@contextmanager
def sender(server: KeyedServer, monkeypatch: pytest.MonkeyPatch, *flags: str) -> Iterator[tuple[Any, list[Any], list[bytes]]]:
    """The list's own sender, told the true sizes: the module, what applies, and (filled later) answers without headers."""
    card = server.ask("/v1/models")["data"][0]
    sizes = ["--model", card["id"], "--ctx", str(card["max_model_len"]), "--vocab", str(card["vocab_size"])]
    monkeypatch.setattr(sys, "argv", [str(LIST), server.url, *sizes, "--kv", str(card["kv_cache_tokens"]), *flags])
    spec = importlib.util.spec_from_file_location("run_bad_inputs", LIST)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    lacking: list[bytes] = []
    module.send_http = _noting_http(module.send_http, lacking)  # type: ignore[attr-defined]
    module.send_raw = _noting_raw(module.send_raw, lacking)  # type: ignore[attr-defined]
    entries = json.loads(LIST.with_name("bad_inputs.json").read_text("utf-8"))["inputs"]
    applicable = [entry for entry in entries if not set(entry.get("requires", [])) - module.HAVE]  # type: ignore[attr-defined]
    assert len(applicable) > 80
    yield module, applicable, lacking


def _noting_http(send: Callable[[Any], Any], lacking: list[bytes]) -> Callable[[Any], Any]:
    def noting(entry: Any) -> Any:
        status, headers, data = send(entry)
        if not headers.get("x-request-id", "").startswith("req_") or "content-security-policy" not in headers:
            lacking.append(entry["id"].encode())
        return status, headers, data

    return noting


def _noting_raw(send: Callable[[Any], Any], lacking: list[bytes]) -> Callable[[Any], Any]:
    def noting(entry: Any) -> Any:
        status, count, data = send(entry)
        if data.count(b"X-Request-Id: req_") != count or data.count(b"Content-Security-Policy: ") != count:
            lacking.append(entry["id"].encode())
        return status, count, data

    return noting


def run_list(server: KeyedServer, monkeypatch: pytest.MonkeyPatch, *flags: str) -> int:
    """Every applicable entry, and what must hold after each; how many there were."""

    def greedy() -> Any:
        body = {"model": model, "prompt": PROMPT, "max_tokens": 2, "temperature": 0, "seed": 7, "ignore_eos": True}
        answered = server.ask("/v1/completions", body)
        return answered["choices"], answered["usage"]["completion_tokens"]

    def at_rest() -> bool:
        gauges = server.ask("/api/live")["gauges"]
        idle = gauges["waiting"] == gauges["running"] == 0 and gauges["blocks_free"] == gauges["blocks_total"]
        return idle and server.rows("state != 'finished'") == 0

    model = server.ask("/v1/models")["data"][0]["id"]
    expected, pid = greedy(), server.engine_pid()
    wrong: list[str] = []
    with sender(server, monkeypatch, *flags) as (module, entries, lacking):
        assert len(entries) > 50, "too few of the list apply"
        before = server.resident_kb()
        for entry in entries:
            rows = server.rows()
            bad, status, _ = module.judge(entry)
            if status is not None and status >= 500:
                bad.append(f"answered {status}")
            if status is not None and 400 <= status < 500 and server.rows() - rows > 1:
                bad.append("a refused request left more than one row")
            if lacking:
                bad.append(f"an answer lacks its id or headers: {lacking.pop()!r}")
            wait_until(at_rest, 10, f"nothing to be left of {entry['id']}")
            bad += [] if greedy() == expected else ["a fixed prompt gives other tokens"]
            bad += [] if server.engine_pid() == pid else ["the engine is another process"]
            wrong += [f"{entry['id']}: {what}" for what in bad]
        assert wrong == []
        assert server.resident_kb() - before < MOST_GROWTH_KB
    log = server.text_of_log()
    assert "Traceback" not in log and KEY not in log and "sk-wrong" not in log
    return len(entries)


@pytest.mark.parametrize("auth", [False, True])
@pytest.mark.parametrize("kv", [1024, 6144])
def test_every_bad_input_gets_its_answer_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kv: int, auth: bool
) -> None:
    arguments = ["--runner", "simulated", "--set", "max_model_len=2048", "--set", f"kv_cache_tokens={kv}"]
    if auth:
        (tmp_path / "keys").write_text(f"tester {KEY}\n")
        arguments += ["--api-key-file", str(tmp_path / "keys")]
    with KeyedServer(tmp_path / "data", *arguments) as server:
        tried = run_list(server, monkeypatch, *["--auth"] * auth, *["--small-kv"] * (kv < 2048))
    print(f"{tried} bad inputs, KV of {kv} tokens, {'with' if auth else 'without'} keys")


@pytest.mark.skipif(not WEIGHTS.exists(), reason=f"LOUD SKIP: the real model has not been converted yet ({WEIGHTS})")
def test_the_real_model_says_the_same_after_every_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "models").symlink_to(WEIGHTS.parents[1])
    arguments = ["--device", "cpu", "--dtype", "float32", "--set", "kv_cache_tokens=6144"]
    with KeyedServer(tmp_path / "data", *arguments, ready_s=180) as server:
        tried = run_list(server, monkeypatch)
    print(f"{tried} bad inputs on the real model")
