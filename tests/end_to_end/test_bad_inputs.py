"""The whole list of bad inputs against the real server, with a small and a large KV cache, with and without keys."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from live_server import LiveServer

KEY = "sk-test"
LIST = Path(__file__).parents[3] / "shared" / "run_bad_inputs.py"


class KeyedServer(LiveServer):
    """Asks for readiness with a key, which a server without keys does not look at."""

    def _ready(self) -> bool:
        told = self.data_dir / "server.json"
        if not told.exists() or not told.read_text():
            return False
        self.url = json.loads(told.read_text())["url"]
        request = urllib.request.Request(self.url + "/readyz", headers={"Authorization": f"Bearer {KEY}"})
        try:
            with urllib.request.urlopen(request, timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False


@pytest.mark.skipif(not LIST.exists(), reason=f"LOUD SKIP: the list of bad inputs is not at {LIST}")
@pytest.mark.parametrize("auth", [False, True])
@pytest.mark.parametrize("kv", [1024, 6144])
def test_every_applicable_bad_input_gets_its_promised_answer(tmp_path: Path, kv: int, auth: bool) -> None:
    arguments = ["--runner", "null", "--set", f"kv_cache_tokens={kv}"]
    if auth:
        (tmp_path / "keys").write_text(f"tester {KEY}\n")
        arguments += ["--api-key-file", str(tmp_path / "keys")]
    with KeyedServer(tmp_path / "data", *arguments) as server:
        asked = [sys.executable, str(LIST), server.url, "--model", "null", "--ctx", "2048", "--vocab", "259", "--kv", str(kv)]
        asked += ["--auth"] * auth + ["--small-kv"] * (kv < 2048)
        done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout
        print(done.stdout)
        assert "Traceback" not in server.text_of_log()
