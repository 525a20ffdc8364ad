"""Parts of one whole in percent, as people add them up. Knows no report.

Invariant: what is shown of a whole adds up to 100 and never to more (largest remainders, Hamilton's method); a part that
is not the whole is never shown as 100.
"""

from __future__ import annotations

from collections.abc import Sequence

SMALL = 0.1  # a part below it is worth a decimal, and then all of them have one


def percents(shares: Sequence[float]) -> list[str]:
    """Each share (0..1, together at most 1) without its sign, all with as many decimals."""
    digits = 1 if any(0 < share < SMALL for share in shares) else 0
    unit = 100 * 10**digits
    exact = [share * unit for share in shares]
    whole = [int(value + 1e-9) for value in exact]
    short = round(sum(exact)) - sum(whole)
    for i in sorted(range(len(exact)), key=lambda i: whole[i] - exact[i])[:short]:
        whole[i] += 1
    return [f"{value / 10**digits:.{digits}f}" for value in whole]
