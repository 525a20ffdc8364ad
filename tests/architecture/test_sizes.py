"""Sizes: a file warns at 250 lines and fails at 400, a function warns at 40 and fails at 60, nesting warns at 4 and fails at 5.

A test file holds one module's laws, so it may have 600 lines. Migrations are history, not code: their functions may be long.
Warnings are said at the end of the session, so that they are seen in a green run too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest
from architecture.sources import PACKAGES, ROOT, Source, python_sources

FILE_WARNS, FILE_FAILS = 250, 400
TEST_WARNS, TEST_FAILS = 400, 600
FUNCTION_WARNS, FUNCTION_FAILS = 40, 60
NESTING_WARNS, NESTING_FAILS = 3, 4
Say = Callable[[str], None]
BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match, ast.AsyncFor, ast.AsyncWith)


def test_no_file_is_too_long(say: Say) -> None:
    sizes = {source.path: source.text.count("\n") for source in python_sources(*PACKAGES, "benchmarks")} | _scripts()
    _judge(sizes, FILE_WARNS, FILE_FAILS, "lines: split it by noun (docs/architecture.md says how a line finds its room)", say)


def test_no_test_file_is_too_long(say: Say) -> None:
    sizes = {source.path: source.text.count("\n") for source in python_sources("tests")}
    _judge(sizes, TEST_WARNS, TEST_FAILS, "lines: split it by the laws it holds", say)


def test_no_function_is_too_long(say: Say) -> None:
    sources = python_sources(*PACKAGES, "benchmarks", "tests")
    sizes = {name: lines for source in sources for name, lines in _functions(source).items()}
    _judge(sizes, FUNCTION_WARNS, FUNCTION_FAILS, "lines: a second verb is hiding in it", say)


def test_no_function_is_nested_too_deep(say: Say) -> None:
    depths = {name: depth for source in python_sources(*PACKAGES) for name, depth in _nesting(source).items()}
    _judge(depths, NESTING_WARNS, NESTING_FAILS, "levels of nesting: leave early, or name the inner block", say)


def test_sizes_are_measured() -> None:
    body = "\n".join("    x = 1" for _ in range(70))
    source = Source("app/x.py", f"class A:\n  def long(self):\n{body}\n")
    assert _functions(source) == {"app/x.py:2 long": 71}
    deep = "def f(a):\n if a:\n  for b in a:\n   with b:\n    while b:\n     pass\n"
    assert _nesting(Source("app/x.py", deep)) == {"app/x.py:1 f": 4}
    flat = "def f(a):\n if a:\n  pass\n elif b:\n  pass\n elif c:\n  pass\n elif d:\n  pass\n elif e:\n  pass\n"
    assert _nesting(Source("app/x.py", flat)) == {"app/x.py:1 f": 1}


def test_a_long_file_fails_and_a_longish_one_warns() -> None:
    said: list[str] = []
    with pytest.raises(AssertionError, match=r"big\.py: 401 lines"):
        _judge({"big.py": 401}, FILE_WARNS, FILE_FAILS, "lines", said.append)
    _judge({"longish.py": 251, "short.py": 9}, FILE_WARNS, FILE_FAILS, "lines", said.append)
    assert said == ["above 250 lines (fails above 400):\n  longish.py: 251"]


def _judge(sizes: dict[str, int], warns: int, fails: int, what: str, say: Say) -> None:
    assert sizes, "nothing was measured"
    over = [f"{name}: {size} {what}" for name, size in sizes.items() if size > fails]
    assert not over, "\n" + "\n".join(over)
    near = [f"  {name}: {size}" for name, size in sizes.items() if size > warns]
    if near:
        say(f"above {warns} {what.partition(':')[0]} (fails above {fails}):\n" + "\n".join(near))


def _scripts() -> dict[str, int]:
    paths = [path for kind in ("js", "css") for path in (ROOT / "static" / kind).rglob(f"*.{kind}")]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8").count("\n") for path in paths}


def _functions(source: Source) -> dict[str, int]:
    return {_name(source, node): (node.end_lineno or 0) - node.lineno + 1 for node in _defs(source)}


def _nesting(source: Source) -> dict[str, int]:
    return {_name(source, node): _depth(node.body) for node in _defs(source)}


def _defs(source: Source) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _name(source: Source, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return f"{source.path}:{node.lineno} {node.name}"


def _depth(body: list[ast.stmt]) -> int:
    return max((_depth_of(statement) for statement in body), default=0)


def _depth_of(node: ast.stmt) -> int:
    if not isinstance(node, BLOCKS):
        return 0
    inner = [child for child in ast.walk(node) if isinstance(child, ast.ExceptHandler | ast.match_case)]
    parts = [getattr(node, name, []) for name in ("body", "finalbody")]
    parts += [part.body for part in inner if part in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]]
    tail = getattr(node, "orelse", [])
    chained = isinstance(node, ast.If) and len(tail) == 1 and isinstance(tail[0], ast.If)
    below = max(_depth(part) for part in parts)
    return max(1 + below, _depth(tail) if chained else 1 + _depth(tail))
