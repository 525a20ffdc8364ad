"""Swap: put a fault into a running process, by giving the live functions the code of the broken source.

Only code is swapped: what a module computed when it was imported stays as it was. Knows no tests.
"""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType

from mutation.mutants import CORE, Fault, broken

Where = tuple[str, str, int]  # file, qualified name, first line


def live_functions() -> dict[Where, list[FunctionType]]:
    """Every function of the core that exists, however it is wrapped: in a property, a class made anew, a registry."""
    found: dict[Where, list[FunctionType]] = {}
    for thing in gc.get_objects():
        # Its true type: isinstance asks it for its class, and a stranger's object may answer with a warning.
        if type(thing) is FunctionType and thing.__code__.co_filename.startswith(str(CORE)):
            found.setdefault(_where(thing.__code__), []).append(thing)
    return found


def swap(fault: Fault, live: dict[Where, list[FunctionType]]) -> bool:
    """Break this process. False if it cannot be done: no such function lives, or it would close over other variables."""
    tree, function = broken(fault)
    codes = [code for code in _inside(compile(tree, str(fault.path), "exec")) if code.co_qualname == fault.function]
    first = min([function.lineno, *(node.lineno for node in function.decorator_list)])
    code = next((code for code in codes if code.co_firstlineno == first), None)
    functions = live.get(_where(code), []) if code else []
    if code is None or not functions or any(f.__code__.co_freevars != code.co_freevars for f in functions):
        return False
    space = vars(sys.modules[fault.module])
    args = function.args
    for live_function in functions:
        live_function.__code__ = code
        if live_function.__defaults__:
            live_function.__defaults__ = tuple(_value(node, space) for node in args.defaults)
        if live_function.__kwdefaults__:
            pairs = zip(args.kwonlyargs, args.kw_defaults, strict=True)
            live_function.__kwdefaults__ = {arg.arg: _value(node, space) for arg, node in pairs if node is not None}
    return True


def _where(code: CodeType) -> Where:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _inside(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _inside(const)


def _value(node: ast.expr, space: dict[str, object]) -> object:
    return eval(compile(ast.Expression(node), "<default>", "eval"), space)  # noqa: S307 - our own source, one node changed
