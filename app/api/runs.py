"""Load runs over HTTP: scenarios, runs, what their generators saw, reports. Knows no child process and no table.

Invariant: client_requests is idempotent; everything that writes goes through the writer and is answered after its commit.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
from flask import Blueprint, Response, request

from app.api import fields
from app.api.decode import decode_lines, decode_object
from app.api.departures import with_departures
from app.api.errors import ApiError, Problem, bad, conflict, not_found, unavailable
from app.extensions import parts
from app.report_file.page import report_html
from app.store import bundle, client_rows
from app.store import failures as failure_rows
from app.store import runs as run_rows
from app.store.adopt import adopt as adopt_run
from app.store.adopt import forget, simulation_file
from app.store.comparison import MOST_COMPARED
from app.store.comparison import compare as compare_runs
from app.store.errors import QueryError, StoreError
from app.store.filters import number
from app.store.report_figures import Slo
from app.store.shapes import shapes_json
from app.summaries import SummaryFailed
from app.supervisor import scenarios
from app.supervisor.load_runs import Asked, NoRate, RunActive
from scheduler.errors import EngineGone

runs = Blueprint("runs", __name__, url_prefix="/api")

DEFAULT_SEED = 1  # as for the command line and plain Locust: the same scenario is the same load wherever it is started
LEAST_FACTOR, MOST_FACTOR = 0.1, 10.0
_FIELDS = frozenset({"scenario", "external", "name", "set", "seed", "scheduler", "processes"})


@runs.get("/scenarios")
def list_scenarios() -> Response:
    """The library."""
    return _json({"items": [scenarios.describe(name) for name in scenarios.names()]})


@runs.get("/scenarios/<name>")
def show_scenario(name: str) -> Response:
    """One scenario with its parameters."""
    if name not in scenarios.names():
        raise not_found(f"the scenario {name[:64]!r}")
    return _json(scenarios.describe(name))


@runs.get("/scenarios/<name>/offered")
def offered(name: str) -> Response:
    """What it would offer with the parameters in the query: expected arrivals a second over time, by stream."""
    if name not in scenarios.names():
        raise not_found(f"the scenario {name[:64]!r}")
    return _json(scenarios.offered(name, request.args.to_dict()))


@runs.post("/runs")
def start() -> Response:
    """Begin a run of ours, or register one whose generator is somebody else's."""
    here = parts()
    asked = _asked(decode_object(request.get_data(cache=False)))
    if not asked.external and not here.engine.up:
        raise unavailable(f"the engine is {here.engine.status.state}", "engine_loading", 2.0)
    try:
        run = here.load_runs.start(asked)
    except RunActive as error:
        raise conflict(error.message, "run_active") from error
    except EngineGone as error:
        raise unavailable(error.message, "engine_down", 2.0) from error
    return _json(run, 201)


@runs.get("/runs")
def list_runs() -> Response:
    """Newest first."""
    size = request.args.get("limit", "100")
    if not (size.isascii() and size.isdigit() and 1 <= int(size[:6]) <= 1000):
        raise bad("limit must be between 1 and 1000", "limit", "invalid_value")
    found = _found(parts().run_native, parts().queries.runs, int(size), request.args.get("before") or None)
    return _json(found | {"items": with_departures([_as_of_now(run) for run in found["items"]])})


@runs.get("/runs/<run_id>")
def show_run(run_id: str) -> Response:
    """One run."""
    return _json(_as_of_now(_found(parts().run_native, parts().queries.run, run_id)))


@runs.post("/runs/<run_id>/stop")
def stop(run_id: str) -> Response:
    """End the active run; what is still in flight after a few seconds, or with {"now": true} at once, is kept as incomplete.

    Stopping a run that has ended changes nothing.
    """
    here = parts()
    data = request.get_data(cache=False)
    body = decode_object(data) if data.strip() else {}
    fields.refuse_unknown(body, frozenset({"now"}))
    _found(here.run_native, here.queries.run, run_id)
    here.load_runs.stop(run_id, fields.boolean(body, "now") or False)
    return _json(_found(here.run_native, here.queries.run, run_id))


@runs.post("/runs/<run_id>/rate")
def change_rate(run_id: str) -> Response:
    """Ask the run's load generator for `factor` times the load that its scenario says, from now on. What became of it stands
    in the run's progress."""
    here = parts()
    body = decode_object(request.get_data(cache=False))
    fields.refuse_unknown(body, frozenset({"factor"}))
    factor = fields.number(body, "factor", LEAST_FACTOR, MOST_FACTOR)
    if factor is None:
        raise fields.missing("factor")
    _found(here.run_native, here.queries.run, run_id)
    try:
        here.load_runs.change_rate(run_id, factor)
    except NoRate as error:
        raise conflict(error.message, "rate_fixed") from error
    return _json({"run": run_id, "asked": {"rate_factor": factor}}, 202)


@runs.get("/runs/<run_id>/failures")
def failures(run_id: str) -> Response:
    """The client's requests that did not end well, alike ones together."""
    here = parts()
    _found(here.run_native, here.queries.run, run_id)
    return _json({"items": here.run_native(here.queries.ask, partial(failure_rows.groups, run_id=run_id))})


