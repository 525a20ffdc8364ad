"""What views of runs share: the problem where the records know no such run or forbid it, and switches. Knows no view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import request

from app.api.errors import ApiError, Problem, bad, conflict
from app.store.errors import QueryError, StoreError


def known_run(call: Callable[..., Any], *args: Any) -> Any:
    """call(*args) of a run; one that does not exist is a 404, and one whose state forbids it a 409."""
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


def switch(name: str, default: bool = False) -> bool:
    """A parameter of the query that is 0 or 1; raises a 400 for anything else."""
    text = request.args.get(name, "")
    if text not in ("", "0", "1"):
        raise bad(f"{name} must be 0 or 1", name, "invalid_value")
    return text == "1" if text else default
