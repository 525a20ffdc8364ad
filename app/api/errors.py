"""Errors of the HTTP face: the OpenAI error object, everywhere. Knows no view and no engine.

Invariant: every answer of 400 and above carries {"error": {"message", "type", "param", "code"}}; none carries a traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson
from flask import Flask, Response
from werkzeug.exceptions import HTTPException, InternalServerError

from app.store.errors import StoreFailed
from scheduler.errors import BatchscopeError

log = logging.getLogger("batchscope")

NO_RETRY = {"x-should-retry": "false"}


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong, as the outside is told. `param`: the field at fault; `code`: a word for programs."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """OpenAI's two families."""
        return "server_error" if self.status >= 500 else "invalid_request_error"

    def body(self) -> bytes:
        """The error object as JSON."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return orjson.dumps({"error": error})


class ApiError(BatchscopeError):
    """Raised in a view, answered as its problem. `detail`: the records' word for it, where that is not its code."""

    def __init__(self, problem: Problem, detail: str | None = None) -> None:
        super().__init__(problem.message, problem.param)
        self.problem = problem
        self.detail = detail or problem.code or "invalid"


def bad(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """A 400 that names the field at fault."""
    return ApiError(Problem(400, message, param, code))


def not_found(what: str, code: str = "not_found") -> ApiError:
    """A 404 for a thing that does not exist; `what` names it."""
    return ApiError(Problem(404, f"{what} does not exist", None, code))


def conflict(message: str, code: str, param: str | None = None) -> ApiError:
    """A 409: the state of the server forbids it now."""
    return ApiError(Problem(409, message, param, code, NO_RETRY))


def unavailable(message: str, code: str, retry_after_s: float = 1.0, status: int = 503) -> ApiError:
    """Come back later: an integer Retry-After between 1 and 60 seconds."""
    seconds = str(min(60, max(1, round(retry_after_s + 0.49))))
    return ApiError(Problem(status, message, None, code, {"Retry-After": seconds}))


def answer(problem: Problem) -> Response:
    """The problem as a Flask response."""
    return Response(problem.body(), problem.status, dict(problem.headers), content_type="application/json")


def _api_error(error: ApiError) -> Response:
    return answer(error.problem)


def _no_records(error: StoreFailed) -> Response:
    """The records cannot be read for now."""
    log.warning("%s", error.message)
    return answer(Problem(503, "the records cannot be read now", None, "storage_failed", {"Retry-After": "5"}))


def _refused(error: BatchscopeError) -> Response:
    """A library error that reached a view: the caller's fault, with the field it names."""
    return answer(Problem(400, error.message, error.param, "invalid_value"))


def http_error(error: HTTPException) -> Response:
    """What Flask refuses by itself, as the error object."""
    status = error.code or 500
    code = {404: "unknown_url", 405: "method_not_allowed", 413: "body_too_large"}.get(status)
    allow = {name: value for name, value in error.get_headers() if name.lower() == "allow"}
    return answer(Problem(status, error.description or error.name, None, code, allow))


def _crashed(error: InternalServerError) -> Response:
    cause = error.original_exception or error
    log.error("a view failed", exc_info=cause)
    return answer(Problem(500, "an error on our side; the server's log has it under this X-Request-Id", None, "internal"))


def register(app: Flask) -> None:
    """Install the handlers."""
    app.register_error_handler(ApiError, _api_error)
    app.register_error_handler(StoreFailed, _no_records)
    app.register_error_handler(BatchscopeError, _refused)
    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(InternalServerError, _crashed)
