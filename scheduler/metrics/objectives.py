"""Objectives: does a request meet its SLO, how many do, and how smoothly the tokens came. Knows lives, no step."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.request import FinishReason
from scheduler.metrics.lives import FINISHED_WELL, Life


def meets(ttft_ms: float | None, tpot_ms: float | None, slo_ttft_ms: float, slo_tpot_ms: float) -> bool:
    """Does a request that ended well meet the SLO pair? An undefined TTFT fails, an undefined TPOT (one token) passes."""
    return ttft_ms is not None and ttft_ms <= slo_ttft_ms and (tpot_ms is None or tpot_ms <= slo_tpot_ms)


def attainment(all_due: Sequence[Life], slo_ttft_ms: float, slo_tpot_ms: float, *, refused: bool = True) -> float | None:
    """Share of *all* requests (failed and rejected ones too) that ended well within both objectives.

    refused=False: of those that were not refused at the door, for how good the promise to the admitted was. State both: a
    server that refuses nearly everybody keeps its word to the rest. Source: Zhong et al., DistServe, OSDI'24.
    """
    asked = [life for life in all_due if refused or life.reason is not FinishReason.REJECTED]
    good = sum(
        life.reason in FINISHED_WELL and meets(_ms(life.ttft), _ms(life.tpot), slo_ttft_ms, slo_tpot_ms) for life in asked
    )
    return good / len(asked) if asked else None


def fluidity(first: float, gaps: Sequence[float], prefill: float, decode: float) -> float:
    """The fluidity index: the share of a request's tokens that came by their deadline, 0 to 1.

    first    time to the first token          gaps    times between tokens; any one unit for all four
    prefill  deadline of the first token      decode  of each further one
    Token j is due `prefill + j · decode` after the request, so that what came early pays for what comes late; after a miss
    the next is due `decode` after the late one. Source: Agrawal et al., Etalon, arXiv 2407.07000.
    """
    if first <= prefill and (not gaps or max(gaps) <= decode):
        return 1.0  # most requests: no token can be late
    late, slack = 0, prefill - first
    for gap in (None, *gaps):
        slack += 0 if gap is None else decode - gap
        if slack < 0:
            late, slack = late + 1, 0.0
    return 1 - late / (len(gaps) + 1)


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e6
