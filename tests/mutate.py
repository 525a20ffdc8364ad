"""Mutation testing of scheduler/core: `make mutation`. One small fault at a time is put into the core; some test must fail.

A fault is made in the syntax tree: a comparison turned or shifted, + for -, and for or, a number one more, a condition
reversed, a statement left out. Assertions, docstrings and type annotations are left alone. The faulty module is never written
to disk: a child process, forked before any module of ours was imported, finds it instead of the file and runs the tests: first
those of the module itself, then those of the whole core. A fault that makes tests run on for too long counts as found.
Arguments: --sample N of all faults, --seed, --only TEXT in the module's name. Prints survivors as it goes, and a JSON summary.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib.abc
import importlib.util
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import hypothesis  # noqa: F401 - imported before the fork, so that no child pays for it
import msgspec  # noqa: F401
import orjson  # noqa: F401
import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "scheduler" / "core"
LIMIT_S = 120
SLOW = ("test_replay", "test_merge", "test_itl_target", "test_decode_group")  # seconds each: only for their own module
QUIET = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OTHER: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.Div: ast.Mult,
}  # fmt: skip
LEFT_OUT = (ast.Assign, ast.AugAssign, ast.Expr, ast.Delete)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: where, and what was done."""

    module: str
    line: int
    what: str
    source: str


def modules() -> list[Path]:
    """The files of the core, those that are more than a docstring."""
    return sorted(path for path in CORE.rglob("*.py") if path.name != "__init__.py")


def faults(path: Path) -> Iterator[Fault]:
    """Every fault of one file."""
    module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    tree = ast.parse(path.read_text("utf-8"))
    for place, (node, _) in enumerate(_places(tree)):
        for turn in range(_turns(node)):
            other = copy.deepcopy(tree)
            found, parent = list(_places(other))[place]
            what = _break(found, parent, turn)
            yield Fault(module, node.lineno, what, ast.unparse(ast.fix_missing_locations(other)))


def _places(tree: ast.AST, inside: bool = False) -> Iterator[tuple[ast.AST, list[ast.stmt] | None]]:
    """Nodes of code that runs, each with the block it stands in (for statements)."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "bases", "keywords") and not isinstance(tree, ast.Call):
            continue
        children = value if isinstance(value, list) else [value]
        for child in children:
            if not isinstance(child, ast.AST) or isinstance(child, (ast.Assert, ast.Import, ast.ImportFrom, ast.Raise)):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue  # a docstring
            here = inside or isinstance(child, ast.FunctionDef)
            if inside and hasattr(child, "lineno"):
                yield child, value if isinstance(value, list) and isinstance(child, ast.stmt) else None
            yield from _places(child, here)


def _turns(node: ast.AST) -> int:
    """How many faults a node gives."""
    if isinstance(node, ast.Compare):
        return len(node.ops)
    number = isinstance(node, ast.Constant) and isinstance(node.value, (int, float))
    kinds = (ast.BoolOp, ast.If, ast.While, ast.IfExp, *LEFT_OUT)
    return int(number or isinstance(node, kinds) or (isinstance(node, ast.BinOp) and type(node.op) in OTHER))


def _break(node: ast.AST, block: list[ast.stmt] | None, turn: int) -> str:
    """Put the fault in; says what it is."""
    before = ast.unparse(node).splitlines()[0]
    if isinstance(node, ast.Compare):
        node.ops[turn] = TURNED[type(node.ops[turn])]()
    elif isinstance(node, ast.BinOp):
        node.op = OTHER[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Constant):
        node.value = (not node.value) if isinstance(node.value, bool) else node.value + 1  # type: ignore[operator]
    elif block is not None and isinstance(node, LEFT_OUT):
        block[block.index(node)] = ast.Pass()
        return f"left out: {before}"
    return f"{before}  ->  {ast.unparse(node).splitlines()[0]}"


class Faulty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the faulty source in place of the file."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """Ours, for one name."""
        if name != self._fault.module:
            return None
        return importlib.util.spec_from_loader(name, self, origin=str(ROOT / (name.replace(".", "/") + ".py")))

    def exec_module(self, module: object) -> None:
        """Run the faulty source as the module."""
        code = compile(self._fault.source, f"<fault in {self._fault.module}>", "exec")
        exec(code, vars(module))  # noqa: S102 - our own source, one node changed


def tests_of(module: str) -> list[list[str]]:
    """What to run, quickest first."""
    name = module.rpartition(".")[2]
    folder = ROOT / "tests" / "scheduler"
    near = [str(path) for path in folder.rglob(f"test_{name}.py")]
    whole = [path for part in ("core", "policies") for path in sorted((folder / part).glob("test_*.py"))]
    rest = [str(path) for path in (*whole, folder / "test_golden_log.py", folder / "test_simple.py") if path.stem not in SLOW]
    return [tests for tests in (near, [test for test in rest if test not in near]) if tests]


def found(fault: Fault) -> bool:
    """Does a test fail? Asked in a child of this process."""
    for tests in tests_of(fault.module):
        child = os.fork()
        if not child:
            _child(fault, tests)
        if _verdict(child):
            return True
    return False


def _child(fault: Fault, tests: list[str]) -> None:
    os.setsid()
    os.environ["SEEDS"] = "60"  # lives of the state machine
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.meta_path.insert(0, Faulty(fault))
    code = 2
    with contextlib.suppress(BaseException):
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", QUIET, *tests])
    os._exit(int(code != 0))


def _verdict(child: int) -> bool:
    ends = time.monotonic() + LIMIT_S
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def main() -> None:
    """Parse, break, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=0, help="so many of all faults; 0: all")
    parser.add_argument("--only", default="", help="modules whose name contains this")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    chosen = [fault for path in modules() for fault in faults(path) if args.only in fault.module]
    if args.sample:
        chosen = random.Random(args.seed).sample(chosen, min(args.sample, len(chosen)))
    unbroken = (ROOT / (chosen[0].module.replace(".", "/") + ".py")).read_text("utf-8")
    if found(Fault(chosen[0].module, 0, "nothing", ast.unparse(ast.parse(unbroken)))):
        sys.exit("mutate: the tests fail without a fault: nothing can be said")
    survivors: list[Fault] = []
    for n, fault in enumerate(chosen, 1):
        if not found(fault):
            survivors.append(fault)
            print(f"survives  {fault.module}:{fault.line}  {fault.what}", flush=True)
        if n % 20 == 0:
            print(f"{n} of {len(chosen)}, {n - len(survivors)} found", file=sys.stderr, flush=True)
    killed = len(chosen) - len(survivors)
    print(json.dumps({"faults": len(chosen), "found": killed, "share": round(killed / len(chosen), 3)}))


if __name__ == "__main__":
    main()
