"""GET /api/requests and what belongs to it: history, steps, bars, exports. Translates HTTP to questions, no more.

`flask.current_app.extensions["batchscope"]` offers `queries`, `run_native(function, *args)`, which runs a function on a
native thread and waits green (no question of the records is answered on the hub), and `queue_place(id)` of one that waits.
Invariant: a wrong parameter is a 400 naming it, an absent request a 404, both in the error shape of every API.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

from flask import Blueprint, Response, current_app, request

from app.api.answers import attached, json_answer
from app.api.errors import ApiError, Problem, bad, not_found
from app.store import export, parquet, trace
from app.store.as_sql import as_sql_json
from app.store.detail import detail_json
from app.store.errors import QueryError
from app.store.facets import facets_json, spread_json
from app.store.fields import CHOICES, SEARCHED, WORDS, is_duration, names
from app.store.filters import SORTS
from app.store.purged import words
from app.store.queries import Queries, requests_json
from app.store.segments import segments_json
from app.store.step_contents import step_json
from app.store.step_rows import steps_json
from app.store.summary import summary_json

requests_api = Blueprint("requests_api", __name__)


class Reader(Protocol):
    """The part of the running server that this blueprint needs."""

    @property
    def queries(self) -> Queries: ...

    @property
    def run_native(self) -> Callable[..., Any]: ...

    def queue_place(self, request_id: str) -> dict[str, Any] | None: ...


def ask(function: Callable[..., Any], *args: Any) -> Any:
    """The answer to a question; a wrong parameter becomes a 400 that names it."""
    reader = _reader()
    try:
        return reader.run_native(reader.queries.ask, function, *args)
    except QueryError as error:
        raise bad(error.message, error.param) from error


@requests_api.get("/api/requests")
def list_requests() -> Response:
    """A page of requests: {items, next_cursor, total, total_exact}."""
    return json_answer(ask(requests_json, params()))


@requests_api.get("/api/requests/summary")
def summary() -> Response:
    """Counts, exact percentiles and a histogram of the same filters."""
    return json_answer(ask(summary_json, params()))


@requests_api.get("/api/requests/facets")
def facets() -> Response:
    """The values of each field among the same filters, with their counts."""
    return json_answer(ask(facets_json, params()))


@requests_api.get("/api/requests/spread")
def spread() -> Response:
    """How one measure is spread over the same filters: exact percentiles and a histogram."""
    return json_answer(ask(spread_json, params()))


@requests_api.get("/api/requests/sql")
def as_sql() -> Response:
    """The same question as the text of an SQL statement."""
    return json_answer(ask(as_sql_json, params()))


@requests_api.get("/api/requests/fields")
def fields() -> Response:
    """What can be asked: the parameters, the words of the search line, the sort keys."""
    words = {word: "ms" if is_duration(name) else None for word, name in WORDS.items()}
    known = {"names": names(), "words": SEARCHED, "choices": CHOICES, "measures": words, "sorts": list(SORTS)}
    return json_answer(known | {"exports": [form for form in export.MEDIA if form != "parquet" or parquet.available()]})


@requests_api.get("/api/requests/<request_id>")
def one_request(request_id: str) -> Response:
    """One lifecycle: row, events, waits, slices, batch mates, what the client saw, its place while it waits."""
    found = ask(detail_json, request_id)
    if found is None:
        why = ask(words, request_id)
        if why is not None:
            raise ApiError(Problem(404, f"request {request_id!r} is no longer here: {why}", None, "request_purged"))
        raise not_found(f"request {request_id!r}", "request_not_found")
    return json_answer(found | {"queue": _reader().queue_place(request_id)})


@requests_api.get("/api/steps")
def steps() -> Response:
    """Steps, columnar."""
    return json_answer(ask(steps_json, params()))


@requests_api.get("/api/steps/<int(signed=True):boot>/<int:seq>")
def one_step(boot: int, seq: int) -> Response:
    """One step in full: who was picked, who was not, and why. A life that was simulated has a number below zero."""
    found = ask(step_json, boot, seq)
    if found is None:
        raise not_found(f"step {boot}/{seq}", "step_not_found")
    return json_answer(found)


@requests_api.get("/api/segments")
def segments() -> Response:
    """Timeline bars, columnar."""
    return json_answer(ask(segments_json, params()))


@requests_api.get("/api/export/requests.<form>")
def export_requests(form: str) -> Response:
    """The filtered set, streamed page by page."""
    reader = _reader()  # now: the pages are fetched after the view has returned
    fetch = partial(reader.run_native, reader.queries.export_page)
    try:
        asked = params()
        pieces = export.stream(form, fetch, asked)
    except QueryError as error:
        raise bad(error.message, error.param) from error
    headers = {"Content-Disposition": f'attachment; filename="{export.file_name(asked, form)}"'}
    return Response(pieces, headers=headers, content_type=export.MEDIA[form])


@requests_api.get("/api/export/trace.json")
def export_trace() -> Response:
    """A run as a Chrome trace, which Perfetto opens, streamed."""
    reader, asked = _reader(), params()
    try:
        pieces = trace.stream(partial(reader.run_native, reader.queries.ask), asked)
    except QueryError as error:
        raise bad(error.message, error.param) from error
    return Response(pieces, headers=attached(f"trace-{asked['run']}.json"), content_type=trace.MEDIA)


def params() -> dict[str, str]:
    """The query string; a parameter given twice is a 400, never the first or the last of them in silence."""
    found = {}
    for name, values in request.args.lists():
        if len(values) > 1:
            raise bad(f"{name} is given {len(values)} times", name)
        found[name] = values[0]
    return found


def _reader() -> Reader:
    return cast(Reader, current_app.extensions["batchscope"])
