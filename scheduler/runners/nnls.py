"""Least squares under the condition that no coefficient is negative, for tens of coefficients and thousands of rows.

The active-set method of Lawson & Hanson (Solving Least Squares Problems, 1974, ch. 23) on the normal equations, as Bro &
de Jong (J. Chemometrics 11, 1997) have it. Columns are scaled to unit length first. Knows no cost model.
Invariant: every coefficient is >= 0, and one that is 0 could not lower the error by growing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt

Row = Sequence[tuple[int, float]]  # (column, value) of what is not 0
RIDGE = 1e-10  # on unit columns: two that say the same share what they say
ENOUGH = 1e-9
MOST_ROUNDS = 500


def nnls(rows: Iterable[tuple[Row, float]], columns: int) -> list[float]:
    """The coefficients x >= 0 for which the sum of (row · x - target)² is least; `rows`: (row, target)."""
    gram, right = [[0.0] * columns for _ in range(columns)], [0.0] * columns
    for row, target in rows:
        for i, value in row:
            right[i] += value * target
            line = gram[i]
            for j, other in row:
                line[j] += value * other
    scale = [1 / sqrt(gram[i][i]) if gram[i][i] > 0 else 0.0 for i in range(columns)]
    gram = [[gram[i][j] * scale[i] * scale[j] for j in range(columns)] for i in range(columns)]
    right = [right[i] * scale[i] for i in range(columns)]
    return [x * s for x, s in zip(_active_set(gram, right), scale, strict=True)]


def _active_set(gram: list[list[float]], right: list[float]) -> list[float]:
    n = len(right)
    x, held = [0.0] * n, list[int]()
    for _ in range(MOST_ROUNDS):
        slope = [right[i] - sum(gram[i][j] * x[j] for j in held) for i in range(n)]
        free = [i for i in range(n) if i not in held and slope[i] > ENOUGH * max(1.0, abs(right[i]))]
        if not free:
            break
        held.append(max(free, key=lambda i: slope[i]))
        x, held = _settle(gram, right, x, held)
    return x


def _settle(gram: list[list[float]], right: list[float], x: list[float], held: list[int]) -> tuple[list[float], list[int]]:
    """Towards the solution over `held`, giving up those that would fall below 0 on the way."""
    while held:
        wanted = _solve([[gram[i][j] + (RIDGE if i == j else 0.0) for j in held] for i in held], [right[i] for i in held])
        sinking = [(x[i] / (x[i] - want), i) for i, want in zip(held, wanted, strict=True) if want <= 0]
        share = min(sinking)[0] if sinking else 1.0
        moved = [0.0] * len(x)
        for i, want in zip(held, wanted, strict=True):
            moved[i] = max(0.0, x[i] + share * (want - x[i]))
        if not sinking:
            return moved, held
        gone = min(sinking)[1]
        moved[gone] = 0.0
        x, held = moved, [i for i in held if i != gone]
    return [0.0] * len(x), held


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gauss with partial pivoting; the matrix is positive definite by the ridge."""
    n = len(right)
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    for k in range(n):
        best = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[best] = rows[best], rows[k]
        for i in range(k + 1, n):
            factor = rows[i][k] / rows[k][k]
            if factor:
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    found = [0.0] * n
    for k in reversed(range(n)):
        found[k] = (rows[k][n] - sum(rows[k][j] * found[j] for j in range(k + 1, n))) / rows[k][k]
    return found
