"""Records kept and moved as a user does it, beside a server that works: export, import, check, backup, prune."""

from __future__ import annotations

import json
import threading
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import LiveServer, wait_until
from records import WALL, Records, make_bench, some_requests

from app.cli import main
from app.store import migrate

HARDWARE = ("--runner", "simulated", "--hardware", "h100-llama-3.1-8b-tp1-bf16")
EQUAL = ("reconciliation", "percentiles", "waits", "steps", "throughput", "goodput", "timeline", "verdict", "fairness", "waste")
LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
OLD = "req_" + "".join(LETTERS[(WALL // 10**6) << 80 >> shift & 31] for shift in range(125, -1, -5))  # made at WALL


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server over records that are months old, on simulated hardware."""
    directory: Path = tmp_path_factory.mktemp("keeping") / "data"
    directory.mkdir()
    old = Records(directory / "batchscope.db")
    try:
        asked = some_requests(3)
        for n, request in enumerate(asked):
            request.id = f"{OLD[:-1]}{n}"
        old.play(make_bench(5), asked)
    finally:
        old.close()
    with LiveServer(directory, *HARDWARE) as running:
        assert main(["load", "tutorial", "--data-dir", str(directory)]) == 0
        yield running


@pytest.fixture
def say(server: LiveServer, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """What a command answers as JSON, and its exit code."""

    def run(*words: str, code: int = 0, directory: Path = server.data_dir) -> Any:
        capsys.readouterr()
        assert main([*words, "--json", "--data-dir", str(directory)]) == code
        said = capsys.readouterr()
        return json.loads(said.out) if code == 0 else said.err

    return run


def test_a_run_goes_out_and_comes_in_elsewhere_and_here(server: LiveServer, say: Callable[..., Any], tmp_path: Path) -> None:
    run, file = say("runs")["items"][0]["id"], tmp_path / "run.gz"
    told = say("runs", "export", run, "-o", str(file))
    assert told["rows"]["requests"] == 5 and told["bytes"] == file.stat().st_size
    assert "is there already" in say("runs", "export", run, "-o", str(file), code=1)
    assert say("runs", "import", str(file))["outcome"] == "already here"
    assert say("runs", "import", str(file), "--as", "beside")["outcome"] == "imported"
    assert say("runs", "import", str(file), directory=tmp_path / "fresh")["outcome"] == "imported"
    reports = [say("report", name) for name in (run, "beside")] + [say("report", run, directory=tmp_path / "fresh")]
    longest = [report["fairness"]["starvation"].pop("longest_id") for report in reports]
    assert longest[0] == longest[2] != longest[1], "under another id of the run its requests have others, too"
    for name in EQUAL:
        assert reports[0][name] == reports[1][name] == reports[2][name], name
    mine, theirs = (server.get(f"/api/segments?run={name}")["segments"] for name in (run, "beside"))
    assert mine["phase"] == theirs["phase"] and len(mine["t0"]) > 5
    assert server.get(f"/api/compare?runs={run},beside")["equal"]
    assert not list((server.data_dir / "simulations").glob("*"))


def test_another_run_of_the_same_id_is_not_written_over(say: Callable[..., Any], tmp_path: Path) -> None:
    run, file = say("runs")["items"][0]["id"], tmp_path / "run.gz"
    say("runs", "export", run, "-o", str(file))
    say("runs", "import", str(file), directory=tmp_path / "fresh")
    changed = Records(tmp_path / "fresh" / "batchscope.db")
    try:
        changed.sql("UPDATE requests SET output_tokens = 1 WHERE rowid = 1")
    finally:
        changed.close()
    assert "with other content" in say("runs", "import", str(file), code=1, directory=tmp_path / "fresh")
    assert "no bundle" in say("runs", "import", __file__, code=1)
    assert "no such file" in say("runs", "import", str(tmp_path / "nothing.gz"), code=1)
    assert "not --url" in say("runs", "import", str(file), "--url", "http://127.0.0.1:1", code=2)


def test_a_backup_and_a_check_disturb_nobody(server: LiveServer, say: Callable[..., Any], tmp_path: Path) -> None:
    over, answered, failures = threading.Event(), list[Any](), list[BaseException]()
    body = {"model": server.get("/v1/models")["data"][0]["id"], "prompt": "x", "max_tokens": 3, "ignore_eos": True}

    def ask() -> None:
        try:
            while not over.is_set():
                answered.append(server.post("/v1/completions", body))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(answered) >= 8 or failures)
        before = len(answered)
        copy = say("db", "backup", str(tmp_path / "copy.db"))
        found = say("db", "check")
        told = say("db", "prune", "--larger-than", "1TB")
        wait_until(lambda: len(answered) > before + 8 or failures)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert failures == [] and all(answer["choices"][0]["finish_reason"] == "length" for answer in answered)
    assert copy["sound"] and copy["requests"] >= before and found["sound"] and told["removed"] == {}
    assert migrate.current(f"sqlite:///{tmp_path / 'copy.db'}") == migrate.head()


def test_what_is_old_goes_and_its_page_says_so(server: LiveServer, say: Callable[..., Any]) -> None:
    assert server.get(f"/api/requests/{OLD}")["state"] == "finished"
    told = say("db", "prune", "--older-than", "30d", "--dry-run")
    assert told["removed"]["requests"] == 3 and server.get(f"/api/requests/{OLD}")
    assert "is not understood" in say("db", "prune", "--older-than", "30", code=2)
    assert "say what may go" in say("db", "prune", code=2)
    assert "stop the server" in say("db", "prune", "--vacuum", code=1)
    gone = say("db", "prune", "--older-than", "30d")
    assert gone["removed"]["requests"] == 3 and gone["done"]
    with pytest.raises(urllib.error.HTTPError) as caught:
        server.get(f"/api/requests/{OLD}")
    with caught.value as answer:
        error = json.load(answer)["error"]
    assert (answer.status, error["code"]) == (404, "request_purged") and "purged by an operator on 20" in error["message"]
    assert say("runs")["items"], "the run of today stays"
