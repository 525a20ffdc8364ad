"""Least slack first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.core.policies.base import PREEMPT, Keyed, Param, PolicyInfo, Standoff
from scheduler.core.request import Request

MS = 1_000_000


class LeastSlack(Keyed):
    """Who can least afford to wait: the deadline less the time that is still needed to meet it.

    Formula: slack = deadline - now - R. While requests wait, all slacks fall alike, so the order is that of the constant
    key deadline - R. R = prompt_ms · (tokens to compute) + output_ms · (O - g), O being the hint (or max_tokens) and g
    the output so far; who names no deadline is due `default_ms` after arrival. With `preempt`, a waiting request takes
    the place of the running one with the most slack, if that is more than its own by over `margin_ms`: without a margin
    two of equal slack take turns in every step, and each turn computes a sequence again. A preempted request ranks by
    the slack that it has then.
    Source: least laxity first (Mok, 1983; Dertouzos & Mok, 1989).
    Guarantee: with `preempt`, no margin and R exact, served one at a time, all deadlines are met whenever any order can
    meet them. Past capacity it is no better than first come, first served.
    """

    def __init__(
        self,
        default_ms: float = 60_000.0,
        prompt_ms: float = 0.1,
        output_ms: float = 20.0,
        preempt: int = 0,
        margin_ms: float = 100.0,
    ) -> None:
        super().__init__()
        self.preempts = bool(preempt)
        self._default = int(default_ms * MS)
        self._prompt = int(prompt_ms * MS)
        self._output = int(output_ms * MS)
        self._margin = int(margin_ms * MS)
        self._standoff = Standoff()

    def key_of(self, request: Request, now: int) -> int:
        """When it must be served without a break to be in time, ns."""
        due = request.received_at + self._default if request.deadline_at is None else request.deadline_at
        request.queue_data = (due, request.prompt_tokens + request.output_estimate)
        missing = request.missing if request.output_tokens == 0 or request.slot < 0 else 0
        left = max(1, request.output_estimate - request.output_tokens)
        return due - self._prompt * missing - self._output * left

    def enqueue(self, request: Request, now: int) -> None:
        """By what it needs now."""
        request.key = self.key_of(request, now)
        self._queue.push(request)

    def tick(self, decodes: Sequence[Request], changed: bool) -> None:
        """All who run have gained a token's time of slack on all who wait."""
        self._standoff.step(changed)

    def victim(self, running: Sequence[Request], needy: Request) -> Request | None:
        """The most slack; for a waiting request, only if that is more than its own and the margin."""
        return self._standoff.yields(needy, running, self._most_slack, self._reprieve)

    def _reprieve(self, needy: Request, slack: float) -> float:
        """Each step is worth a token's time."""
        return (self.key_of(needy, 0) + self._margin - slack) / self._output

    def _most_slack(self, running: Sequence[Request]) -> tuple[int, Request | None]:
        """The largest key as of now, and whose it is; of equals, the newest. One pass, so it computes key_of in place."""
        most, worst = 0, None
        for request in running:
            data: Any = request.queue_data
            length, ends = len(request.tokens), data[1]
            slack = data[0] - self._output * (ends - length if length < ends else 1)
            if length == request.prompt_tokens:
                slack -= self._prompt * (length - request.computed)
            if worst is None or slack > most or (slack == most and request.number > worst.number):
                most, worst = slack, request
        return most, worst


INFO = PolicyInfo(
    name="least_slack",
    help="least slack first: the deadline less the time that is still needed to meet it",
    params=(
        Param("default_ms", 60_000.0, 1.0, 86_400_000.0, "deadline of a request that names none, ms after arrival"),
        Param("prompt_ms", 0.1, 0.0, 1000.0, "time that a prompt token is expected to take, ms"),
        Param("output_ms", 20.0, 0.001, 10_000.0, "time that an output token is expected to take, ms"),
        PREEMPT,
        Param("margin_ms", 100.0, 0.0, 86_400_000.0, "slack by which a waiting request must be worse off to displace, ms"),
    ),
    source="least laxity first (Mok, 1983; Dertouzos & Mok, 1989)",
    guarantee="With preempt, no margin and exact estimates, served one at a time, all deadlines are met whenever any order "
    "can meet them. Past capacity it is no better than fcfs.",
    make=lambda params, pool: LeastSlack(
        params["default_ms"], params["prompt_ms"], params["output_ms"], int(params["preempt"]), params["margin_ms"]
    ),
)
