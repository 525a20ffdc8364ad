"""The faults: one small change each, made in the syntax tree of a module of scheduler/core. Runs nothing, writes nothing.

A comparison is turned or shifted, + and - swapped, and and or, a number is one more, a condition reversed, a statement left
out. Assertions, `raise`, docstrings, annotations and what stands outside functions are left alone.
Invariant: a fault's key says where by the function's name, not by the line, so that a fault of a function that nobody touched
is the same fault tomorrow.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORE = ROOT / "scheduler" / "core"
TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OTHER: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.Div: ast.Mult,
}  # fmt: skip
LEFT_OUT = (ast.Assign, ast.AugAssign, ast.Expr, ast.Delete)
LEFT_ALONE = (ast.Assert, ast.Import, ast.ImportFrom, ast.Raise)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `function` is the outermost one; `first` … `line`: where the statement begins, and the changed node."""

    module: str
    function: str
    key: str
    first: int
    line: int
    what: str
    place: int
    turn: int

    @property
    def path(self) -> Path:
        """The file."""
        return ROOT / (self.module.replace(".", "/") + ".py")


@dataclass(frozen=True, slots=True)
class Place:
    """A node of code that runs, the block it stands in (for statements), its statement and its outermost function."""

    node: ast.AST
    block: list[ast.stmt] | None
    statement: ast.stmt
    name: str
    function: ast.FunctionDef


@cache
def source(path: Path) -> str:
    """A file's text, as it was when it was first asked for: the code that was imported."""
    return path.read_text("utf-8")


def modules() -> list[Path]:
    """The files of the core, those that are more than a docstring."""
    return sorted(path for path in CORE.rglob("*.py") if path.name != "__init__.py")


def faults(path: Path) -> Iterator[Fault]:
    """Every fault of one file."""
    module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    same = Counter[str]()
    for number, place in enumerate(_places(ast.parse(source(path)))):
        for turn in range(_turns(place.node)):
            what = _change(copy.deepcopy(place.node), turn)
            text = hashlib.blake2s(ast.unparse(place.function).encode(), digest_size=4).hexdigest()
            key = f"{module}:{place.name}:{text}:{what}"
            same[key] += 1
            first = min([place.statement.lineno, *(node.lineno for node in getattr(place.statement, "decorator_list", ()))])
            line: int = place.node.lineno  # type: ignore[attr-defined]
            yield Fault(module, place.name, f"{key}:{same[key]}", first, line, what, number, turn)


def broken(fault: Fault) -> tuple[ast.Module, ast.FunctionDef]:
    """The module with the fault in it, and in it the function."""
    tree = ast.parse(source(fault.path))
    place = list(_places(tree))[fault.place]
    if isinstance(place.node, LEFT_OUT):
        assert place.block is not None
        at = place.block.index(place.node)
        place.block[at] = ast.copy_location(ast.Pass(), place.node)
    else:
        _change(place.node, fault.turn)
    return ast.fix_missing_locations(tree), place.function


def _places(
    tree: ast.AST, name: str = "", function: ast.FunctionDef | None = None, inside: ast.stmt | None = None
) -> Iterator[Place]:
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "bases", "keywords") and not isinstance(tree, ast.Call):
            continue
        children = value if isinstance(value, list) else [value]
        for child in children:
            if not isinstance(child, ast.AST) or isinstance(child, LEFT_ALONE):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue  # a docstring
            here, within, called = function, child if isinstance(child, ast.stmt) else inside, name
            if function is None and isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                called = f"{name}.{child.name}".lstrip(".")
                here = child if isinstance(child, ast.FunctionDef) else None
            if function is not None and within is not None and hasattr(child, "lineno"):
                yield Place(
                    child, value if isinstance(value, list) and isinstance(child, ast.stmt) else None, within, name, function
                )
            yield from _places(child, called, here, within)


def _turns(node: ast.AST) -> int:
    """How many faults a node gives."""
    if isinstance(node, ast.Compare):
        return len(node.ops)
    number = isinstance(node, ast.Constant) and isinstance(node.value, (int, float))
    kinds = (ast.BoolOp, ast.If, ast.While, ast.IfExp, *LEFT_OUT)
    return int(number or isinstance(node, kinds) or (isinstance(node, ast.BinOp) and type(node.op) in OTHER))


def _change(node: ast.AST, turn: int) -> str:
    """Change a node; says what was done. A statement that is to be left out is left to the caller."""
    before = ast.unparse(node).splitlines()[0]
    if isinstance(node, ast.Compare):
        node.ops[turn] = TURNED[type(node.ops[turn])]()
    elif isinstance(node, ast.BinOp):
        node.op = OTHER[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
        node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
    elif isinstance(node, ast.Constant):
        node.value = (not node.value) if isinstance(node.value, bool) else node.value + 1  # type: ignore[operator]
    else:
        return f"left out: {before}"
    return f"{before}  ->  {ast.unparse(node).splitlines()[0]}"
