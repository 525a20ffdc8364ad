"""What a scenario will offer, before anybody is asked: expected arrivals a second over time, stream by stream. Pure.

The figures are integrals of the curves along which arrivals are drawn, not a second account of them.
Invariant: the sum over the bins of rate × length is the expected number of arrivals, of every stream that has one.
"""

from __future__ import annotations

from typing import Any

from loadgen.arrivals import curve
from loadgen.scenario import CLOSED, Arrivals, Scenario, Stream

BINS = 240


def offered(scenario: Scenario, bins: int = BINS) -> dict[str, Any]:
    """{duration_s, bin_s, streams: [{name, loop, process, rates, expected, said}]}; rates: the mean of each bin, or None.

    None where nobody can know: closed loops ask when they are free, and a measured rate is measured first. `said` has it
    in words.
    """
    length = scenario.duration_s / bins
    streams = [_stream(stream, [length * i for i in range(bins + 1)]) for stream in scenario.streams]
    return {"duration_s": scenario.duration_s, "bin_s": length, "streams": streams}


def _stream(stream: Stream, edges: list[float]) -> dict[str, Any]:
    arrivals = stream.arrivals
    about = {"name": stream.name, "loop": arrivals.loop, "process": arrivals.process, "said": _said(arrivals)}
    if arrivals.loop == CLOSED or arrivals.process == "measured":
        return about | {"rates": None, "expected": None}
    along = curve(arrivals)
    come = [along.mass(min(edge, stream.stop_s) - stream.start_s) for edge in edges]
    rates = [round((b - a) / (edges[1] - edges[0]), 6) for a, b in zip(come, come[1:], strict=False)]
    return about | {"rates": rates, "expected": round(come[-1], 3)}


def _said(arrivals: Arrivals) -> str:
    if arrivals.process == "closed":
        return f"{arrivals.users} users, each asks again {arrivals.think_s:g} s after its answer"
    if arrivals.process == "measured":
        share = f"{arrivals.load:g} times the capacity that the first {arrivals.probe_s:g} s measure"
        return f"{share}, at most {arrivals.max_rate:g} requests a second"
    return {"constant": "evenly spaced", "gamma": f"gaps vary by {arrivals.cv:g} of their mean", "list": "as listed"}.get(
        arrivals.process, "Poisson"
    )
