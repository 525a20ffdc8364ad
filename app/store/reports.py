"""The report of a load run: what the server recorded joined with what the client saw, and runs side by side.

Reads rows and hands them to the figures, the reconciliation and the verdict; computes nothing itself.
Invariant: a report is a function of the rows in the database: a row deleted by hand shows in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from app.store import report_figures as figures
from app.store import runs
from app.store.errors import QueryError
from app.store.models import WAIT_COLUMNS, boots, client_requests, requests, settings_changes, steps
from app.store.reconcile import reconcile
from app.store.report_figures import Slo
from app.store.step_rows import in_window, window
from app.store.verdict import headline, verdict

__all__ = ["Slo", "build", "compare"]

_SERVER = (
    "id", "client_request_id", "tenant", "finish", "detail", "status_code", "received_at", "received_wall", "finished_at",
    "prompt_tokens", "output_tokens", "cached_tokens", "preemptions", "queue_ms", "ttft_ms", "tpot_ms", "e2e_ms", *WAIT_COLUMNS,
)  # fmt: skip
_STEPS = (
    "boot", "started_at", "ended_at", "ended_wall", "token_budget", "prefill_tokens", "decode_tokens", "binding", "waiting",
    "running", "preempted", "host_late_ns",
)  # fmt: skip
_MOST_COMPARED = 5
_COMPARED = (
    ("percentiles", "client", "ttft_ms"), ("percentiles", "client", "ttft_due_ms"), ("percentiles", "client", "tpot_ms"),
    ("percentiles", "client", "itl_ms"), ("percentiles", "client", "e2e_ms"), ("percentiles", "server", "queue_ms"),
)  # fmt: skip
_PLAIN = (
    ("throughput", "requests_s"), ("throughput", "output_tok_s"), ("goodput", "per_s"), ("goodput", "attainment"),
    ("fairness", "jain"), ("steps", "budget_used"), ("steps", "preemptions"),
    ("reconciliation", "ok"), ("reconciliation", "failed"), ("reconciliation", "refused"),
)  # fmt: skip


def build(connection: Connection, run_id: str, slo: Slo | None = None) -> dict[str, Any]:
    """The whole report; raises QueryError("run") when there is no such run. The verdict is None while it runs."""
    run = runs.get(connection, run_id)
    server_side = not run["foreign_target"]
    server, client = _server_rows(connection, run_id), _client_rows(connection, run_id)
    start, end = window(connection, run_id)
    table = steps.c
    asked = select(*[table[name] for name in _STEPS]).where(in_window(start, end)).order_by(table.boot, table.seq)
    stepped = [dict(row) for row in connection.execute(asked).mappings()]
    life, settings = _settings(connection, run, {row["boot"] for row in stepped}, end)
    seconds = figures.duration_s(server, client)
    found: dict[str, Any] = {
        "run": {name: value for name, value in run.items() if name != "report"},
        "settings": settings,
        "reconciliation": reconcile(server, client, server_side=server_side),
        "percentiles": figures.latencies(server, client),
        "goodput": figures.goodput(client, seconds, slo or _slo(run)),
        "waits": figures.waits(server),
        "fairness": figures.fairness(server),
        "steps": figures.steps_figures(stepped),
        "throughput": figures.throughput(server, client, seconds),
        "timeline": figures.timeline(server, client, stepped, start),
    }
    return _judge(run, found, simulated=life.get("runner") == "simulated", server_side=server_side)


def compare(connection: Connection, run_ids: Sequence[str], slo: Slo | None = None) -> dict[str, Any]:
    """Runs side by side; the first is the base: {runs, metrics: [{name, values, difference, relative}], waits, …}."""
    if not 2 <= len(run_ids) <= _MOST_COMPARED or len(set(run_ids)) != len(run_ids):
        raise QueryError(f"runs must name 2 to {_MOST_COMPARED} different runs", "runs")
    reports = [build(connection, run_id, slo) for run_id in run_ids]
    shown = [{name: each[name] for name in ("run", "verdict", "verdict_reason", "headline")} for each in reports]
    return {
        "runs": shown,
        "metrics": [_side_by_side(path, reports) for path in _paths()],
        "waits": _waits_side_by_side(reports),
        "differing": _differing(reports),
        "warnings": _warnings(reports),
    }


# ---- rows


def _server_rows(connection: Connection, run_id: str) -> list[Mapping[str, Any]]:
    table = requests.c
    question = select(*[table[name] for name in _SERVER]).where(table.run == run_id).order_by(table.received_wall, table.id)
    return [dict(row) for row in connection.execute(question).mappings()]


def _client_rows(connection: Connection, run_id: str) -> list[Mapping[str, Any]]:
    table = client_requests.c
    question = select(client_requests).where(table.run == run_id).order_by(table.n, table.client_request_id)
    return [dict(row) for row in connection.execute(question).mappings()]


def _settings(
    connection: Connection, run: Mapping[str, Any], lives: Iterable[int], end: int | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the last engine life of the run, the settings in effect at its end)."""
    row = connection.execute(select(boots).where(boots.c.boot == max(lives, default=-1))).mappings().first()
    life = dict(row) if row is not None else {}
    if run["settings"]:
        return life, dict(run["settings"])
    settings = dict(life.get("settings") or {})
    table = settings_changes.c
    asked = select(table.changes).where(table.boot == life.get("boot", -1)).order_by(table.seq)
    for changes in connection.execute(asked if end is None else asked.where(table.wall <= end)).scalars():
        settings |= changes or {}
    return life, settings


