"""Runs side by side as text: what differs in what was asked, then counts, latencies, waiting and tenants.

Knows the JSON of GET /api/compare alone. The runs are lettered, the first is what the others are held against.
Invariant: a figure of too few requests is in parentheses, what is undefined is `—`, and no dict is printed raw.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.cli.terminal import NONE, cell, number, table
from app.percents import percents

LETTERS = "ABCDE"
Row = Mapping[str, Any]
LATENCIES = {
    "client.ttft_due_ms": "TTFT from due", "client.ttft_ms": "TTFT", "client.tpot_ms": "TPOT", "client.itl_ms": "ITL",
    "client.e2e_ms": "E2E", "client.ntpot_ms": "E2E a token", "server.queue_ms": "queue",
}  # fmt: skip
FIGURES = {
    "goodput.per_s": ("goodput, requests/s", 1), "goodput.attainment": ("attainment, %", 100),
    "goodput.attainment_admitted": ("attainment of those not refused, %", 100), "goodput.fluid": ("fluid answers, %", 100),
    "throughput.requests_s": ("answered, requests/s", 1), "throughput.output_tok_s": ("output, tokens/s", 1),
    "throughput.offered_s": ("offered, requests/s", 1),
    "fairness.jain": ("Jain's index of service", 1), "fairness.drift.service": ("service drift while backlogged, units", 1),
    "fairness.slowdown_ratio.value": ("most / least slowed tenant", 1),
    "fairness.starvation.longest_ms": ("longest wait, ms", 1), "fairness.starvation.over": ("waited over the TTFT bound", 1),
    "fairness.inversions.inverted": ("priority inversions", 1), "interference.share": ("decode time lost to prefills, %", 100),
    "waste.preemptions_a_request": ("preemptions a request", 1), "waste.recomputed_share": ("recomputed tokens, %", 100),
    "waste.prefix_hit_rate": ("prefix hits, % of prompt tokens", 100), "waste.kv_used.mean": ("KV memory in use, %", 100),
    "waste.idle_share": ("time without a step, %", 100), "steps.budget_used": ("token budget used, %", 100),
}  # fmt: skip
READINGS = {"better": "better", "worse": "worse", "unclear": "no clear difference", "too_few": "n too small"}
COUNTS = ("sent", "ok", "failed", "refused", "cancelled", "incomplete")


def comparison_text(answer: Mapping[str, Any]) -> str:
    """The whole comparison."""
    runs = answer["runs"]
    metrics = {row["name"]: row for row in answer["metrics"]}
    parts = ["\n".join(_head(letter, run) for letter, run in zip(LETTERS, runs, strict=False))]
    parts.append("\n".join(line for line in (answer["sentence"], *_lettered(answer)) if line))
    parts.append(_differing(answer["differing"], len(runs)))
    parts.append(_counts(runs))
    parts.append(_figures(_latencies(metrics), len(runs), "Latency, ms, over answers that ended well"))
    parts.append(_figures(_scaled(metrics), len(runs), "Goodput, fairness, waste"))
    parts.append(_waits(answer["waits"], len(runs)))
    tenants = answer["tenants"] if len(answer["tenants"]) > 1 else []
    parts.append(_figures([_of_requests(row) for row in tenants], len(runs), "TTFT p95 by tenant, ms, as the server saw it"))
    level = round(100 * answer["interval"]["level"])
    parts.append(
        f"[a, b] holds {level} % of the changes from A, shares in points, that came out of a {answer['interval']['method']}."
    )
    return "\n\n".join(part for part in parts if part)


def _lettered(answer: Mapping[str, Any]) -> Iterable[str]:
    """Warnings, with the letters of the runs for their names."""
    for line in answer["warnings"]:
        for letter, run in zip(LETTERS, answer["runs"], strict=False):
            line = line.replace(f"run {run['run']['id']}", letter)
        yield line


def _head(letter: str, run: Row) -> str:
    return f"{letter}  {run['run']['id']}  {run['headline'].replace('`', '')}"


def _differing(rows: Sequence[Row], runs: int) -> str:
    if not rows:
        return "The settings are the same."
    shown = [{"name": row["name"]} | dict(zip(LETTERS, map(_setting, row["values"]), strict=False)) for row in rows]
    return "What differs\n" + table(shown, [("name", ""), *_letters(runs)])


def _setting(value: Any) -> str:
    """A mapping as name=value, so that a policy's parameters read like --set."""
    if isinstance(value, Mapping):
        return " ".join(f"{name}={cell(each)}" for name, each in value.items()) or NONE
    return cell(value)


