"""Simulated hardware served live: what is recorded is what the cost model says, or the host is named as late."""

from __future__ import annotations

import json
import random
import sqlite3
import statistics
import threading
import urllib.error
import urllib.request

import pytest
from live_server import LiveServer, wait_until

from app.store.packing import unpack_slices
from scheduler.core.blocks import BlockPool
from scheduler.core.events import RequestFinished
from scheduler.core.policies import catalog
from scheduler.core.request import Request, SamplingParams
from scheduler.core.scheduler import Scheduler
from scheduler.engine.clock import JumpClock
from scheduler.runners import cost_model
from scheduler.runners.cost_model import StepShape
from scheduler.runners.simulated import SimulatedRunner
from scheduler.settings import SchedulerSettings

HARDWARE = "h100-llama-3.1-8b-tp1-bf16"
TOLERANCE_MS = 1.0


class Crowd:
    """Threads that each ask one request after the other; failures are kept and raised."""

    def __init__(self, server: LiveServer) -> None:
        self.server = server
        self.model = server.get("/v1/models")["data"][0]["id"]
        self.failures: list[Exception] = []

    def ask(self, prompt: list[int], max_tokens: int, tenant: str) -> None:
        body = {"model": self.model, "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "tenant": tenant}
        self.server.post("/v1/completions", body)

    def run(self, users: int, turns: int, prompt_tokens: tuple[int, int], output_tokens: int, tenant: str) -> None:
        def user(number: int) -> None:
            chance = random.Random(f"{tenant}/{number}")
            try:
                for _ in range(turns):
                    prompt = [chance.randrange(256) for _ in range(chance.randint(*prompt_tokens))]
                    self.ask(prompt, output_tokens, tenant)
            except (OSError, urllib.error.HTTPError) as error:
                self.failures.append(error)

        threads = [threading.Thread(target=user, args=(number,)) for number in range(users)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not self.failures, self.failures


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulated")
    with LiveServer(folder, "--runner", "simulated", "--hardware", HARDWARE, "--set", "max_num_batched_tokens=512") as server:
        yield server


def rows(server: LiveServer, sql: str) -> list[tuple]:
    with sqlite3.connect(f"file:{server.data_dir / 'batchscope.db'}?mode=ro", uri=True, timeout=10) as connection:
        return connection.execute(sql).fetchall()


def steps(server: LiveServer) -> list[tuple[StepShape, float, int]]:
    """Each recorded step: its shape, rebuilt from the records alone, its length in ms, and by how much the host was late."""
    length = dict(rows(server, "SELECT number, prompt_tokens FROM requests"))
    computed = dict.fromkeys(length, 0)
    admitted: dict[int, list[tuple[int, int]]] = {}
    for seq, data in rows(server, "SELECT seq, data FROM request_events WHERE kind = 'RequestScheduled' ORDER BY seq"):
        event = json.loads(data)
        admitted.setdefault(event["number"], []).append((seq, event["cached_tokens"]))
    found = []
    for seq, ns, late, packed in rows(
        server, "SELECT seq, ended_at - started_at, host_late_ns, slices FROM steps ORDER BY seq"
    ):
        slices = unpack_slices(packed)
        for row in slices:
            while admitted.get(row.request) and admitted[row.request][0][0] < seq:
                computed[row.request] = admitted[row.request].pop(0)[1]
        decodes = [row for row in slices if row.kind == "decode"]
        prefills = [row for row in slices if row.kind == "prefill"]
        chunks = tuple((row.tokens, computed[row.request]) for row in prefills)
        context = sum(length[row.request] for row in decodes)
        found.append((StepShape(len(decodes), context, chunks, sum(row.emitted for row in prefills)), ns / 1e6, late))
        for row in slices:
            computed[row.request] += row.tokens
            length[row.request] += row.emitted
    return found


def tpot_by_model(server: LiveServer, users: int, turns: int, prompt_tokens: int, output_tokens: int) -> float:
    """Median TPOT in ms of the same closed loop on a clock that jumps: the hardware's own figure, without a host."""
    settings = SchedulerSettings().change(server.get("/api/live")["server"]["settings"])
    pool = BlockPool(settings.kv_cache_tokens // settings.block_size, settings.block_size, settings.enable_prefix_caching)
    scheduler = Scheduler(settings, pool, catalog.make("fcfs", {}, pool))
    runner, clock, asked, tpots = SimulatedRunner(cost_model.load(HARDWARE)), JumpClock(), 0, []
    requests: dict[str, Request] = {}

    def ask() -> None:
        nonlocal asked
        if asked < users * turns:
            prompt = [asked % 251] + [random.Random(asked).randrange(256)] * (prompt_tokens - 1)
            params = SamplingParams(max_tokens=output_tokens)
            requests[str(asked)] = request = Request(str(asked), prompt, params, received_at=clock.now())
            scheduler.add(request, clock.now())
            asked += 1

    for _ in range(users):
        ask()
    while not scheduler.idle:
        plan = scheduler.schedule(clock.now())
        output = runner.run(plan)
        for event in scheduler.commit(plan, output, clock.finish_step(plan.started_at, output.elapsed)):
            if isinstance(event, RequestFinished):
                tpots.append((event.at - requests[event.id].first_token_at) / 1e6 / (output_tokens - 1))
                ask()
    return statistics.median(tpots)


def test_the_page_says_that_the_hardware_is_simulated(server):
    live = server.get("/api/live")
    assert live["server"]["simulated"] is True
    assert live["server"]["hardware"] == HARDWARE


def test_two_hundred_mixed_steps_take_what_the_cost_model_says_or_count_as_late(server):
    Crowd(server).run(users=12, turns=18, prompt_tokens=(200, 900), output_tokens=20, tenant="mixed")
    wait_until(lambda: server.get("/api/requests?state=finished&limit=1")["total"] >= 216, 10, "the rows")
    model = cost_model.load(HARDWARE)
    mixed = [(model.step_ms(shape), ms, late) for shape, ms, late in steps(server) if shape.decodes and shape.chunks]
    late = sum(1 for *_, late in mixed if late)
    print(f"{len(mixed)} mixed steps, {late} of them counted as host_late")
    assert len(mixed) >= 200
    assert [(expected, ms) for expected, ms, late in mixed if not (abs(ms - expected) <= TOLERANCE_MS or late)] == []
    assert [(expected, ms) for expected, ms, _ in mixed if ms < expected - 0.01] == []
    assert late < len(mixed) / 2, "the host could not keep up with the simulated hardware"


def test_a_closed_loop_of_sixteen_shows_the_models_own_tpot(server):
    crowd = Crowd(server)
    crowd.run(users=16, turns=3, prompt_tokens=(1024, 1024), output_tokens=128, tenant="closed")
    items = wait_until(
        lambda: (
            (page := server.get("/api/requests?tenant=closed&state=finished&limit=100")["items"]) and len(page) == 48 and page
        ),
        10,
        "the rows",
    )
    measured = statistics.median(item["tpot_ms"] for item in items)
    own = tpot_by_model(server, 16, 3, 1024, 128)
    print(f"TPOT {measured:.2f} ms measured, {own:.2f} ms by the model")
    assert measured == pytest.approx(own, rel=0.10)