def _slo(run: Mapping[str, Any]) -> Slo:
    """The pair that the run's scenario names, else the default."""
    given, default = run["parameters"] or {}, Slo()
    pair = [
        given.get(name, fallback) for name, fallback in (("slo_ttft_ms", default.ttft_ms), ("slo_tpot_ms", default.tpot_ms))
    ]
    return Slo(*(float(value) for value in pair))


def _judge(run: Mapping[str, Any], found: dict[str, Any], *, simulated: bool, server_side: bool) -> dict[str, Any]:
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
        budget_used=found["steps"]["budget_used"],
    )
    return {"verdict": word, "verdict_reason": why, "headline": line, "simulated": simulated} | found


# ---- side by side


def _paths() -> list[tuple[str, ...]]:
    return [(*path, q) for path in _COMPARED for q in ("p50", "p95", "p99")] + [*_PLAIN]


def _side_by_side(path: tuple[str, ...], reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    values = []
    for each in reports:
        value: Any = each
        for name in path:
            value = value[name]
        values.append(value)
    return {"name": ".".join(path)} | _differences(values)


def _differences(values: Sequence[float | None]) -> dict[str, Any]:
    base = values[0]
    difference = [None if value is None or base is None else value - base for value in values]
    relative = [None if not base or each is None else each / base for each in difference]
    return {"values": list(values), "difference": difference, "relative": relative}


def _waits_side_by_side(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    reasons = dict.fromkeys(reason for each in reports for reason in each["waits"])
    return [
        {"name": reason} | _differences([each["waits"].get(reason, {"ms": 0.0})["ms"] for each in reports])
        for reason in reasons
    ]


def _differing(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for each in reports for name in each["settings"])
    rows = [{"name": name, "values": [each["settings"].get(name) for each in reports]} for name in names]
    return [row for row in rows if any(value != row["values"][0] for value in row["values"])]


def _warnings(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the runs are not like for like."""
    found = []
    for name in ("scenario", "seed", "parameters", "target"):
        values = [each["run"][name] for each in reports]
        if any(value != values[0] for value in values):
            found.append(f"not like for like: {name} {' vs '.join(str(value) for value in values)}")
    found += [f"run {each['run']['id']} is {each['verdict']}" for each in reports if each["verdict"] != "valid"]
    return found
