"""The lines of a comparison: points of the true distribution, and bins that no rate is invented in."""

from __future__ import annotations

from typing import Any

import pytest

from app.store.comparison_curves import METRICS, MOST_BINS, MOST_POINTS, cdf, cdfs, series
from app.store.report_rows import StepRow

SECOND = 10**9


def step(end_s: float, seconds: float = 0.1, **fields: Any) -> StepRow:
    """A step that ended so long after t = 0."""
    end = round(end_s * SECOND)
    given: dict[str, Any] = dict.fromkeys(StepRow._fields, 0)
    given |= {"started_at": end - round(seconds * SECOND), "ended_at": end, "ended_wall": end, "binding": "step"}
    return StepRow(**(given | fields))


@pytest.mark.parametrize("n", [1, 2, 399, 400, 401, 10_000])
def test_every_point_is_one_of_the_empirical_distribution(n: int) -> None:
    values = sorted(float((7919 * i) % n) + 0.5 for i in range(n))
    found = cdf("client", values)
    assert found["n"] == n and len(found["ms"]) == min(n, MOST_POINTS)
    for value, share in zip(found["ms"], found["share"], strict=True):
        assert share == sum(each <= value for each in values) / n
    assert found["share"][-1] == 1.0 and found["ms"][-1] == values[-1]


def test_of_nothing_there_is_no_line_and_the_server_speaks_where_no_client_does() -> None:
    client: dict[str, list[float]] = {name: [] for name in METRICS} | {"itl_ms": [3.0]}
    found = cdfs({"client": client, "server": {"ttft_ms": [1.0, 2.0], "tpot_ms": [], "e2e_ms": []}})
    assert found["ttft_ms"] == {"of": "server", "n": 2, "ms": [1.0, 2.0], "share": [0.5, 1.0]}
    assert found["itl_ms"]["of"] == "client" and found["e2e_ms"] == {"of": "server", "n": 0, "ms": [], "share": []}


def test_a_rate_is_over_the_time_in_which_steps_ran_and_a_pause_is_a_gap() -> None:
    steps = [step(0.1, decode_tokens=5, waiting=4, running=2), step(0.2, decode_tokens=5, waiting=2, running=2)]
    steps += [step(1.1, seconds=0.1, decode_tokens=3, waiting=0, running=1)]
    found = series(steps, 0)
    assert found["bin_s"] == 0.25 and found["t_s"] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert found["waiting"] == [3.0, None, None, None, 0.0] and found["running"] == [2.0, None, None, None, 1.0]
    assert found["decode_tok_s"] == [40.0, 0.0, 0.0, 0.0, pytest.approx(30.0)], "10 in 0.25 s; 3 in the 0.1 s there was"


@pytest.mark.parametrize("seconds", [3, 100, 3600, 10**6])
def test_bins_are_bounded_however_long_the_run_was(seconds: int) -> None:
    found = series([step(seconds * i / 500) for i in range(500)], 0)
    assert 10 <= len(found["t_s"]) <= MOST_BINS
    assert len({len(column) for name, column in found.items() if name != "bin_s"}) == 1


def test_a_run_without_steps_has_empty_columns() -> None:
    assert series([], 0) == {"bin_s": 0.25, "t_s": [], "waiting": [], "running": [], "decode_tok_s": []}
