"""Load runs over HTTP: scenarios, runs, what their generators saw. Knows no child process and no table; what came of them is in
reports.py.

Invariant: client_requests is idempotent; everything that writes goes through the writer and is answered after its commit.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from flask import Blueprint, Response, request

from app.api import fields, outcomes
from app.api.answers import attached, json_answer
from app.api.decode import decode_lines, decode_object
from app.api.departures import with_departures
from app.api.errors import ApiError, Problem, bad, conflict, not_found, unavailable
from app.api.run_answers import known_run, switch
from app.extensions import parts
from app.store import bundle, client_rows
from app.store import failures as failure_rows
from app.store import runs as run_rows
from app.store.adopt import adopt as adopt_run
from app.store.adopt import forget, simulation_file
from app.store.errors import QueryError
from app.store.filters import limit
from app.store.shapes import shapes_json
from app.supervisor import scenarios
from app.supervisor.load_runs import NoRate, RunActive
from app.supervisor.run_life import Asked
from scheduler.errors import EngineGone

runs = Blueprint("runs", __name__, url_prefix="/api")

DEFAULT_SEED = 1  # as for the command line and plain Locust: the same scenario is the same load wherever it is started
_FIELDS = frozenset({"scenario", "external", "name", "set", "seed", "scheduler", "processes"})


@runs.get("/scenarios")
def list_scenarios() -> Response:
    """The library."""
    return json_answer({"items": [scenarios.describe(name) for name in scenarios.names()]})


@runs.get("/scenarios/<name>")
def show_scenario(name: str) -> Response:
    """One scenario with its parameters."""
    if name not in scenarios.names():
        raise not_found(f"the scenario {name[:64]!r}")
    return json_answer(scenarios.describe(name))


@runs.get("/scenarios/<name>/offered")
def offered(name: str) -> Response:
    """What it would offer with the parameters in the query: expected arrivals a second over time, by stream."""
    if name not in scenarios.names():
        raise not_found(f"the scenario {name[:64]!r}")
    return json_answer(scenarios.offered(name, request.args.to_dict()))


@runs.post("/runs")
def start() -> Response:
    """Begin a run of ours, or register one whose generator is somebody else's."""
    here = parts()
    if here.draining():
        raise ApiError(outcomes.shutting_down())
    asked = _asked(decode_object(request.get_data(cache=False)))
    if not asked.external and not here.engine.up:
        raise unavailable(f"the engine is {here.engine.status.state}", "engine_loading", 2.0)
    try:
        run = here.load_runs.start(asked)
    except RunActive as error:
        raise conflict(error.message, "run_active") from error
    except EngineGone as error:
        raise unavailable(error.message, "engine_down", 2.0) from error
    return json_answer(run, 201)


@runs.get("/runs")
def list_runs() -> Response:
    """Newest first."""
    try:
        size = limit(request.args.get("limit"), default=100)
    except QueryError as error:
        raise bad(error.message, error.param, "invalid_value") from error
    found = known_run(parts().run_native, parts().queries.runs, size, request.args.get("before") or None)
    return json_answer(found | {"items": with_departures([_as_of_now(run) for run in found["items"]])})


@runs.get("/runs/<run_id>")
def show_run(run_id: str) -> Response:
    """One run."""
    return json_answer(_as_of_now(known_run(parts().run_native, parts().queries.run, run_id)))


@runs.post("/runs/<run_id>/stop")
def stop(run_id: str) -> Response:
    """End the active run; what is still in flight after a few seconds, or with {"now": true} at once, is kept as incomplete.

    Stopping a run that has ended changes nothing.
    """
    here = parts()
    data = request.get_data(cache=False)
    body = decode_object(data) if data.strip() else {}
    fields.refuse_unknown(body, frozenset({"now"}))
    known_run(here.run_native, here.queries.run, run_id)
    here.load_runs.stop(run_id, fields.boolean(body, "now") or False)
    return json_answer(known_run(here.run_native, here.queries.run, run_id))


