"""Default-deny, enumerated: every route × every method × every key. A new view without a line of its own fails here."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from werkzeug.exceptions import MethodNotAllowed

from app import keys
from app.api import scopes
from app.api.scopes import ADMIN, ANY, INFER, LOAD, READ
from app.callers import allowed_hosts, allowed_origins
from app.factory import create_app
from app.gate import Gate, Rules

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND", "BREW")
HOSTS = allowed_hosts("127.0.0.1", 8000, [])
KEYS = keys.read_keys("\n".join(f"{scope}-only key-{scope} {scope}" for scope in keys.SCOPES) + "\nall key-all\n")
LOCKED = "forgotten"
ASKS = ("sql.ask_sql",)  # POST, as a statement is too long for an address; it reads only (tests/app/store/test_console.py)


@pytest.fixture(scope="module")
def app() -> Flask:
    """The real routes, with views that only say that they were reached; one of them has no line in the table."""
    made = create_app(None, [])  # type: ignore[arg-type]  # no view of it runs
    made.add_url_rule("/forgotten", LOCKED, methods=["GET", "POST"])
    for endpoint in [*made.view_functions, LOCKED]:
        made.view_functions[endpoint] = lambda **_: "reached"
    return made


@pytest.fixture
def gate(app: Flask) -> Gate:
    return Gate(app.wsgi_app, Rules(HOSTS, allowed_origins(HOSTS), KEYS))


def ask(gate: Gate, method: str, path: str, key: str | None) -> tuple[int, bytes]:
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method, "PATH_INFO": path, "HTTP_HOST": "127.0.0.1:8000", "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000", "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(), "REMOTE_ADDR": "127.0.0.1",
        "QUERY_STRING": "", "wsgi.errors": io.StringIO(), "SCRIPT_NAME": "",
    }  # fmt: skip
    if key is not None:
        environ["HTTP_AUTHORIZATION"] = f"Bearer {key}"
    status = 0

    def start(line: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        nonlocal status
        status = int(line.split()[0])

    pieces: Any = gate(environ, start)
    body = b"".join(pieces)
    if hasattr(pieces, "close"):
        pieces.close()
    return status, body


def routes(app: Flask) -> Iterator[tuple[str, str, set[str]]]:
    """(endpoint, a path of it, its methods)"""
    for rule in app.url_map.iter_rules():
        path = rule.rule
        for name in rule.arguments:
            for converter in ("", "path:", "int:", "int(signed=True):"):
                path = path.replace(f"<{converter}{name}>", "7")
        assert "<" not in path, f"fill {rule.rule} in"
        yield rule.endpoint, path, set(rule.methods or ())


def test_every_view_has_its_line_and_no_line_is_without_a_view(app: Flask) -> None:
    endpoints = {rule.endpoint for rule in app.url_map.iter_rules()} - {LOCKED}
    assert sorted(endpoints - scopes.SCOPES.keys()) == [], "say in app/api/scopes.py which scope the view needs"
    assert sorted(scopes.SCOPES.keys() - endpoints) == []
    assert set(scopes.SCOPES.values()) == {ANY, INFER, READ, LOAD, ADMIN}
    assert {INFER, READ, LOAD, ADMIN} == set(keys.SCOPES)


def test_what_changes_state_needs_more_than_reading(app: Flask) -> None:
    for endpoint, path, methods in routes(app):
        if methods - {"GET", "HEAD", "OPTIONS"} and endpoint not in (LOCKED, *ASKS):
            assert scopes.SCOPES[endpoint] in (INFER, LOAD, ADMIN), path


def test_without_a_key_nothing_answers_but_livez(app: Flask, gate: Gate) -> None:
    answered = {}
    for _, path, _ in routes(app):
        for method in METHODS:
            for key in (None, "wrong"):
                status, body = ask(gate, method, path, key)
                if status not in (401, 429):
                    answered[path, method] = status
                assert status in (401, 429) or path == "/livez" or b"reached" not in body
    assert sorted(answered) == [("/livez", "GET"), ("/livez", "HEAD"), ("/livez", "OPTIONS")]


def test_a_key_opens_what_its_scope_says_and_nothing_else(app: Flask, gate: Gate) -> None:
    lookup = app.url_map.bind("127.0.0.1")
    tried = 0
    for path in sorted({path for _, path, _ in routes(app)}):
        for method in METHODS:
            try:
                endpoint = lookup.match(path, method)[0]
            except MethodNotAllowed:
                endpoint = None
            for scope in (*keys.SCOPES, "all"):
                needed = ANY if endpoint is None else scopes.SCOPES.get(endpoint, ADMIN)
                may = needed == ANY or scope in (needed, "all")
                status, body = ask(gate, method, path, f"key-{scope}")
                assert status == (405 if endpoint is None else 200 if may else 403), (path, method, scope)
                assert (b"reached" in body) == (may and endpoint is not None and method not in ("HEAD", "OPTIONS"))
                assert status != 403 or method == "HEAD" or b'"insufficient_scope"' in body
                tried += 1
    assert tried > 1000


def test_a_view_without_a_line_is_locked(gate: Gate) -> None:
    assert ask(gate, "POST", "/forgotten", "key-load")[0] == 403
    assert ask(gate, "POST", "/forgotten", "key-admin") == (200, b"reached")


def test_without_keys_there_are_no_scopes(app: Flask) -> None:
    gate = Gate(app.wsgi_app, Rules(HOSTS, allowed_origins(HOSTS)))
    assert ask(gate, "POST", "/forgotten", None)[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "//v1/completions", "/v1//completions", "/V1/completions", "/v1/completions/", "/./v1/completions",
        "/x/../v1/completions", "/v1/completions;a=b", "/v1/completions\x00", "/v1/completions%00",
        "/livez/../v1/completions", "/livez/", "/livez;/v1",
        "/livez\x00", "/LIVEZ", "//livez", "/socket.io/../v1/completions", "/static/../v1/completions", "", "*", "/socket.io",
        "\\v1\\completions", "/v1/completions?", "/v1/\xe9", "/v1/completions/..", "/v1\x2fcompletions ",
    ],
)  # fmt: skip
def test_no_spelling_of_a_path_is_served_without_a_key(gate: Gate, path: str) -> None:
    for method in ("GET", "POST"):
        status, body = ask(gate, method, path, None)
        assert 400 <= status < 500 and b"reached" not in body and b'"error"' in body
        if "completions" in path:
            assert b"reached" not in ask(gate, method, path, "key-load")[1]
