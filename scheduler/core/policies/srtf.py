"""Shortest remaining work first, with limited preemption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.core.policies.base import Keyed, Param, PolicyInfo, Standoff
from scheduler.core.request import Request


class Srtf(Keyed):
    """The least remaining work first; who runs yields to less work while it is young.

    Formula: work left = (O - g) + prompt_weight · (prompt tokens to compute before the first output token), O being the
    hint (or max_tokens) and g the output so far; at least 1, so that a wrong hint is no more than a short job. A waiting
    request takes the place of the running one with the most work left, if that is more than its own, among those with
    g < preempt_below · O. A preempted request ranks by what it has left, so no worse than before; what it has to compute
    again is not counted.
    Source: Schrage's rule; TRAIL (Shahout et al., ICLR'25) for the limit: near its end a request's KV memory is worth
    more than its place.
    Guarantee: with `preempt_below` 1, known lengths and prompts that take no time of their own, served one at a time, no
    order has a smaller mean response time, whenever requests come. A steady stream of short requests starves a long one.
    The gain needs a queue.
    """

    def __init__(self, preempt_below: float = 0.8, prompt_weight: float = 0.05) -> None:
        super().__init__()
        self.preempts = preempt_below > 0
        self._below = preempt_below
        self._prompt_weight = prompt_weight
        self._standoff = Standoff()

    def key_of(self, request: Request, now: int) -> float:
        """What is left; notes the lengths at which it ends, and at which it is young no longer."""
        output = request.output_estimate
        request.queue_data = (request.prompt_tokens + output, request.prompt_tokens + self._below * output)
        prompt = 0.0 if request.output_tokens else self._prompt_weight * (request.prompt_tokens - request.computed)
        return prompt + max(1, output - request.output_tokens)

    def enqueue(self, request: Request, now: int) -> None:
        """By what is left now: less than before, if it has run."""
        request.key = self.key_of(request, now)
        self._queue.push(request)

    def tick(self, decodes: Sequence[Request], changed: bool) -> None:
        """All who run have less left, so who does not yield now will not do so later."""
        self._standoff.step(changed)

    def victim(self, running: Sequence[Request], needy: Request) -> Request | None:
        """The most work left; for a waiting request, among the young ones, and only if it has less left itself."""
        if needy.slot >= 0:
            return self._most_left(running, 0.0, float("inf"))
        if self._standoff.holds(needy, running):
            return None
        worst = self._most_left(running, self.key_of(needy, 0), 0.0)
        if worst is None:
            self._standoff.begin(needy, running, float("inf"))
        return worst

    def _most_left(self, running: Sequence[Request], over: float, grown: float) -> Request | None:
        """Of those with more than `over` left that are young, or shorter than `grown`; of equals, the newest.

        One pass over all who run, so it computes key_of in place.
        """
        worst, most = None, over
        for request in running:
            data: Any = request.queue_data
            length = len(request.tokens)
            if length < data[1] or length < grown:
                left = max(1, data[0] - length)
                if length == request.prompt_tokens:
                    left += self._prompt_weight * (length - request.computed)
                if left > most or (left == most and worst is not None and request.number > worst.number):
                    worst, most = request, left
        return worst


INFO = PolicyInfo(
    name="srtf",
    help="shortest remaining work first, by prompt and expected output; the young yield to it",
    params=(
        Param(
            "preempt_below",
            0.8,
            0.0,
            1.0,
            "a running request may be displaced while its output is below this share of what it is expected to be; 0: never",
        ),
        Param("prompt_weight", 0.05, 0.0, 10.0, "work that a prompt token counts as, output tokens"),
    ),
    source="Schrage's rule; TRAIL (Shahout et al., ICLR'25)",
    guarantee="With preempt_below 1, known lengths and prompts that take no time of their own, served one at a time, no order "
    "has a smaller mean response time, whenever requests come. Long requests can starve.",
    make=lambda params, pool: Srtf(params["preempt_below"], params["prompt_weight"]),
)
