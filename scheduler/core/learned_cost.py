"""LearnedCost: what a step takes on an engine that nobody has measured. Knows sums of committed steps, and nothing else.

Model: ms = w · (1, decodes, context, prefill tokens), all w ≥ 0, by least squares over steps that fade, in plain floats.
Real steps are not quite of this form; they are near it around the point of work, which is where the steps come from.
  two memories   steps of decodes alone and steps with prefill fade each by its own count, so that a long calm does not
                 forget what a prefill costs; of the former every eighth is taken, as they are many and alike
  what is not told  stays: the solution is pulled, weakly, to the one before it, so that a direction in which all steps are
                 alike keeps its last value
  caution        the estimate is raised by its own mean error; beyond twice the largest prefill seen it is infinite, so
                 that a cold engine feels its way up; a step that took many times its estimate counts as if it were less
Invariant: the same steps in the same order give the same estimates, bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

KEEP = 0.98
EVERY = 8  # of the steps of decodes alone, one in so many is taken
RENEWED = 64  # ... and after so many the estimate is made anew
ERROR_FADE = 0.1
OUTLIER = 4.0
REACH = 32  # prefill tokens that an engine is trusted with of which nothing is known
PULL = 1e-3
N = 4


def features(decodes: int, context: int, prefill_tokens: int) -> tuple[float, float, float, float]:
    """The model's variables, scaled to be of one size."""
    return 1.0, decodes / 64, context / 65_536, prefill_tokens / 1024


class Sums:
    """Normal equations of steps that fade."""

    __slots__ = ("xx", "xy")

    def __init__(self) -> None:
        self.xx = [[0.0] * N for _ in range(N)]
        self.xy = [0.0] * N

    def add(self, x: Sequence[float], y: float) -> None:
        """One more step; those before it count a little less."""
        xy = self.xy
        for i, row in enumerate(self.xx):
            xi = x[i]
            row[:] = [old * KEEP + xi * xj for old, xj in zip(row, x, strict=True)]
            xy[i] = xy[i] * KEEP + xi * y


class LearnedCost:
    """The estimate; `version` changes with it."""

    def __init__(self) -> None:
        self.version = 0
        self._weights = [0.0] * N
        self._decode = Sums()
        self._prefill = Sums()
        self._decode_steps = 0
        self._reach = REACH
        self._error = 1.0  # mean of |took - estimate| / took over steps with prefill

    def step_ns(self, decodes: int, context: int, chunks: Sequence[tuple[int, int]]) -> float:
        """Estimated ns of a step; infinite where it knows nothing."""
        prefill_tokens = sum([tokens for tokens, _ in chunks])
        if prefill_tokens > self._reach:
            return math.inf
        ms: float = sum(map(mul, self._weights, features(decodes, context, prefill_tokens)))
        return ms * (1 + self._error) * 1e6

    def observe(self, decodes: int, context: int, prefill_tokens: int, took_ns: int) -> None:
        """A step of these sums took so long."""
        if not prefill_tokens:
            self._decode_steps += 1
            if self._decode_steps % EVERY:
                return
        x, ms = features(decodes, context, prefill_tokens), took_ns / 1e6
        guess: float = sum(map(mul, self._weights, x))
        if guess > 0:
            ms = min(ms, OUTLIER * guess)
        if prefill_tokens:
            self._prefill.add(x, ms)
            self._error += ERROR_FADE * (abs(ms - guess) / max(ms, 1e-9) - self._error)
            self._reach = max(self._reach, 2 * prefill_tokens)
        else:
            self._decode.add(x, ms)
        if prefill_tokens or not self._decode_steps % RENEWED:
            self._renew()

    def _renew(self) -> None:
        """Least squares with w ≥ 0: what comes out negative is 0, and the others are solved for again."""
        rows = zip(self._decode.xx, self._prefill.xx, strict=True)
        xx = [[a + b for a, b in zip(one, two, strict=True)] for one, two in rows]
        xy = [a + b + PULL * w for a, b, w in zip(self._decode.xy, self._prefill.xy, self._weights, strict=True)]
        for i in range(N):
            xx[i][i] += PULL
        used = list(range(N))
        solution = solve(xx, xy, used)
        while min(solution) < 0:
            used.remove(solution.index(min(solution)))
            solution = solve(xx, xy, used)
        self._weights = solution
        self.version += 1


def solve(xx: Sequence[Sequence[float]], xy: Sequence[float], used: Sequence[int]) -> list[float]:
    """Solve for the variables `used` of a positive definite system (no pivots needed); the others are 0."""
    rows = [[xx[i][j] for j in used] + [xy[i]] for i in used]
    for k, pivot in enumerate(rows):
        for row in rows[k + 1 :]:
            factor = row[k] / pivot[k]
            row[k:] = [a - factor * b for a, b in zip(row[k:], pivot[k:], strict=True)]
    answer = [0.0] * N
    for k in range(len(rows) - 1, -1, -1):
        known = sum([rows[k][j] * answer[used[j]] for j in range(k + 1, len(rows))])
        answer[used[k]] = (rows[k][-1] - known) / rows[k][k]
    return answer
