"""The comparison for people: differences first, no raw dict, intervals and n beside each change."""

from __future__ import annotations

from typing import Any

from app.cli.comparison_text import FIGURES, LATENCIES, comparison_text


def row(name: str, *values: float | None, n: int | None = None, interval: tuple[float, float] | None = None) -> dict[str, Any]:
    base = values[0]
    relative = [None if not base or value is None else value / base - 1 for value in values]
    several = len(values)
    return {
        "name": name, "values": list(values), "relative": relative, "n": [n] * several, "few": [False] * several,
        "difference": [None if base is None or value is None else value - base for value in values],
        "interval": [None, *[interval] * (several - 1)],
        "relative_interval": [None, *[interval and base and tuple(end / base for end in interval)] * (several - 1)],
        "reading": [None, *["worse" if interval else None] * (several - 1)],
    }  # fmt: skip


def answer(**changes: Any) -> dict[str, Any]:
    """Two runs: the second waits twice as long."""
    counts = {"sent": 10, "ok": 9, "failed": 0, "refused": 1, "cancelled": 0, "incomplete": 0}
    runs = [
        {"run": {"id": id}, "verdict": "valid", "verdict_reason": None, "headline": f"valid: {id}", "reconciliation": counts}
        for id in ("run_1", "run_2")
    ]
    metrics = [row(f"percentiles.{name}.{q}", None, None, n=0) for name in LATENCIES for q in ("p50", "p95", "p99")]
    metrics += [row(name, None, None) for name in FIGURES]
    known = {each["name"]: each for each in metrics}
    known["percentiles.client.ttft_ms.p95"] |= row("", 100.0, 250.0, n=40, interval=(120.0, 180.0))
    known["percentiles.client.ttft_ms.p50"] |= row("", 50.0, 60.0, n=40)
    known["percentiles.client.ttft_ms.p99"] |= row("", 150.0, 300.0, n=40) | {"few": [True, True]}
    known["goodput.attainment"] |= row("", 0.5, 0.25, interval=(-0.3, -0.2))
    for name, each in known.items():
        each["name"] = name
    waits = [{"name": "slots", "values": [1000.0, 3000.0], "shares": [0.5, 0.75], "relative": [0.0, 2.0]}]
    tenants = [row("a", 5.0, 9.0, n=4) | {"requests": [4, 9]}, row("b", None, 8.0, n=4) | {"requests": [None, 4]}]
    given = {
        "runs": runs, "differing": [{"name": "policy_params", "of": "settings", "values": [{}, {"weight.a": 2.0}]}],
        "sentence": "B is worse: output −50 % (sure)", "warnings": ["run run_2 is invalid", "not like for like: seed 1 vs 2"],
        "metrics": metrics, "waits": waits, "tenants": tenants,
        "interval": {"level": 0.95, "method": "seeded bootstrap"},
    }  # fmt: skip
    return given | changes


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_what_differs_stands_before_every_figure() -> None:
    said = comparison_text(answer())
    places = [
        said.index(word)
        for word in (
            "run_1",
            "B is worse: output",
            "B is invalid",
            "not like for like",
            "policy_params",
            "verdict",
            "TTFT p95",
            "attainment",
            "slots",
        )
    ]
    assert places == sorted(places)


def test_a_change_comes_with_its_interval_and_n() -> None:
    said = lines(comparison_text(answer()))
    assert "TTFT p95 100 250 +150 % [+120, +180] % worse" in said
    assert "TTFT p50 40 50 60 +20 %" in said
    assert "TTFT p99 (150) (300) +100 %" in said
    assert "slots 1000 50 % 3000 75 %" in said
    assert "a 4 of 4 / 4 of 9 5 9 +80 %" in said and "b 4 of 0 / 4 of 4 — 8 —" in said


def test_shares_differ_in_points() -> None:
    given = answer()
    known = {each["name"]: each for each in given["metrics"]}
    known["goodput.fluid"] |= row("", 0.5, 1.0)
    known["waste.idle_share"] |= row("", 0.0, 0.07)
    for name, each in known.items():
        each["name"] = name
    said = lines(comparison_text(given))
    assert "attainment, % 50 25 -25 points [−30, −20] points worse" in said
    assert "fluid answers, % 50 100 +50 points" in said and "time without a step, % 0 7.000 +7 points" in said


def test_each_interval_is_read_in_words_as_on_the_page() -> None:
    given = answer()
    metrics = {each["name"]: each for each in given["metrics"]}
    for word, said in (("better", "better"), ("unclear", "no clear difference"), ("too_few", "n too small")):
        metrics["percentiles.client.ttft_ms.p95"]["reading"] = [None, word]
        text = comparison_text(given)
        assert f"TTFT p95 100 250 +150 % [+120, +180] % {said}" in lines(text) and "reading" in text.split("TTFT p50")[0]
    assert "reading" not in comparison_text(answer(metrics=[each | {"reading": [None, None]} for each in given["metrics"]]))


def test_no_mapping_is_printed_raw_and_what_nobody_has_is_left_out() -> None:
    said = comparison_text(answer())
    assert "{" not in said and "weight.a=2" in said
    assert "TPOT" not in said and "failed" not in said and "refused" in said


def test_equal_settings_are_said_to_be_equal_and_one_tenant_needs_no_table() -> None:
    said = comparison_text(answer(differing=[], tenants=[row("a", 5.0, 9.0, n=4) | {"requests": [4, 4]}]))
    assert "The settings are the same." in said and "by tenant" not in said


def test_five_runs_have_a_letter_each() -> None:
    five = answer()
    five["runs"] = five["runs"] * 2 + five["runs"][:1]
    five["tenants"] = [each | {"requests": [4] * 5} for each in five["tenants"]]
    for each in [*five["metrics"], *five["tenants"]]:
        each |= {
            "values": [1.0] * 5,
            "difference": [0.0] * 5,
            "relative": [0.0] * 5,
            "n": [4] * 5,
            "few": [False] * 5,
            "interval": [None] * 5,
            "relative_interval": [None] * 5,
            "reading": [None] * 5,
        }
    five["waits"] = [{"name": "slots", "values": [1.0] * 5, "shares": [1.0] * 5}]
    five["differing"] = [{"name": "seed", "of": "run", "values": [1, 2, 3, 4, 5]}]
    assert "E − A" in comparison_text(five) and "seed 1 2 3 4 5" in lines(comparison_text(five))
