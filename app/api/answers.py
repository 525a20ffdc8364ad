"""How views answer: JSON, and what is kept as a file. Knows no view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from flask import Response


def json_answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The body as JSON."""
    data = orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS)
    return Response(data, status, headers, content_type="application/json")


def attached(name: str) -> dict[str, str]:
    """The headers of an answer that is kept as a file of that name, in the letters that every file system takes."""
    kept = "".join(letter for letter in name if letter.isascii() and (letter.isalnum() or letter in "._-"))
    return {"Content-Disposition": f'attachment; filename="{kept}"'}
