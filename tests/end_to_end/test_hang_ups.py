"""The client hangs up: its blocks and its slot are free at the next event, its row says client_gone, nothing leaks."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_server import LiveServer, wait_until
from plain_client import Call, at_rest, gauges, has_ended, ledger, row_once, rows

LEAVING = int(os.environ.get("HANG_UPS", "300"))
BATCH = 30
HARDWARE = ("--runner", "simulated", "--hardware", "h100-llama-3.1-8b-tp1-bf16")
SMALL = ("--set", "max_num_seqs=2", "--set", "max_num_batched_tokens=64", "--set", "kv_cache_tokens=32768")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Two slots and short steps, so that queues and long prefills are cheap to have."""
    with LiveServer(tmp_path_factory.mktemp("hang-ups") / "d", *HARDWARE, *SMALL) as server:
        yield server


def freed(server: LiveServer) -> bool:
    now = gauges(server)
    return bool(now["running"] == now["waiting"] == 0 and now["blocks_free"] == now["blocks_total"])


def gone(server: LiveServer, name: str) -> None:
    row = row_once(server, name, has_ended)
    assert (row["finish"], row["detail"]) == ("abort", "client_gone")


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
def test_while_queued(server: LiveServer, streamed: bool, reset: bool) -> None:
    holders = [Call(server, f"h-{streamed}-{reset}-{n}", max_tokens=20_000) for n in range(2)]
    wait_until(lambda: gauges(server)["running"] == 2)
    left = Call(server, f"queued-{streamed}-{reset}", streamed=streamed)
    wait_until(lambda: gauges(server)["waiting"] == 1)
    left.hang_up(reset=reset)
    wait_until(lambda: gauges(server)["waiting"] == 0, 5)
    assert gauges(server)["running"] == 2
    for call in holders:
        call.hang_up(reset=reset)
    wait_until(lambda: freed(server), 5)
    gone(server, left.name)
    assert rows(server)[left.name]["ttft_ms"] is None


@pytest.mark.parametrize("streamed", [False, True])
def test_in_prefill(server: LiveServer, streamed: bool) -> None:
    left = Call(server, f"prefill-{streamed}", streamed=streamed, prompt="long " * 5000)
    wait_until(lambda: gauges(server)["running"] == 1)
    left.hang_up()
    wait_until(lambda: freed(server), 5)
    gone(server, left.name)
    assert rows(server)[left.name]["ttft_ms"] is None, "it left before its first token"


@pytest.mark.parametrize("streamed", [False, True])
def test_in_decode(server: LiveServer, streamed: bool) -> None:
    left = Call(server, f"decode-{streamed}", streamed=streamed, max_tokens=20_000)
    if streamed:
        left.until(lambda data: data.count(b'"text"') > 3)
    wait_until(lambda: gauges(server)["running"] == 1)
    row_once(server, left.name, lambda row: row["ttft_ms"] is not None)
    left.hang_up()
    wait_until(lambda: freed(server), 5)
    gone(server, left.name)
    assert rows(server)[left.name]["output_tokens"] > 0


def test_of_many_sequences_all_end(server: LiveServer) -> None:
    left = Call(server, "many", n=5, max_tokens=20_000).until(lambda data: data.count(b'"text"') > 3)
    left.hang_up()
    wait_until(lambda: freed(server), 5)
    gone(server, left.name)


def test_after_the_last_token_it_is_finished(server: LiveServer) -> None:
    late = Call(server, "late", max_tokens=3).until(lambda data: b'"finish_reason":"length"' in data)
    late.hang_up(reset=True)
    row = row_once(server, "late", has_ended)
    assert (row["finish"], row["detail"], row["output_tokens"]) == ("length", None, 3)


def test_random_ones_leak_nothing(tmp_path: Path) -> None:
    chance = random.Random(20261129)
    with LiveServer(tmp_path / "d", *HARDWARE, "--set", "max_num_seqs=8", "--set", "max_num_batched_tokens=128") as server:
        leave(server, chance, range(BATCH))  # what is made once is made now
        at_rest(server)
        before = descriptors(server)
        for first in range(BATCH, BATCH + LEAVING, BATCH):
            leave(server, chance, range(first, first + BATCH))
        at_rest(server)
        wait_until(lambda: descriptors(server) <= before + 2, 10, "descriptors to be given back")
        ledger(server.data_dir).check()
        said = set(ledger(server.data_dir).ask("SELECT finish, detail FROM requests"))
        assert said <= {("abort", "client_gone"), ("length", None)} and ("abort", "client_gone") in said
        assert server.get("/api/scheduler")["engine"] == "up" and "Traceback" not in server.text_of_log()


def leave(server: LiveServer, chance: random.Random, numbers: range) -> None:
    """Requests of every shape at once; each leaves after a random number of bytes, most before their end."""
    calls = []
    for n in numbers:
        call = Call(
            server,
            f"x{n}",
            streamed=chance.random() < 0.6,
            prompt="word " * chance.choice((1, 20, 400)),
            max_tokens=chance.choice((1, 10, 5000)),
            n=chance.choice((1, 1, 1, 3)),
        )
        calls.append((call, chance.choice((0, 0, 1, 600, 2000)), chance.random() < 0.5))
    for call, after, reset in calls:
        if not call.ended.is_set() and len(call.data) < after:
            call.ended.wait(chance.random() * 0.05)
        call.hang_up(reset=reset)


def descriptors(server: LiveServer) -> int:
    """Open files of the web process."""
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))
