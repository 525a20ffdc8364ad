"""The records of a running server as a whole: what is kept, and prune. Translates HTTP to a question or a job, no more.

Invariant: a call does a bounded piece of work and says how far it is; whoever wants all of it calls again.
"""

from __future__ import annotations

import time
from functools import partial

from flask import Blueprint, Response, request

from app.api import fields
from app.api.answers import json_answer
from app.api.decode import decode_object
from app.api.errors import bad
from app.extensions import parts
from app.store.errors import QueryError, StoreError
from app.store.instants import wall_ns
from app.store.pruning import pruned
from app.store.retention import Rule
from app.store.retention_plan import kept, plan

database = Blueprint("database", __name__, url_prefix="/api/db")

_FIELDS = frozenset({"older_than_s", "larger_than_bytes", "keep_runs", "dry_run", "since", "seconds"})
_MOST_S = 10.0
_YEARS = 200 * 365 * 86_400.0


@database.get("")
def show() -> Response:
    """What is kept: {retain_days, retain_gb, bytes, oldest}; 0: no bound, bytes in use are known of the embedded database."""
    here = parts()
    bounds = {"retain_days": here.settings.retain_days, "retain_gb": here.settings.retain_gb}
    return json_answer(bounds | here.run_native(here.queries.ask, kept))


@database.post("/prune")
def prune() -> Response:
    """Take old records away for about `seconds`, from `since` on: {removed, reached, done, bytes}. dry_run: say what would."""
    here, body = parts(), decode_object(request.get_data(cache=False))
    fields.refuse_unknown(body, _FIELDS)
    older, larger = fields.number(body, "older_than_s", 0.0, _YEARS), fields.integer(body, "larger_than_bytes", 0, 1 << 62)
    if older is None and larger is None:
        raise bad("say what may go: older_than_s, larger_than_bytes, or both", "older_than_s", "missing_required_parameter")
    rule = Rule(older, larger, fields.boolean(body, "keep_runs") or False)
    since, seconds = fields.string(body, "since", 40), fields.number(body, "seconds", 0.0, _MOST_S)
    try:
        if fields.boolean(body, "dry_run"):
            return json_answer(here.run_native(here.queries.ask, plan, rule, time.time_ns()))
        start = None if since is None else wall_ns(since, "since")
        return json_answer(here.job(partial(pruned, rule=rule, since=start, seconds=1.0 if seconds is None else seconds)))
    except QueryError as error:
        raise bad(error.message, error.param) from error
    except StoreError as error:
        if error.param != "larger_than":
            raise
        raise bad(error.message, "larger_than_bytes") from error
