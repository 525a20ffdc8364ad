"""The experiments of the literature at full size: `python -m benchmarks.experiments [NAME…]`; one JSON object.

Each figure stands beside what theory or the paper says, with the tolerance and whether it holds. Exit code 1 if one does not.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import progress, report  # noqa: E402
from scheduler.experiments.shelf import EXPERIMENTS  # noqa: E402


def measured(name: str, *, full: bool) -> dict[str, Any]:
    """The figures of one experiment, and the seconds that it took."""
    began = time.perf_counter()
    found = [(part.title, figure) for part in EXPERIMENTS[name].parts for figure in part.figures(full=full)]
    seconds = round(time.perf_counter() - began, 1)
    progress(f"{name}: {seconds:.0f} s")
    rows = [{"part": title, **asdict(figure), "holds": figure.holds} for title, figure in found]
    return {"seconds": seconds, "ok": all(figure.holds for _, figure in found), "figures": rows}


def main() -> int:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help=f"of {', '.join(EXPERIMENTS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="the sizes of the tests")
    args = parser.parse_args()
    found = {name: measured(name, full=not args.quick) for name in args.name or EXPERIMENTS}
    report("experiments", found)
    return 0 if all(each["ok"] for each in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
