"""A report as text, its headline first. Knows the JSON of reports, from the server or from the load generator alone.

Invariant: percentiles of which there are too few requests are in parentheses; what is undefined is `—`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.cli.terminal import NONE, number, pairs, table
from app.percents import percents

QUANTILES = ("p50", "p90", "p95", "p99")
HEADINGS = [("metric", ""), ("n", "n"), *((q, q) for q in QUANTILES)]


def report_text(report: Mapping[str, Any]) -> str:
    """The whole report of a run."""
    parts = [_headline(report)]
    parts.append(_about(report))
    parts.append(_reconciliation(report["reconciliation"]))
    parts += _percentiles(report["percentiles"])
    parts.append(_slowest(report.get("slowest") or {}))
    parts.append(_goodput(report["goodput"], report.get("throughput") or {}))
    parts.append(_waits(report.get("waits") or {}))
    parts.append(_fairness(report.get("fairness") or {}))
    parts.append(_interference(report.get("interference")))
    parts.append(_steps(report.get("steps") or {}, report.get("waste") or {}))
    parts.append(_errors(report.get("errors") or report["reconciliation"].get("broken") or []))
    return "\n\n".join(part for part in parts if part)


def _headline(report: Mapping[str, Any]) -> str:
    """With the reason of its verdict where the line has it in short; code needs no backticks here."""
    line = str(report.get("headline") or "client-only report: the server keeps no records of ours")
    reason = report.get("verdict_reason") if report.get("verdict") else None
    return (f"{line}\n{reason}" if reason and reason not in line else line).replace("`", "")


def _about(report: Mapping[str, Any]) -> str:
    run = report.get("run")
    known = run if isinstance(run, Mapping) else {**report, "id": run}
    names = ("id", "scenario", "seed", "started", "target", "url", "model", "rate_changed", "error")
    capacity = (known.get("progress") or {}).get("capacity")
    shown = {name: known.get(name) for name in names}
    shown["measured"] = None if capacity is None else f"a capacity of {number(capacity)} tokens/s of work"
    return pairs({name: value for name, value in shown.items() if value is not None})


def _reconciliation(counts: Mapping[str, Any]) -> str:
    terms = " + ".join(f"{counts[name]} {name}" for name in ("ok", "failed", "refused", "cancelled", "incomplete"))
    line = f"sent {counts['sent']} = {terms}"
    if counts.get("server_rows") is None:
        return line
    line += f"\nserver rows {counts['server_rows']}, difference {counts['difference']}"
    still = counts.get("open_rows")  # older reports do not say
    return line + (f"\n{still} of them have not ended yet: ask for the report again to have their waits in it" if still else "")


def _percentiles(found: Mapping[str, Any]) -> list[str]:
    if "client" not in found:
        return ["Client, ms, over ok requests\n" + _figures(found)]
    sides = (("client", "Client, ms, over ok requests"), ("server", "Server, ms, over requests that ended well"))
    return [f"{title}\n{_figures(found[side])}" for side, title in sides]


def _slowest(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Whom to look at: `batchscope requests show ID`."""
    named = [f"{name.removesuffix('_ms').upper()} {number(row['ms'])} ms{_named(row['id'])}" for name, row in found.items()]
    return f"slowest: {', '.join(named)}" if named else ""


def _named(request: str | None) -> str:
    return f" ({request})" if request else ""


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
    if good.get("n_admitted") not in (None, good.get("n")):
        line += f", {_percent(good['attainment_admitted'])} of those not refused"
    if good.get("fluid") is not None:
        line += f"; {_percent(good['fluid'])} of the answers fluid"
    if throughput.get("duration_s") is None:
        return line
    rates = ", ".join(f"{number(throughput[name])} {unit}" for name, unit in RATES)
    return f"{line}\nthroughput {rates} over {number(throughput['duration_s'])} s{_cached(throughput)}{_load(throughput)}"


def _cached(throughput: Mapping[str, Any]) -> str:
    """How much of the prompts the prefix cache gave; a run's prompts begin with a nonce, so the cache starts cold."""
    cached, prompt = throughput.get("cached_tokens"), throughput.get("prompt_tokens")
    return f", {100 * cached / prompt:.1f} % of prompt tokens from the prefix cache" if cached is not None and prompt else ""


def _load(throughput: Mapping[str, Any]) -> str:
    """What the open loop offered; a run that measures a capacity first offers another load each time."""
    offered = throughput.get("offered_s")
    return "" if offered is None else f"; offered {number(offered)} requests/s"


RATES = (("requests_s", "requests/s"), ("output_tok_s", "output tokens/s"), ("prompt_tok_s", "prompt tokens/s"))


def _waits(waits: Mapping[str, Mapping[str, Any]]) -> str:
    shares = percents([row["share"] for row in waits.values()])
    rows = [{"reason": name, **row, "share": f"{share} %"} for (name, row), share in zip(waits.items(), shares, strict=True)]
    rows.sort(key=lambda row: -row["ms"])
    columns = [("reason", "waited for"), ("share", "share"), ("ms", "ms in all"), ("requests", "requests")]
    return table(rows, columns) if rows else ""


