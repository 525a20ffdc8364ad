"""Are runs like for like? What is the same in all of them and what is not, and words where a comparison would mislead. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.store.runs import rate_words

Report = Mapping[str, Any]


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
    unlike = [row for row in differing if row["of"] != "settings"]
    found = [f"not like for like: {row['name']} {' vs '.join(str(value) for value in row['values'])}" for row in unlike]
    for report in reports:
        if report["verdict"] != "valid":
            found.append(f"run {report['run']['id']} is {report['verdict'] or report['run']['status']}")
        by_hand = rate_words(report["run"])
        if by_hand:
            found.append(f"not like for like: the load of run {report['run']['id']} was changed by hand: {by_hand}")
    for report, mine in zip(reports, changes, strict=True):
        if mine:
            when = ", ".join(f"{change['at_s']:.1f} s" for change in mine)
            found.append(f"run {report['run']['id']} changed its settings in mid-run, at {when}: see it split")
    return list(dict.fromkeys(found))
