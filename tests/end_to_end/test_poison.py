"""A request that kills the engine whenever it is computed: found, refused, and nobody else pays for it more than once."""

from __future__ import annotations

import urllib.request
from pathlib import Path

from live_server import LiveServer, wait_until
from plain_client import Call, at_rest, gauges, ledger, rows

HARDWARE = ("--runner", "simulated", "--hardware", "h100-llama-3.1-8b-tp1-bf16", "--set", "max_num_seqs=8")
POISON = 13  # as max_tokens
DEADLY_RUNNER = f"""
import os, sys
if "scheduler.engine.server" in sys.orig_argv:
    from scheduler.runners.simulated import SimulatedRunner
    run = SimulatedRunner.run
    def deadly(self, plan):
        if any(chunk.request.params.max_tokens == {POISON} for chunk in plan.chunks):
            os._exit(9)
        return run(self, plan)
    SimulatedRunner.run = deadly
"""


def test_what_kills_the_engine_alone_is_refused_and_its_neighbours_are_served(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(DEADLY_RUNNER)
    with LiveServer(tmp_path / "d", *HARDWARE, env={"PYTHONPATH": str(tmp_path)}) as server:
        streaming = [Call(server, f"s{n}", max_tokens=20_000).until(lambda data: data.count(b'"text"') > 2) for n in range(2)]
        server.post("/api/scheduler/pause", {})
        deadly = Call(server, "deadly", streamed=False, prompt="deadly", max_tokens=POISON)
        wait_until(lambda: gauges(server)["waiting"] == 1)
        waiting = [Call(server, f"w{n}", streamed=False, max_tokens=200, seed=n) for n in range(3)]  # behind it, in each life
        wait_until(lambda: gauges(server)["waiting"] == 4)
        server.post("/api/scheduler/resume", {})
        deadly.over()
        assert (deadly.status, deadly.error, deadly.header("x-should-retry")) == (422, "poison_request", "false")
        assert [call.over().error for call in streaming] == ["engine_crash"] * 2
        assert [call.over().status for call in waiting] == [200] * 3, "they had no token"
        assert server.text_of_log().count("engine life") <= 3, "deaths"
        engine = server.engine_pid()
        again = Call(server, "again", prompt="deadly", max_tokens=POISON).over()
        assert (again.status, again.error) == (422, "poison_request"), "refused at once: it would have been a stream"
        other = Call(server, "other", prompt="deadly", max_tokens=POISON + 1).over()
        assert other.error is None and server.engine_pid() == engine is not None
        at_rest(server)
        found = rows(server)
        assert (found["deadly"]["finish"], found["deadly"]["detail"]) == ("error", "poison_request")
        assert (found["again"]["finish"], found["again"]["detail"]) == ("rejected", "poison_request")
        with urllib.request.urlopen(server.url + "/metrics", timeout=10) as response:
            metrics = response.read().decode()
        assert 'reason="poison_request"} 1' in metrics and "batchscope:poison_requests{" in metrics
        log = server.text_of_log()
        assert found["deadly"]["id"] in log and "resting" not in log, "it is named, and shut out: nobody rests for it"
        ledger(server.data_dir).check()
