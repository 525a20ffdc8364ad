"""`batchscope reproduce`: experiments of the literature on this machine, each figure beside the one it must match.

Needs no server and no records. Invariant: the exit code is 0 only if every figure that was shown holds.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from textwrap import fill
from typing import Any

from app.cli.failures import FAILED, OK, USAGE, CommandError
from app.cli.terminal import ProgressLine, number, print_json, table
from scheduler.experiments.figure import Experiment, Figure, Rule
from scheduler.experiments.shelf import EXPERIMENTS

COLUMNS = [("what", "measured"), ("ours", "ours"), ("must", "must be"), ("holds", "holds"), ("source", "according to")]
WIDTH = 110
Found = dict[str, list[Figure]]  # title of a part → its figures


def add_reproduce(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """`reproduce [NAME…] [--full]`."""
    parser.add_argument(
        "name", nargs="*", metavar="NAME", help=f"{', '.join(EXPERIMENTS)}, or all; without a name they are listed"
    )
    parser.add_argument("--full", action="store_true", help="the literature's sizes, minutes instead of seconds")
    parser.set_defaults(act=reproduce)


def reproduce(options: argparse.Namespace) -> int:
    """Run the experiments asked for; FAILED if a figure does not hold."""
    if not options.name:
        _list(as_json=options.json)
        return OK
    chosen = list(EXPERIMENTS) if options.name == ["all"] else options.name
    for name in chosen:
        if name not in EXPERIMENTS:
            raise CommandError(f"no experiment is called {name!r}; there are: {', '.join(EXPERIMENTS)}", USAGE)
    documents, holds = {}, True
    for name in chosen:
        found = _run(EXPERIMENTS[name], full=options.full)
        holds = holds and all(figure.holds for figure in _figures(found))
        documents[name] = _document(EXPERIMENTS[name], found, full=options.full)
        if not options.json:
            print(experiment_text(EXPERIMENTS[name], found) + ("\n" if name != chosen[-1] else ""), flush=True)
    if options.json:
        print_json(documents)
    return OK if holds else FAILED


def experiment_text(experiment: Experiment, found: Found) -> str:
    """What was shown, a table of figures for each part, and the verdict."""
    head = fill(f"{experiment.name}: {experiment.says}", WIDTH) + f"\nFrom: {experiment.source}."
    tables = [f"{title[0].upper()}{title[1:]}\n{table(map(_row, figures), COLUMNS)}" for title, figures in found.items()]
    figures = _figures(found)
    failed = sum(not figure.holds for figure in figures)
    verdict = f"{failed} of {len(figures)} do not hold" if failed else f"all {len(figures)} hold"
    return "\n\n".join([head, *tables, f"{experiment.name}: {verdict}"])


def _run(experiment: Experiment, *, full: bool) -> Found:
    line, found = ProgressLine(), Found()
    for done, part in enumerate(experiment.parts):
        line.show(done / len(experiment.parts), f"{experiment.name}: {part.title}")
        found[part.title] = part.figures(full=full)
    line.show(1.0, f"{experiment.name}: done")
    line.end()
    return found


def _figures(found: Found) -> list[Figure]:
    return [figure for figures in found.values() for figure in figures]


def _row(figure: Figure) -> dict[str, str]:
    return {
        "what": figure.what,
        "ours": _amount(figure.ours, figure),
        "must": _demand(figure),
        "holds": "yes" if figure.holds else "NO",
        "source": figure.source,
    }


def _list(*, as_json: bool) -> None:
    if as_json:
        print_json({name: {"says": each.says, "source": each.source} for name, each in EXPERIMENTS.items()})
        return
    for name, each in EXPERIMENTS.items():
        print(f"{name}\n{fill(each.says, WIDTH, initial_indent='  ', subsequent_indent='  ')}\n  From: {each.source}.\n")
    print("Run one: `batchscope reproduce NAME`, with --full for the literature's sizes.")


def _demand(figure: Figure) -> str:
    reference = _amount(figure.reference, figure)
    match figure.rule:
        case Rule.WITHIN:
            return f"{reference} ± {100 * figure.tolerance:.3g} %"
        case Rule.AT_MOST:
            return f"≤ {reference}"
        case Rule.AT_LEAST:
            return f"≥ {reference}"
        case Rule.EXACTLY:
            return f"= {reference}"


def _amount(value: float, figure: Figure) -> str:
    """Enough digits that what is compared can be told apart."""
    plain = f"{value:,.0f}" if abs(value) >= 1000 else number(value)
    return f"{plain} {figure.unit}".rstrip()


def _document(experiment: Experiment, found: Found, *, full: bool) -> dict[str, Any]:
    return {
        "says": experiment.says,
        "source": experiment.source,
        "size": "full" if full else "quick",
        "holds": all(figure.holds for figure in _figures(found)),
        "figures": [
            {"part": title, **asdict(figure), "holds": figure.holds} for title, figures in found.items() for figure in figures
        ],
    }