def _fairness(found: Mapping[str, Any]) -> str:
    """A line a tenant, then what is of all of them; one tenant alone is treated fairly."""
    tenants = found.get("tenants") or {}
    return "\n".join(line for line in (_tenants(tenants) if len(tenants) > 1 else "", *_held(found, len(tenants))) if line)


def _tenants(tenants: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        {
            "tenant": name,
            "requests": row["requests"],
            "share": _percent(row["share"]),
            "p50": row["ttft_ms"]["p50"],
            "p95": f"({number(row['ttft_ms']['p95'])})" if "p95" in row["ttft_ms"]["few"] else row["ttft_ms"]["p95"],
            "longest": row["longest_wait_ms"],
            "waits": _top_waits(row["waits_ms"]),
        }
        for name, row in tenants.items()
    ]
    columns = [("tenant", "tenant"), ("requests", "requests"), ("share", "of the service"), ("p50", "TTFT p50 ms")]
    return table(rows, [*columns, ("p95", "TTFT p95 ms"), ("longest", "longest wait ms"), ("waits", "waited for")])


def _top_waits(waits: Mapping[str, float]) -> str:
    whole = sum(waits.values())
    shares = dict(zip(waits, percents([ms / whole for ms in waits.values()]), strict=True)) if whole else {}
    return ", ".join(f"{name} {shares[name]} %" for name in sorted(shares, key=lambda name: -waits[name])[:2])


def _held(found: Mapping[str, Any], tenants: int) -> list[str]:
    """Over all tenants: Jain, drift, slowdown; over all requests: starvation and inversions."""
    lines = []
    drift = found.get("drift") or {}
    if tenants > 1:
        lines.append(f"Jain's index of service {number(found['jain'])}")
    if drift.get("service") is not None:
        lines[-1] += f"; while both waited, two tenants' service drifted apart by up to {number(drift['service'])} units"
    ratio = (found.get("slowdown_ratio") or {}).get("value")
    if ratio is not None:
        lines[-1] += f"; the most slowed tenant {ratio:.2f} × the least"
    starved = found.get("starvation")
    if starved and starved["over"]:
        bound = f"{number(starved['threshold_ms'])} ms"
        lines.append(
            f"{starved['over']} of {starved['n']} requests waited over {bound}, the longest {number(starved['longest_ms'])} ms"
            + _named(starved.get("longest_id"))
        )
    inverted = found.get("inversions")
    if inverted:
        lines.append(
            f"{inverted['inverted']} of {inverted['admissions']} admissions went before a better class that was held back"
        )
    return lines


def _interference(found: Mapping[str, Any] | None) -> str:
    """What prefills cost the decodes beside them; nothing where there was nothing to compare with."""
    if not found:
        return ""
    worst = found["worst"][0]
    whose = ", ".join(f"{each['id'] or '?'} ({each['tokens']} tokens)" for each in worst["prefilled"][:2])
    return (
        f"prefills beside decodes took {_percent(found['share'])} of all decode time "
        f"({number(found['stretched_ms'])} ms more in {found['compared']} of {found['mixed_steps']} mixed steps)\n"
        f"worst: {number(worst['ms'])} instead of {number(worst['alone_ms'])} ms for {worst['decodes']} decodes, beside {whose}"
    )


def _steps(steps: Mapping[str, Any], waste: Mapping[str, Any]) -> str:
    if not steps.get("n"):
        return ""
    shares = percents(list(steps["binding"].values()))
    binding = ", ".join(f"{name} {share} %" for name, share in zip(steps["binding"], shares, strict=True))
    lines = [
        f"{steps['n']} steps, p50 {number(steps['ms']['p50'])} ms, {_percent(steps['budget_used'])} of the token budget used, "
        f"{steps['preemptions']} preemptions, at most {steps['running_max']} running and {steps['waiting_max']} waiting",
        f"bound by: {binding}",
        _wasted(waste),
    ]
    return "\n".join(line for line in lines if line)


def _wasted(waste: Mapping[str, Any]) -> str:
    if not waste:
        return ""
    kv = waste["kv_used"]
    said = [f"KV memory {_percent(kv['mean'])} in use, {_percent(kv['peak'])} at most"] if kv else []
    said.append(f"no step ran {_percent(waste['idle_share'])} of the time")
    if waste["recomputed_tokens"]:
        said.append(f"{waste['recomputed_tokens']} tokens computed twice ({_percent(waste['recomputed_share'])})")
    return ", ".join(said)


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.{0 if share >= 0.1 or not share else 1}f} %"


def _errors(errors: list[Mapping[str, Any]], most: int = 10) -> str:
    if not errors:
        return ""
    rows = [
        {"what": row.get("id") or f"{row.get('count')} ×", "status": row["status"], "error": row["error"]}
        for row in errors[:most]
    ]
    more = f"\n… and {len(errors) - most} more" if len(errors) > most else ""
    return "Failed\n" + table(rows, [("what", ""), ("status", "status"), ("error", "error")]) + more