@runs.get("/runs/<run_id>/log")
def log(run_id: str) -> Response:
    """The last lines of its load generator's log."""
    here = parts()
    found = _found(here.run_native, here.queries.run, run_id)
    return _json({"lines": here.run_native(here.load_runs.log, found["id"])})


@runs.delete("/runs/<run_id>")
def delete(run_id: str) -> Response:
    """Forget a run that has ended, its requests and their events."""
    here = parts()
    if here.load_runs.active == run_id:
        raise conflict(f"run {run_id} is active: stop it first", "run_active")
    return _json({"deleted": run_id, "requests": _found(here.job, partial(run_rows.remove, run_id=run_id))})


@runs.post("/runs/<run_id>/client_requests")
def client_requests(run_id: str) -> Response:
    """What a load generator saw, NDJSON."""
    here = parts()
    _found(here.run_native, here.queries.run, run_id)
    rows = [client_rows.row(run_id, line) for line in decode_lines(request.get_data(cache=False))]
    return _json(here.job(partial(client_rows.add, run=run_id, rows=rows)) if rows else {"accepted": 0, "duplicates": 0})


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
    row = _found(here.job, partial(adopt_run, path=path, run_id=run_id))
    here.run_native(forget, path)
    return _json(row, 201)


@runs.get("/runs/<run_id>/shapes")
def shapes(run_id: str) -> Response:
    """What each step of the run held and how long it took: for `batchscope calibrate`."""
    here = parts()
    return _json(_found(here.run_native, here.queries.ask, shapes_json, run_id))


@runs.get("/runs/<run_id>/report")
def report(run_id: str) -> Response:
    """The report as it was kept at the run's end, or of the rows as they are now where that is something else (`summary`).

    202 and {"computing": …} while the figures of a long run are being made.
    """
    found = _reported(run_id)
    return _json(found, 202 if "computing" in found else 200)


@runs.post("/runs/<run_id>/report/stop")
def stop_report(run_id: str) -> Response:
    """End the making of a long run's figures."""
    return _json({"stopped": parts().summaries.stop(run_id)})


@runs.get("/runs/<run_id>/report.html")
def report_page(run_id: str) -> Response:
    """The report as one file that needs nothing else: it opens from a disk, without a network."""
    found = _reported(run_id, wait=True)
    name = "".join(letter for letter in run_id if letter.isascii() and (letter.isalnum() or letter in "_-"))
    headers = {"Content-Disposition": f'attachment; filename="report-{name}.html"'}
    return Response(report_html(found), headers=headers, content_type="text/html; charset=utf-8")


@runs.get("/compare")
def compare() -> Response:
    """Runs side by side; with `split` the two sides of one; with `lines=1` their distributions and their course too."""
    ids = [run_id for run_id in request.args.get("runs", "").split(",") if run_id]
    lines = request.args.get("lines", "")
    if lines not in ("", "0", "1"):
        raise bad("lines must be 0 or 1", "lines", "invalid_value")
    split = request.args.get("split") or None
    if split is None and 2 <= len(ids) <= MOST_COMPARED:
        for run_id in ids:
            _found(parts().summaries.wait, run_id)
    asked = partial(compare_runs, run_ids=ids, split=split, lines=lines == "1")
    return _json(_found(parts().run_native, parts().queries.ask, asked))


def _as_of_now(run: dict[str, Any]) -> dict[str, Any]:
    """A run under way with what its generator said last, a second ago at most."""
    told = parts().load_runs.progress(run["id"])
    return run if told is None else run | {"progress": told}


def _reported(run_id: str, *, wait: bool = False) -> dict[str, Any]:
    """With the bounds that are asked for: both, or one beside the default of the other."""
    names = [name for name in ("slo_ttft_ms", "slo_tpot_ms") if request.args.get(name)]
    try:
        given = {name.removeprefix("slo_"): number(request.args[name], name) for name in names}
    except QueryError as error:
        raise bad(error.message, error.param) from error
    slo = Slo(**given) if given else None
    summaries = parts().summaries
    try:
        found: dict[str, Any] = _found(summaries.wait if wait else summaries.report, run_id, slo)
    except SummaryFailed as error:
        raise ApiError(Problem(503, error.message, None, "summary_failed")) from error
    return found


@runs.get("/runs/<run_id>/bundle")
def export_bundle(run_id: str) -> Response:
    """The run as one file for `batchscope runs import`, streamed."""
    here = parts()  # now: the pages are fetched after the view has returned
    text = request.args.get("text", "")
    if text not in ("", "0", "1"):
        raise bad("text must be 0 or 1", "text", "invalid_value")
    pieces = _found(partial(bundle.stream, partial(here.run_native, here.queries.ask), run_id, text=text == "1"))
    headers = {"Content-Disposition": f'attachment; filename="run{bundle.SUFFIX}"'}
    return Response(pieces, headers=headers, content_type=bundle.MEDIA)


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


def _found(call: Any, *args: Any) -> Any:
    """call(*args), where a run that does not exist is a 404 and an unlawful state a 409."""
    try:
        return call(*args)
    except QueryError as error:
        if error.param == "run":
            raise ApiError(Problem(404, error.message, None, "run_not_found")) from error
        raise
    except StoreError as error:
        if error.param in ("run", "status"):
            raise conflict(error.message, "run_active") from error
        raise


def _json(body: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS), status, content_type="application/json")
