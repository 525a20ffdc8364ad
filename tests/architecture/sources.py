"""The project's own files, read as text and as syntax trees. Knows no rule.

Invariant: a Source is made from text alone, so a rule can be shown a snippet as easily as a file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("scheduler", "app", "loadgen")
FOLDERS = (*PACKAGES, "migrations", "tests", "benchmarks")


@dataclass(frozen=True)
class Import:
    """One imported thing: `module` as written or resolved, `name` of a from-import or None, and where it stands.

    in_function: below a `def`; typing_only: under `if TYPE_CHECKING`, so it is knowledge but loads nothing.
    """

    module: str
    name: str | None
    line: int
    in_function: bool = False
    typing_only: bool = False

    @property
    def top(self) -> str:
        """The distribution-level name: `flask` of `flask.views`."""
        return self.module.partition(".")[0]

    @property
    def full(self) -> str:
        """`module.name`, which may be a module or something in one."""
        return f"{self.module}.{self.name}" if self.name else self.module


@dataclass(frozen=True)
class Source:
    """A Python file: its path from the root, and its text."""

    path: str
    text: str = field(repr=False)

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text, self.path)

    @property
    def module(self) -> str:
        """The dotted name under which it is imported."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def package(self) -> str:
        """The dotted name against which its relative imports are resolved."""
        return self.module if self.path.endswith("/__init__.py") else self.module.rpartition(".")[0]

    @cached_property
    def imports(self) -> list[Import]:
        """Every import, wherever it stands, `importlib.import_module("…")` and `__import__("…")` among them."""
        return list(_imports(self.tree, self.package, in_function=False, typing_only=False))

    def calls(self, names: set[str]) -> list[tuple[int, str]]:
        """(line, name) of each call of one of these bare names."""
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return [(node.lineno, node.func.id) for node in calls if isinstance(node.func, ast.Name) and node.func.id in names]

    def inside(self, *rooms: str) -> bool:
        """Is it one of these modules, or below one of them?"""
        return within(self.module, *rooms)


def within(module: str, *rooms: str) -> bool:
    """Is `module` one of these, or below one of them?"""
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def python_sources(*folders: str) -> list[Source]:
    """The Python files of these folders, in order of path."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]


def _imports(node: ast.AST, package: str, *, in_function: bool, typing_only: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        for module, name in _named_by(child, package):
            yield Import(module, name, child.lineno, in_function, typing_only)
        function = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typing = typing_only or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
        yield from _imports(child, package, in_function=function, typing_only=typing)


def _named_by(node: ast.AST, package: str) -> list[tuple[str, str | None]]:
    if isinstance(node, ast.Import):
        return [(alias.name, None) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [(_absolute(node, package), alias.name) for alias in node.names]
    if isinstance(node, ast.Call) and (name := _loaded_by_call(node)):
        return [(name, None)]
    return []


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    base = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def _loaded_by_call(call: ast.Call) -> str | None:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name not in ("import_module", "__import__") or not call.args:
        return None
    first = call.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