def _counts(runs: Sequence[Row]) -> str:
    rows = [{"name": "verdict"} | {letter: run["verdict"] for letter, run in zip(LETTERS, runs, strict=False)}]
    for name in COUNTS:
        values = [run["reconciliation"][name] for run in runs]
        if any(values):
            rows.append({"name": name} | {letter: str(value) for letter, value in zip(LETTERS, values, strict=False)})
    return table(rows, [("name", ""), *_letters(len(runs))])


def _latencies(metrics: Mapping[str, Row]) -> Iterable[Row]:
    """A metric that some run has: its percentiles, each with its n."""
    for metric, label in LATENCIES.items():
        rows = [metrics[f"percentiles.{metric}.{q}"] for q in ("p50", "p95", "p99")]
        if any(value is not None for value in rows[0]["values"]):
            yield _with_n(rows[0], f"{label} p50")
            yield from ({**row, "name": f"{label} {q}"} for row, q in zip(rows[1:], ("p95", "p99"), strict=True))


def _with_n(row: Row, label: str) -> Row:
    """With how many values it is of: one number where all runs have as many."""
    counts = [str(n or 0) for n in row["n"]]
    return {**row, "name": label, "of": counts[0] if len(set(counts)) == 1 else " / ".join(counts)}


def _of_requests(row: Row) -> Row:
    """How many of a tenant's requests ended well, run by run: an unfair run hides its victims among the rest."""
    pairs = zip(row["n"], row["requests"], strict=True)
    return {**row, "of": " / ".join(f"{n or 0} of {requests or 0}" for n, requests in pairs)}


def _scaled(metrics: Mapping[str, Row]) -> Iterable[Row]:
    for name, (label, times) in FIGURES.items():
        row = metrics[name]
        if not any(row["values"]):
            continue  # nothing of it in any run
        values = [None if value is None else value * times for value in row["values"]]
        yield {**row, "name": label, "values": values, "points": times == 100}


def _figures(rows: Iterable[Row], runs: int, title: str) -> str:
    shown = [{"name": row["name"], "of": row.get("of", "")} | _cells(row) for row in rows]
    columns = [("name", ""), *([("of", "n")] if any(row["of"] for row in shown) else []), ("A", "A")]
    for letter in LETTERS[1:runs]:
        columns += [
            (letter, letter),
            (f"{letter}-", f"{letter} − A"),
            *_kept(shown, f"{letter}[", "[a, b]"),
            *_kept(shown, f"{letter}?", "reading"),
        ]
    for row in shown:
        row["of"] = row["of"] or " "
    return f"{title}\n{table(shown, columns)}" if shown else ""


def _kept(rows: Sequence[Row], key: str, heading: str) -> list[tuple[str, str]]:
    return [(key, heading)] if any(row[key].strip() for row in rows if key in row) else []


def _cells(row: Row) -> dict[str, str]:
    shown: dict[str, str] = {}
    for index, value in enumerate(row["values"]):
        letter, (change, bounds, unit) = LETTERS[index], _change(row, index)
        shown[letter] = f"({number(value)})" if row["few"][index] and value is not None else number(value)
        if index:
            shown[f"{letter}-"] = NONE if change is None else f"{100 * change:+.0f} {unit}"
            shown[f"{letter}["] = f"[{_signed(100 * bounds[0])}, {_signed(100 * bounds[1])}] {unit}" if bounds else " "
            shown[f"{letter}?"] = READINGS[word] if (word := row["reading"][index]) else " "
    return shown


def _change(row: Row, index: int) -> tuple[float | None, Sequence[float] | None, str]:
    """(change from A, its interval, unit of 100 times either): of a share the difference, in points, else relative to A."""
    if row.get("points"):
        return row["difference"][index], row["interval"][index], "points"
    return row["relative"][index], row["relative_interval"][index], "%"


def _signed(value: float) -> str:
    return ("+" if value > 0 else "−" if value < 0 else "") + number(abs(value))


def _waits(rows: Sequence[Row], runs: int) -> str:
    """ms in all requests and share of the run's waiting, by reason."""
    shares = [percents([row["shares"][i] for row in rows]) for i in range(runs)]
    shown = [
        {"name": row["name"]}
        | {LETTERS[i]: number(value) for i, value in enumerate(row["values"])}
        | {f"{LETTERS[i]}%": f"{shares[i][n]} %" for i in range(runs)}
        for n, row in enumerate(rows)
    ]
    columns = [("name", "")] + [pair for letter in LETTERS[:runs] for pair in ((letter, letter), (f"{letter}%", ""))]
    return "Waiting by reason, ms in all\n" + table(shown, columns) if shown else ""


def _letters(runs: int) -> list[tuple[str, str]]:
    return [(letter, letter) for letter in LETTERS[:runs]]
