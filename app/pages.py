"""The pages: empty frames that the scripts fill through the API and the websocket. Knows no engine, no table, no figure."""

from __future__ import annotations

from urllib.parse import urlencode

from flask import Blueprint, Response, abort, current_app, redirect, render_template, request, url_for
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as AnyResponse

from app.api.errors import http_error
from app.lesson import read_lesson, recordings
from app.presets import PRESETS, link
from app.safe_headers import safe_headers
from app.supervisor import scenarios

pages = Blueprint("pages", __name__)
RATE = {"least_factor": scenarios.LEAST_FACTOR, "most_factor": scenarios.MOST_FACTOR}  # of the load of a run under way

NO_PAGES = ("/api/", "/v1/", "/static/", "/socket.io")
NAV = (
    ("live", "Live"),
    ("timeline", "Timeline"),
    ("load", "Load"),
    ("runs", "Runs"),
    ("requests", "Requests"),
    ("policy", "Policy"),
    ("lesson", "Lesson"),
)


@pages.context_processor
def navigation() -> dict[str, object]:
    """The entries of the header: (endpoint, label); what a page's script imports, so that it is fetched at once."""
    return {"nav": NAV, "modules_behind": modules_behind}


def modules_behind(script: str) -> list[str]:
    """The page's script and all that it imports; only itself where static/ is served by somebody else."""
    files = current_app.extensions.get("static_files")
    return [script] if files is None else files.modules_behind(script)


@pages.after_request
def forbid_inline(response: Response) -> Response:
    """No script or style but our own files; a stored prompt or name can never run."""
    for name, value in safe_headers(request.headers.get("Host", "")):
        response.headers.setdefault(name, value)
    return response


@pages.get("/")
def live() -> str:
    """The live page."""
    return render_template("live.html", page="live", title="Live", first_look=scenarios.describe("first_look"))


@pages.get("/timeline")
def timeline() -> str:
    """Who ran when: a run's requests by phase, its steps, memory and queue on one axis."""
    return render_template("timeline.html", page="timeline", title="Timeline")


@pages.get("/load")
def load() -> str:
    """Start a scenario, watch it, stop it."""
    return render_template("load.html", page="load", title="Load", **RATE)


@pages.get("/runs")
def runs() -> str:
    """All load runs."""
    return render_template("runs.html", page="runs", title="Runs")


@pages.get("/runs/<run_id>")
def run(run_id: str) -> str:
    """The report of one load run."""
    return render_template("run.html", page="runs", title="Run report", subject=run_id, **RATE)


@pages.get("/compare")
def compare() -> str:
    """Runs side by side, or one before and after a change."""
    return render_template("compare.html", page="runs", title="Compare")


@pages.get("/requests")
def requests() -> str:
    """The records, filtered by the URL."""
    return render_template("requests.html", page="requests", title="Requests")


@pages.get("/sql")
def sql_console() -> str:
    """A statement of one's own over the records, from the URL."""
    return render_template("sql.html", page="requests", title="SQL")


@pages.get("/requests/<request_id>")
def request_detail(request_id: str) -> AnyResponse | str:
    """One lifecycle. A sequence (`id/0`) is shown on the page of its request."""
    return render_template("request.html", page="requests", title="Request", subject=request_id)


@pages.get("/requests/<request_id>/<int:sequence>")
def sequence_detail(request_id: str, sequence: int) -> AnyResponse:
    """A link to a sequence leads to its request."""
    return redirect(url_for("pages.request_detail", request_id=request_id, sequence=sequence))


def no_such_page(error: HTTPException) -> AnyResponse:
    """Who looks for a page is shown the way back; programs, and whoever asks the API, get the error object."""
    wanted = request.accept_mimetypes
    if wanted["text/html"] <= wanted["application/json"] or request.path.startswith(NO_PAGES):
        return http_error(error)
    text = render_template("not_found.html", page="", title="Not found", path=request.path[:200], **navigation())
    return Response(text, 404)


@pages.get("/lesson")
def lesson() -> str:
    """The lesson, from its page of the documentation; `lang=zh`: in Chinese."""
    found = read_lesson(request.args.get("lang", ""))
    return render_template("lesson.html", page="lesson", title=found.title, lang=found.lang, body=found.html)


@pages.get("/recorded/<name>.json")
def recording(name: str) -> Response:
    """What the websocket sent while a run was recorded, for the live page to play back."""
    packed = recordings().get(name)
    if packed is None:
        abort(404)
    return Response(packed, mimetype="application/json", headers={"Content-Encoding": "gzip"})


@pages.get("/policy")
def policy() -> str:
    """The settings, live, and the catalog of policies."""
    presets = [(preset, f"{url_for('pages.policy')}?{urlencode(link(preset))}") for preset in PRESETS]
    return render_template("policy.html", page="policy", title="Policy", presets=presets)
