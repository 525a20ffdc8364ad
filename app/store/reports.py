"""The report of a load run: what the server recorded joined with what the client saw.

Hands the rows to the figures, the reconciliation and the verdict; computes nothing itself.
Invariant: a report is a function of the rows in the database: a row deleted by hand shows in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from app.store import report_figures as figures
from app.store import runs
from app.store.advice import memory_of, more_load
from app.store.reconcile import reconcile
from app.store.report_figures import Samples, Slo
from app.store.report_rows import Gathered, gather, prefilled
from app.store.step_figures import interference_json, steps_figures, waste
from app.store.tenant_figures import fairness
from app.store.verdict import headline, verdict
from scheduler.metrics import interference

__all__ = ["Slo", "build", "report_of"]


def build(connection: Connection, run_id: str, slo: Slo | None = None) -> dict[str, Any]:
    """The whole report; raises QueryError("run") when there is no such run. The verdict is None while it runs."""
    found = gather(connection, run_id)
    return report_of(connection, found, figures.samples(found.server, found.client, found.gaps), slo)


def report_of(connection: Connection, found: Gathered, samples: Samples, slo: Slo | None = None) -> dict[str, Any]:
    """The report of rows that are at hand; `samples` are theirs."""
    run, server, client = found.run, found.server, found.client
    server_side = not run["foreign_target"]
    slo = slo or _slo(run)
    seconds = figures.duration_s(server, client)
    counts = reconcile(server, client, server_side=server_side)
    stretched = interference(found.steps)
    who = {(step.boot, step.seq): prefilled(connection, step.boot, step.seq) for step in stretched.worst} if stretched else {}
    made: dict[str, Any] = {
        "run": {name: value for name, value in run.items() if name != "report"},
        "settings": found.settings,
        "reconciliation": counts,
        "percentiles": figures.latencies(samples),
        "slowest": figures.slowest(server),
        "goodput": figures.goodput(client, seconds, slo),
        "waits": figures.waits(server),
        "fairness": fairness(server, found.settings, found.life.get("hardware"), slo.ttft_ms),
        "interference": interference_json(stretched, found.steps, who),
        "waste": waste(found, counts),
        "steps": steps_figures(found.steps),
        "throughput": figures.throughput(server, client, seconds),
        "timeline": figures.timeline(server, client, found.steps, found.start_wall),
    }
    return _judge(run, made, found.life, server_side=server_side)


def _slo(run: Mapping[str, Any]) -> Slo:
    """The pair that the run's scenario names, else the default."""
    given, default = run["parameters"] or {}, Slo()
    pair = [
        given.get(name, fallback) for name, fallback in (("slo_ttft_ms", default.ttft_ms), ("slo_tpot_ms", default.tpot_ms))
    ]
    return Slo(*(float(value) for value in pair))


def _judge(run: Mapping[str, Any], found: dict[str, Any], life: Mapping[str, Any], *, server_side: bool) -> dict[str, Any]:
    simulated = life.get("runner") == "simulated"
    word: str | None = None
    why: str | None = f"the run is {run['status']}"
    if run["status"] == "failed":
        word, why = "invalid", f"the run failed: {run['error'] or 'no reason was kept'}"
    elif run["status"] not in runs.ACTIVE:
        cpu_high = bool(run["generator_cpu_high"])
        word, why = verdict(found, cpu_high=cpu_high, simulated=simulated, server_side=server_side)
    line = headline(
        word or run["status"],
        why if word else None,
        found["waits"],
        found["settings"],
        reconciliation=found["reconciliation"],
        steps=found["steps"],
        memory=memory_of(life),
        run=run["id"],
        heavier=more_load(run["parameters"]),
    )
    return {"verdict": word, "verdict_reason": why, "headline": line, "simulated": simulated} | found
