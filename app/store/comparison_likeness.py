"""Are runs like for like? What is the same in all of them and what is not, and words where a comparison would mislead. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Report = Mapping[str, Any]
OFFERED_SHARE = 0.02  # loads that differ by more are not one load
_MEANS = {
    "generator_limited": ": its latencies may be its load generator's, counts and causes hold",
    "host_limited": ": its latencies are too long by what this host was late, counts and causes hold",
}


def settings(reports: Sequence[Report]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(what is not the same in all runs, what is): settings in effect, the scenario's parameters, seed, engine, versions."""
    rows = [*_rows("settings", [each["settings"] for each in reports])]
    rows += _rows("parameters", [each["run"]["parameters"] or {} for each in reports])
    rows += _rows("run", [{name: each["run"][name] for name in ("scenario", "seed", "target")} for each in reports])
    rows += _rows("engine", [each["engine"] for each in reports])
    rows += _rows("versions", [_versions(each["run"]) for each in reports])
    differing, equal = list[dict[str, Any]](), list[dict[str, Any]]()
    for row in rows:
        first = row["values"][0]
        if all(value == first for value in row["values"]):
            equal.append({"name": row["name"], "of": row["of"], "value": first})
        else:
            differing.append(row)
    return differing, equal


def _versions(run: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (run["versions"] or {}).items() if name not in ("simulation", "imported")}


def _rows(of: str, given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for each in given for name in each)
    return [{"name": name, "of": of, "values": [each.get(name) for each in given]} for name in names]


def warnings(
    reports: Sequence[Report], changes: Sequence[Sequence[Mapping[str, Any]]], differing: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Where they are not; `changes`: of settings, while each run went on."""
    found = _unlike([row for row in differing if row["of"] != "settings"]) + _incomplete(reports)
    for report in reports:
        if report["verdict"] != "valid":
            word = str(report["verdict"] or report["run"]["status"])
            found.append(f"run {report['run']['id']} is {word.replace('_', ' ')}{_MEANS.get(word, '')}")
        if by_hand := report["run"].get("rate_changed"):
            found.append(f"not like for like: the load of run {report['run']['id']} was changed by hand: {by_hand}")
    for report, mine in zip(reports, changes, strict=True):
        if mine:
            when = ", ".join(f"{change['at_s']:.1f} s" for change in mine)
            found.append(f"run {report['run']['id']} changed its settings in mid-run, at {when}: see it split")
    return list(dict.fromkeys(found))


def repeats(
    reports: Sequence[Report], changes: Sequence[Sequence[Mapping[str, Any]]], differing: Sequence[Mapping[str, Any]]
) -> set[int]:
    """Places of the runs that are the first one again: nothing differs from it, and nothing was changed in either meanwhile."""
    still = [not mine and not each["run"].get("rate_changed") for each, mine in zip(reports, changes, strict=True)]
    alike = [all(row["values"][i] == row["values"][0] for row in differing) for i in range(len(reports))]
    return {i for i in range(1, len(reports)) if still[0] and still[i] and alike[i]}


def offered(reports: Sequence[Report]) -> list[str]:
    """Runs that measure a capacity first offer another load each time: one line where it was not about the same."""
    rates = [report["throughput"]["offered_s"] for report in reports]
    known = [rate for rate in rates if rate]
    if len(known) < 2 or max(known) <= min(known) * (1 + OFFERED_SHARE):
        return []
    return [f"not like for like: offered {' vs '.join(f'{rate:.3g}/s' if rate else 'by users who wait' for rate in rates)}"]


def _unlike(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line: what has a value everywhere with its values, of the rest its name."""
    whole = [row for row in rows if None not in row["values"]]
    said = [f"{row['name']} {' vs '.join(_said(value) for value in row['values'])}" for row in whole]
    lacking = [row["name"] for row in rows if None in row["values"]]
    parts = [", ".join(said)] * bool(said) + [f"not all have {', '.join(lacking)}"] * bool(lacking)
    return [f"not like for like: {'; '.join(parts)}"] if parts else []


def _incomplete(reports: Sequence[Report]) -> list[str]:
    """Who never ended is in no latency."""
    counts = [(report["run"]["id"], report["reconciliation"]) for report in reports]
    said = [f"run {id} has {each['incomplete']} of {each['sent']} incomplete" for id, each in counts if each.get("incomplete")]
    return [f"figures are over answers that ended well; {', '.join(dict.fromkeys(said))}"] if said else []


def _said(value: Any) -> str:
    """A parameter that was left out is a default (60.0), one that was given may be whole (60): the same to a reader."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)
