"""What runs came to, over HTTP: a run's report, as JSON and as a file, and runs side by side. Makes no figure.

Invariant: who asks for the figures of a long run hears how far they are, unless the one answer is worth waiting for (a file,
a comparison without `wait=0`); leaving ends nothing, since they are kept with the run once they are made.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from flask import Blueprint, Response, request

from app.api.answers import attached, json_answer
from app.api.departures import asked_with
from app.api.errors import ApiError, Problem, bad
from app.api.run_answers import known_run, switch
from app.extensions import parts
from app.report_file.page import report_html
from app.store.comparison import MOST_COMPARED
from app.store.comparison import compare as compare_runs
from app.store.errors import QueryError
from app.store.filters import number
from app.store.report_figures import Slo
from app.summaries import SummaryFailed

reports = Blueprint("reports", __name__, url_prefix="/api")

AGAIN_S = 1  # when to ask again for what is being made


@reports.get("/runs/<run_id>/report")
def report(run_id: str) -> Response:
    """The report as it was kept at the run's end, or of the rows as they are now where that is something else (`summary`).
    `asked`: what of its parameters and settings was set for this run.

    202 and {"computing": …} while the figures of a long run are being made.
    """
    made = _made(parts().summaries.report, run_id, _bounds())
    return _not_yet(made) if "computing" in made else json_answer(made | {"asked": asked_with(made["run"])})


@reports.post("/runs/<run_id>/report/stop")
def stop_report(run_id: str) -> Response:
    """End the making of a long run's figures."""
    return json_answer({"stopped": parts().summaries.stop(run_id)})


@reports.get("/runs/<run_id>/report.html")
def report_page(run_id: str) -> Response:
    """The report as one file that needs nothing else: it opens from a disk, without a network."""
    made = _made(parts().summaries.wait, run_id, _bounds())
    return Response(report_html(made), headers=attached(f"report-{run_id}.html"), content_type="text/html; charset=utf-8")


@reports.get("/compare")
def compare() -> Response:
    """Runs side by side; with `split` the two sides of one; with `lines=1` their distributions and their course too.

    With `wait=0`: 202 and {"computing": …} while the figures of a long run are being made.
    """
    here = parts()
    ids = [run_id for run_id in request.args.get("runs", "").split(",") if run_id]
    lines, wait = switch("lines"), switch("wait", default=True)
    split = request.args.get("split") or None
    if split is None and 2 <= len(ids) <= MOST_COMPARED:
        missing = None if wait else _made(here.summaries.missing, ids)
        if missing is not None:
            return _not_yet(missing)
        for run_id in ids if wait else ():
            _made(here.summaries.wait, run_id)
    question = partial(compare_runs, run_ids=ids, split=split, lines=lines)
    return json_answer(known_run(here.run_native, here.queries.ask, question))


def _bounds() -> Slo | None:
    """The bounds that are asked for: both, or one beside the default of the other; None: the run's own."""
    names = [name for name in ("slo_ttft_ms", "slo_tpot_ms") if request.args.get(name)]
    try:
        given = {name.removeprefix("slo_"): number(request.args[name], name) for name in names}
    except QueryError as error:
        raise bad(error.message, error.param) from error
    return Slo(**given) if given else None


def _made(call: Any, *args: Any) -> Any:
    """call(*args) of the summaries; whose making failed, or was stopped, is a 503."""
    try:
        return known_run(call, *args)
    except SummaryFailed as error:
        raise ApiError(Problem(503, error.message, None, "summary_failed")) from error


def _not_yet(far: dict[str, Any]) -> Response:
    return json_answer(far, 202, {"Retry-After": str(AGAIN_S)})
