"""Shortest job first."""

from __future__ import annotations

from scheduler.core.policies.base import Keyed, PolicyInfo
from scheduler.core.request import Request


def size_of(request: Request) -> int:
    """Tokens that the request is expected to take: its prompt, and the hint (or the most) for its output."""
    return request.prompt_tokens + request.output_estimate


class Sjf(Keyed):
    """The least work first, never taking a place that is held.

    Formula: key = prompt tokens + expected_output_tokens, or + max_tokens without a hint; then received_at.
    Source: Smith's rule; for LLM serving SSJF (Qiu et al., 2024) and learning to rank (Fu et al., NeurIPS'24).
    Guarantee: whoever is admitted is the shortest of all who wait; for requests that are all there, served one at a
    time with known lengths, no order has a smaller mean response time. A steady stream of short requests starves a
    long one, and a wrong hint costs its sender's neighbours.
    """

    def key_of(self, request: Request, now: int) -> tuple[int, int]:
        """Size, then arrival."""
        return (size_of(request), request.received_at)


INFO = PolicyInfo(
    name="sjf",
    help="shortest job first, by prompt and expected output",
    params=(),
    source="Smith's rule; SSJF (Qiu et al., 2024)",
    guarantee="Whoever is admitted is the shortest of all who wait; with known lengths, all there and served one at a "
    "time, no order has a smaller mean response time. Long requests can starve.",
    make=lambda params, pool: Sjf(),
)
