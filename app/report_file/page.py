"""A run's report as one HTML file that needs nothing else: no script, no network, no second file. Knows the JSON of reports.

It forbids itself everything but its own style (a policy in its head), follows the system's light or dark, and prints in black
on white. Invariant: whatever a tenant, a scenario or an error says stands there as text: elements are made by `el` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from app.report_file.charts import Line, bar_chart, el, figure, line_chart
from app.report_file.style import STYLE

QUANTILES = ("p50", "p90", "p95", "p99")
MOST_ERRORS = 50
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_COUNTS = ("sent", "ok", "failed", "refused", "cancelled", "incomplete", "server_rows", "difference")
Report = Mapping[str, Any]


def report_html(report: Report) -> bytes:
    """The file."""
    run = report["run"]
    name = run.get("name") or run.get("scenario") or run["id"]
    head = el(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta http-equiv="Content-Security-Policy" content="{}">').format(_POLICY),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        el("title", f"{name} · Batchscope"),
        el("style", Markup(STYLE)),
    )
    body = el("body", el("main", *(part for part in _parts(report, str(name)) if part)))
    return (Markup("<!doctype html>\n") + el("html", head, body, lang="en")).encode()


def _parts(report: Report, name: str) -> Iterable[Markup | None]:
    yield _title(report, name)
    yield _card("Reconciliation", "what the client sent against what the server recorded", _reconciliation(report))
    yield _card("Latency", "ms; exact, from the rows; in parentheses: too few requests to say", _latency(report))
    yield _card("Timeline", "a second a point", *_timeline(report["timeline"]))
    yield _card("Waiting by reason", "time before the first admission, over all requests", _waits(report["waits"]))
    yield _card("Goodput and throughput", "", _goodput(report))
    yield _card("Between tenants", "service = prompt + 2 × output tokens", _tenants(report["fairness"]))
    yield _card("Steps", "", _steps(report))
    yield _card("Failed", f"at most {MOST_ERRORS} of them", _errors(report["reconciliation"]))
    yield _card("What was run", "", _settings(report))
    made = (report.get("summary") or {}).get("made")
    yield el("footer", f"Batchscope · run {report['run']['id']}" + (f" · figures of {made}" if made else ""))


def _title(report: Report, name: str) -> Markup:
    run = report["run"]
    said = [run["status"], report["verdict"], "simulated" if report["simulated"] else None]
    about = " · ".join(str(each) for each in (run.get("started") or run.get("created"), run["id"], run.get("target")) if each)
    why = report["verdict_reason"]
    return el(
        "header",
        el("h1", name, " ", *(el("span", each, class_="tag") for each in said if each)),
        el("p", about, class_="mut"),
        el("p", *_coded(report["headline"]), class_="headline"),
        el("p", why, class_="mut") if why and why not in report["headline"] else "",
        el("p", f"Its load was changed by hand: {run['rate_changed']}", class_="mut") if run.get("rate_changed") else "",
        el("p", run["error"], class_="mut") if run.get("error") else "",
    )


def _coded(text: str) -> Iterable[Markup | str]:
    """What stands between backticks as code."""
    return (el("code", part) if place % 2 else part for place, part in enumerate(text.split("`")))


def _card(title: str, small: str, *inside: Markup | None) -> Markup | None:
    shown = [part for part in inside if part]
    return el("section", el("h2", title, " ", el("small", small)), *shown) if shown else None


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """The first column is a text, the others are numbers."""
    made = [el("tr", el("th", row[0], scope="row"), *(el("td", cell) for cell in row[1:])) for row in rows]
    head = el("thead", el("tr", *(el("th", each, scope="col") for each in heads)))
    return el("div", el("table", head, el("tbody", *made)), class_="scroll")


def _pairs(found: Mapping[str, object]) -> Markup:
    return el("dl", *(part for name, value in found.items() for part in (el("dt", name), el("dd", value))))


def _reconciliation(report: Report) -> Markup:
    counts = report["reconciliation"]
    return _pairs({name.replace("_", " "): figure(counts[name]) for name in _COUNTS if counts.get(name) is not None})


def _latency(report: Report) -> Markup:
    rows = []
    for side, metrics in report["percentiles"].items():
        for name, found in metrics.items():
            cells = [f"({figure(found[q])})" if q in found["few"] else figure(found[q]) for q in QUANTILES]
            rows.append([f"{side}: {_label(name)}", figure(found["n"]), *cells])
    return _table(["", "n", *QUANTILES], rows)


def _label(name: str) -> str:
    return {"e2e_ms": "E2E", "queue_ms": "queue", "lateness_ms": "lateness", "ttft_due_ms": "TTFT from due"}.get(
        name, name.removesuffix("_ms").upper()
    )


def _timeline(found: Mapping[str, Any]) -> list[Markup]:
    rates = [
        Line("sent", "a", found["sent"]),
        Line("answered", "b", found["done"]),
        Line("not answered well", "c", found["failed"]),
    ]
    depth = [Line("waiting", "a", found["waiting"]), Line("running", "b", found["running"])]
    return [line_chart("Requests", "a second", rates), line_chart("In the server", "mean in a second", depth)]


def _waits(found: Mapping[str, Mapping[str, Any]]) -> Markup | None:
    rows = [(name, row["ms"], f"{_share(row['share'])} · {figure(row['ms'])} ms · {figure(row['requests'])} requests")
            for name, row in sorted(found.items(), key=lambda pair: -pair[1]["ms"])]  # fmt: skip
    return bar_chart("Waited for", "share of all waiting", rows) if rows else el("p", "Nobody waited.")


def _goodput(report: Report) -> Markup:
    good, rate = report["goodput"], report["throughput"]
    slo = good["slo"]
    return _pairs(
        {
            f"goodput within TTFT ≤ {figure(slo['ttft_ms'])} and TPOT ≤ {figure(slo['tpot_ms'])} ms": _per(good["per_s"]),
            "of all sent": _share(good["attainment"]),
            "offered (open loop)": _per(rate["offered_s"]),
            "answered": _per(rate["requests_s"]),
            "output": f"{figure(rate['output_tok_s'])} tokens/s",
            "prompts": f"{figure(rate['prompt_tok_s'])} tokens/s",
            "over": f"{figure(rate['duration_s'])} s",
        }
    )


def _tenants(found: Mapping[str, Any]) -> Markup | None:
    tenants: Mapping[str, Mapping[str, Any]] = found["tenants"]
    if not tenants:
        return None
    heads = ("tenant", "requests", "of the service", "TTFT p50 ms", "TTFT p95 ms", "longest wait ms")
    rows = [
        [name, figure(row["requests"]), _share(row["share"]), figure(row["ttft_ms"]["p50"]), figure(row["ttft_ms"]["p95"]),
         figure(row["longest_wait_ms"])]
        for name, row in tenants.items()
    ]  # fmt: skip
    return _table(heads, rows)


def _steps(report: Report) -> Markup | None:
    steps, waste = report["steps"], report["waste"]
    if not steps["n"]:
        return None
    return _pairs(
        {
            "steps": figure(steps["n"]),
            "p50": f"{figure(steps['ms']['p50'])} ms",
            "p95": f"{figure(steps['ms']['p95'])} ms",
            "token budget used": _share(steps["budget_used"]),
            "preemptions": figure(steps["preemptions"]),
            "most running": figure(steps["running_max"]),
            "most waiting": figure(steps["waiting_max"]),
            "bound by": ", ".join(f"{name} {_share(share)}" for name, share in steps["binding"].items()),
            "no step ran": _share(waste["idle_share"]),
            "computed twice": f"{figure(waste['recomputed_tokens'])} tokens",
        }
    )


def _errors(counts: Mapping[str, Any]) -> Markup | None:
    rows = [[row["id"], row["status"], row["error"] or "—"] for row in counts["broken"][:MOST_ERRORS]]
    return _table(["request", "status", "error"], rows) if rows else None


def _settings(report: Report) -> Markup:
    run = report["run"]
    given = {"scenario": run.get("scenario"), "seed": run.get("seed"), "target": run.get("target")}
    rows = [*given.items(), *(run.get("parameters") or {}).items(), *(report["settings"] or {}).items()]
    return _table(["setting", "value"], [[name, str(value)] for name, value in rows if value is not None])


def _share(value: float | None) -> str:
    return "—" if value is None else f"{100 * value:.1f} %"


def _per(value: float | None) -> str:
    return f"{figure(value)} requests/s"
