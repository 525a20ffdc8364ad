"""Rule 1's second half, by syntax: no iteration over sets and no built-in hash(), since their order is nobody's decision.

Types are guessed from what is written: a set display, a call of set() or frozenset(), an annotation, a set operator, and
the names and attributes that such a value was given to. `sorted(a_set)` is an order, so it is allowed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

SET_TYPES = {"set", "frozenset", "Set", "AbstractSet", "FrozenSet", "MutableSet"}
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference", "copy"}
TAKES_IN_ORDER = {"list", "tuple", "enumerate", "iter", "next", "zip", "map", "filter", "deque", "fromkeys", "join", "extend"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def impure(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, what) for each iteration over a set and each call of hash()."""
    attributes = _set_attributes(tree)
    for scope in [tree, *(node for node in ast.walk(tree) if isinstance(node, FUNCTIONS))]:
        yield from _in_scope(scope, attributes)


def _in_scope(scope: ast.AST, attributes: set[str]) -> Iterator[tuple[int, str]]:
    nodes = list(_own_nodes(scope))
    names = {arg.arg for arg in _arguments(scope) if arg.annotation and _names_a_set(arg.annotation)}
    for node in nodes:
        names |= {target.id for target in _given_a_set(node, names, attributes) if isinstance(target, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hash":
            yield node.lineno, "calls the built-in hash()"
        for value in _iterated(node):
            if _is_set(value, names, attributes):
                yield value.lineno, f"iterates over the set `{ast.unparse(value)}`"


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the functions in it."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, FUNCTIONS):
            yield child
            yield from _own_nodes(child)


def _set_attributes(tree: ast.Module) -> set[str]:
    """Names of the attributes that hold sets: `self.x = set()`, `self.x: set[int]`, and fields of classes."""
    nodes = list(ast.walk(tree))
    fields = [statement for node in nodes if isinstance(node, ast.ClassDef) for statement in node.body]
    of_class = {target.id for node in fields for target in _given_a_set(node, set(), set()) if isinstance(target, ast.Name)}
    targets = [target for node in nodes for target in _given_a_set(node, set(), set())]
    return of_class | {target.attr for target in targets if isinstance(target, ast.Attribute)}


def _arguments(scope: ast.AST) -> list[ast.arg]:
    if not isinstance(scope, FUNCTIONS):
        return []
    return [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]


def _given_a_set(node: ast.AST, names: set[str], attributes: set[str]) -> list[ast.Name | ast.Attribute]:
    if isinstance(node, ast.AnnAssign):
        targets = [node.target] if _names_a_set(node.annotation) else []
    elif isinstance(node, ast.Assign):
        targets = node.targets if _is_set(node.value, names, attributes) else []
    elif isinstance(node, ast.NamedExpr):
        targets = [node.target] if _is_set(node.value, names, attributes) else []
    else:
        targets = []
    return [target for target in targets if isinstance(target, ast.Name | ast.Attribute)]


def _names_a_set(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.BinOp):
        return _names_a_set(annotation.left) or _names_a_set(annotation.right)
    if isinstance(annotation, ast.Subscript):
        return _names_a_set(annotation.value)
    return (annotation.attr if isinstance(annotation, ast.Attribute) else getattr(annotation, "id", "")) in SET_TYPES


def _is_set(value: ast.expr, names: set[str], attributes: set[str]) -> bool:
    if isinstance(value, ast.Set | ast.SetComp):
        return True
    if isinstance(value, ast.Name):
        return value.id in names
    if isinstance(value, ast.Attribute):
        return value.attr in attributes
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
        return any(_is_set(side, names, attributes) or _is_keys(side) for side in (value.left, value.right))
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value.func.attr in SET_METHODS and _is_set(value.func.value, names, attributes)
    return isinstance(value, ast.Call) and getattr(value.func, "id", "") in ("set", "frozenset")


def _is_keys(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "keys"


def _iterated(node: ast.AST) -> list[ast.expr]:
    """The expressions whose order of iteration `node` takes over."""
    if isinstance(node, ast.For | ast.comprehension):
        return [node.iter]
    if isinstance(node, ast.Starred | ast.YieldFrom):
        return [node.value]
    if not isinstance(node, ast.Call):
        return []
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    popped = [node.func.value] if isinstance(node.func, ast.Attribute) and name == "pop" and not node.args else []
    return [*popped, *(node.args if name in TAKES_IN_ORDER else [])]