@runs.post("/runs/<run_id>/rate")
def change_rate(run_id: str) -> Response:
    """Ask the run's load generator for `factor` times the load that its scenario says, from now on. What became of it stands
    in the run's progress."""
    here = parts()
    body = decode_object(request.get_data(cache=False))
    fields.refuse_unknown(body, frozenset({"factor"}))
    factor = fields.number(body, "factor", scenarios.LEAST_FACTOR, scenarios.MOST_FACTOR)
    if factor is None:
        raise fields.missing("factor")
    known_run(here.run_native, here.queries.run, run_id)
    try:
        here.load_runs.change_rate(run_id, factor)
    except NoRate as error:
        raise conflict(error.message, "rate_fixed") from error
    return json_answer({"run": run_id, "asked": {"rate_factor": factor}}, 202)


@runs.get("/runs/<run_id>/failures")
def failures(run_id: str) -> Response:
    """The client's requests that did not end well, alike ones together."""
    here = parts()
    known_run(here.run_native, here.queries.run, run_id)
    return json_answer({"items": here.run_native(here.queries.ask, partial(failure_rows.groups, run_id=run_id))})


@runs.get("/runs/<run_id>/log")
def log(run_id: str) -> Response:
    """The last lines of its load generator's log."""
    here = parts()
    found = known_run(here.run_native, here.queries.run, run_id)
    return json_answer({"lines": here.run_native(here.load_runs.log, found["id"])})


@runs.delete("/runs/<run_id>")
def delete(run_id: str) -> Response:
    """Forget a run that has ended, its requests and their events."""
    return json_answer({"deleted": run_id, "requests": known_run(parts().job, partial(run_rows.remove, run_id=run_id))})


@runs.post("/runs/<run_id>/client_requests")
def client_requests(run_id: str) -> Response:
    """What a load generator saw, NDJSON."""
    here = parts()
    known_run(here.run_native, here.queries.run, run_id)
    rows = [client_rows.row(run_id, line) for line in decode_lines(request.get_data(cache=False))]
    return json_answer(here.job(partial(client_rows.add, run=run_id, rows=rows)) if rows else {"accepted": 0, "duplicates": 0})


@runs.post("/runs/adopt")
def adopt() -> Response:
    """Take over the run that `batchscope simulate` left in the data directory; its file is gone afterwards."""
    here = parts()
    body = decode_object(request.get_data(cache=False))
    fields.refuse_unknown(body, frozenset({"run"}))
    run_id = fields.string(body, "run", 64, shortest=1)
    if run_id is None:
        raise fields.missing("run")
    path = simulation_file(here.settings.directory, run_id)
    if path is None:
        raise ApiError(Problem(404, f"no simulation {run_id!r} waits in the data directory", None, "run_not_found"))
    row = known_run(here.job, partial(adopt_run, path=path, run_id=run_id))
    here.run_native(forget, path)
    return json_answer(row, 201)


@runs.get("/runs/<run_id>/shapes")
def shapes(run_id: str) -> Response:
    """What each step of the run held and how long it took: for `batchscope calibrate`."""
    here = parts()
    return json_answer(known_run(here.run_native, here.queries.ask, shapes_json, run_id))


def _as_of_now(run: dict[str, Any]) -> dict[str, Any]:
    """A run under way with what its generator said last, a second ago at most."""
    told = parts().load_runs.progress(run["id"])
    return run if told is None else run | {"progress": told}


@runs.get("/runs/<run_id>/bundle")
def export_bundle(run_id: str) -> Response:
    """The run as one file for `batchscope runs import`, streamed."""
    here = parts()  # now: the pages are fetched after the view has returned
    ask = partial(here.run_native, here.queries.ask)
    pieces = known_run(partial(bundle.stream, ask, run_id, text=switch("text")))
    return Response(pieces, headers=attached(f"{run_id}{bundle.SUFFIX}"), content_type=bundle.MEDIA)


def _asked(body: dict[str, Any]) -> Asked:
    fields.refuse_unknown(body, _FIELDS)
    external = fields.boolean(body, "external") or False
    scenario = fields.string(body, "scenario", 64, shortest=1)
    seed = fields.integer(body, "seed", 0, 2**63 - 1)
    if scenario is None and not external:
        raise fields.missing("scenario")
    return Asked(
        scenario=scenario,
        external=external,
        name=fields.string(body, "name", 200),
        set=fields.mapping(body, "set") or {},
        seed=DEFAULT_SEED if seed is None else seed,
        scheduler=fields.mapping(body, "scheduler") or {},
        processes=fields.integer(body, "processes", 1, 64) or 1,
    )
