"""Which scope of an API key each view needs. Knows views by their endpoint, so no spelling of a path gets around it.

Invariant: a view that is not in the table needs `admin`: forgetting one locks it, and a test asks for its line.
"""

from __future__ import annotations

from flask import Flask, Response, request

from app.api.errors import Problem, answer

INFER, READ, LOAD, ADMIN = "infer", "read", "load", "admin"
ANY = ""  # any key at all

SCOPES: dict[str, str] = {
    "openai.completions": INFER,
    "openai.chat_completions": INFER,
    "openai.models": ANY,
    "openai.model": ANY,
    "ops.livez": ANY,
    "ops.readyz": ANY,
    "ops.metrics": READ,
    "ops.live": READ,
    "ops.cancel": ADMIN,
    "scheduler.show": READ,
    "scheduler.changes": READ,
    "scheduler.change": ADMIN,
    "scheduler.hold": ADMIN,
    "runs.list_scenarios": READ,
    "runs.show_scenario": READ,
    "runs.start": LOAD,
    "runs.list_runs": READ,
    "runs.show_run": READ,
    "runs.stop": LOAD,
    "runs.change_rate": LOAD,
    "runs.offered": READ,
    "runs.failures": READ,
    "runs.log": READ,
    "runs.delete": ADMIN,
    "runs.client_requests": LOAD,
    "runs.adopt": LOAD,
    "database.show": READ,
    "database.prune": ADMIN,
    "runs.shapes": READ,
    "runs.export_bundle": READ,
    "reports.report": READ,
    "reports.report_page": READ,
    "reports.stop_report": LOAD,
    "reports.compare": READ,
    "static": READ,
    "sql.ask_sql": READ,
    "sql.schema": READ,
    **dict.fromkeys([f"requests_api.{view}" for view in ("facets", "spread", "as_sql", "fields")], READ),
    "pages.sql_console": READ,
    **dict.fromkeys(
        [
            f"requests_api.{view}"
            for view in (
                "list_requests",
                "summary",
                "one_request",
                "steps",
                "one_step",
                "segments",
                "export_requests",
                "export_trace",
            )
        ],
        READ,
    ),
    **dict.fromkeys(
        [
            f"pages.{view}"
            for view in (
                "live",
                "timeline",
                "load",
                "runs",
                "run",
                "compare",
                "requests",
                "request_detail",
                "sequence_detail",
                "policy",
                "lesson",
                "recording",
            )
        ],
        READ,
    ),
}


def lacking(scopes: frozenset[str], needed: str) -> Problem | None:
    """How to refuse a key that does not open what it is used for."""
    if needed == ANY or needed in scopes:
        return None
    return Problem(403, f"this API key lacks the scope {needed!r}", None, "insufficient_scope", {"x-should-retry": "false"})


def enforce() -> Response | None:
    """Before every view: does the caller's key open it? Without keys every caller may do everything."""
    scopes = request.environ.get("batchscope.scopes")
    if scopes is None or request.endpoint is None:
        return None  # no keys, or no such view: 404 tells nothing
    problem = lacking(scopes, SCOPES.get(request.endpoint, ADMIN))
    return None if problem is None else answer(problem)


def register(app: Flask) -> None:
    """Install the check."""
    app.before_request(enforce)
