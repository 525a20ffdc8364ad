"""A report as text, its headline first. Knows the JSON of reports, from the server or from the load generator alone.

Invariant: percentiles of which there are too few requests are in parentheses; what is undefined is `—`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.cli.terminal import NONE, cell, number, pairs, table

QUANTILES = ("p50", "p90", "p95", "p99")
HEADINGS = [("metric", ""), ("n", "n"), *((q, q) for q in QUANTILES)]


def report_text(report: Mapping[str, Any]) -> str:
    """The whole report of a run."""
    parts = [str(report.get("headline") or "client-only report: the server keeps no records of ours")]
    parts.append(_about(report))
    parts.append(_reconciliation(report["reconciliation"]))
    parts += _percentiles(report["percentiles"])
    parts.append(_goodput(report["goodput"], report.get("throughput") or {}))
    parts.append(_waits(report.get("waits") or {}))
    parts.append(_steps(report.get("steps") or {}))
    parts.append(_tenants((report.get("fairness") or {}).get("tenants") or {}))
    parts.append(_errors(report.get("errors") or report["reconciliation"].get("broken") or []))
    return "\n\n".join(part for part in parts if part)


def comparison_text(answer: Mapping[str, Any]) -> str:
    """Runs side by side; the first is what the others are compared with."""
    runs = answer["runs"]
    names = [run["run"]["id"] for run in runs]
    columns = [("name", "")]
    for index, name in enumerate(names):
        columns += [(f"v{index}", name)] + ([(f"d{index}", "change")] if index else [])
    parts = ["\n".join(f"{run['run']['id']}: {run['headline']}" for run in runs), *answer["warnings"]]
    if answer["differing"]:
        settings = [
            {"name": row["name"]} | {f"v{i}": value for i, value in enumerate(row["values"])} for row in answer["differing"]
        ]
        parts.append(table(settings, [("name", "setting"), *((f"v{i}", name) for i, name in enumerate(names))]))
    parts.append(table([_compared(row) for row in answer["metrics"]], columns))
    if answer["waits"]:
        parts.append(table([_compared({**row, "name": f"wait ms: {row['name']}"}) for row in answer["waits"]], columns))
    return "\n\n".join(parts)


def _about(report: Mapping[str, Any]) -> str:
    run = report.get("run")
    known = run if isinstance(run, Mapping) else {**report, "id": run}
    shown = {name: known.get(name) for name in ("id", "scenario", "seed", "started", "target", "url", "model", "error")}
    return pairs({name: value for name, value in shown.items() if value is not None})


def _reconciliation(counts: Mapping[str, Any]) -> str:
    terms = " + ".join(f"{counts[name]} {name}" for name in ("ok", "failed", "refused", "cancelled", "incomplete"))
    line = f"sent {counts['sent']} = {terms}"
    if counts.get("server_rows") is None:
        return line
    return f"{line}\nserver rows {counts['server_rows']}, difference {counts['difference']}"


def _percentiles(found: Mapping[str, Any]) -> list[str]:
    if "client" not in found:
        return ["Client, ms, over ok requests\n" + _figures(found)]
    sides = (("client", "Client, ms, over ok requests"), ("server", "Server, ms, over requests that ended well"))
    return [f"{title}\n{_figures(found[side])}" for side, title in sides]


def _figures(metrics: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, figures in metrics.items():
        thin = _thin(figures)
        shown = {q: f"({number(figures[q])})" if q in thin else figures[q] for q in QUANTILES if q in figures}
        rows.append({"metric": name.removesuffix("_ms"), "n": figures.get("n")} | shown)
    return table(rows, HEADINGS)


def _thin(figures: Mapping[str, Any]) -> Iterable[str]:
    """Quantiles that n is too small for, as the report names them."""
    named: list[str] = figures.get("few") or figures.get("thin") or []
    return named


def _goodput(good: Mapping[str, Any], throughput: Mapping[str, Any]) -> str:
    slo = good["slo"]
    bounds = " and ".join(
        f"{name.removesuffix('_ms').upper()} ≤ {number(slo[name])} ms" for name in ("ttft_ms", "tpot_ms") if slo.get(name)
    )
    share = NONE if good["attainment"] is None else f"{100 * good['attainment']:.1f} %"
    line = f"goodput {number(good['per_s'])} requests/s within {bounds or 'no bound'}: {share} of all sent"
    if throughput.get("duration_s") is None:
        return line
    rates = ", ".join(f"{number(throughput[name])} {unit}" for name, unit in RATES)
    return f"{line}\nthroughput {rates} over {number(throughput['duration_s'])} s{_cached(throughput)}"


def _cached(throughput: Mapping[str, Any]) -> str:
    """How much of the prompts the prefix cache gave; a run's prompts begin with a nonce, so the cache starts cold."""
    cached, prompt = throughput.get("cached_tokens"), throughput.get("prompt_tokens")
    return f", {100 * cached / prompt:.1f} % of prompt tokens from the prefix cache" if cached is not None and prompt else ""


RATES = (("requests_s", "requests/s"), ("output_tok_s", "output tokens/s"), ("prompt_tok_s", "prompt tokens/s"))


def _waits(waits: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [{"reason": name, **row, "share": f"{100 * row['share']:.0f} %"} for name, row in waits.items()]
    rows.sort(key=lambda row: -row["ms"])
    columns = [("reason", "waited for"), ("share", "share"), ("ms", "ms in all"), ("requests", "requests")]
    return table(rows, columns) if rows else ""


def _steps(steps: Mapping[str, Any]) -> str:
    if not steps.get("n"):
        return ""
    binding = ", ".join(f"{name} {100 * share:.0f} %" for name, share in steps["binding"].items())
    used = NONE if steps["budget_used"] is None else f"{100 * steps['budget_used']:.0f} %"
    return (
        f"{steps['n']} steps, p50 {number(steps['ms']['p50'])} ms, {used} of the token budget used, "
        f"{steps['preemptions']} preemptions, at most {steps['running_max']} running and {steps['waiting_max']} waiting\n"
        f"bound by: {binding}"
    )


def _tenants(tenants: Mapping[str, Mapping[str, Any]]) -> str:
    if len(tenants) < 2:
        return ""
    rows = [
        {
            "tenant": name,
            "requests": row["requests"],
            "share": f"{100 * (row['share'] or 0):.0f} %",
            "p95": row["queue_ms"]["p95"],
        }
        for name, row in tenants.items()
    ]
    return table(rows, [("tenant", "tenant"), ("requests", "requests"), ("share", "of the service"), ("p95", "queue p95 ms")])


def _errors(errors: list[Mapping[str, Any]], most: int = 10) -> str:
    if not errors:
        return ""
    rows = [
        {"what": row.get("id") or f"{row.get('count')} ×", "status": row["status"], "error": row["error"]}
        for row in errors[:most]
    ]
    more = f"\n… and {len(errors) - most} more" if len(errors) > most else ""
    return "Failed\n" + table(rows, [("what", ""), ("status", "status"), ("error", "error")]) + more


def _compared(row: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": row["name"]}
    for index, value in enumerate(row["values"]):
        change = row["relative"][index]
        shown |= {f"v{index}": cell(value), f"d{index}": NONE if change is None else f"{100 * change:+.0f} %"}
    return shown
