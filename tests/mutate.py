"""Mutation testing of scheduler/core: `make mutation`. One small fault at a time is put into the core; some test must fail.

What a fault is: mutation/mutants.py. How it is asked: mutation/forked.py, in a forked child of a process that has imported
everything; where that cannot tell, mutation/whole.py, in a process of its own. The tests are those of the core and of the
policies, and three that run the core as a whole; what survives these may still fall to the rest of the suite.
Survivors are printed as they are found, progress goes to standard error, and at the end comes a JSON summary: also after
Ctrl-C. With --results FILE each answer is written there at once, and what FILE says of a fault is not asked again;
--again asks anew those that survived. A fault is known again by its function's text.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from mutation import whole
from mutation.forked import Trials
from mutation.mutants import ROOT, Fault, faults, modules

TESTS = ROOT / "tests" / "scheduler"
FILES = [
    *sorted((TESTS / "core").glob("test_*.py")),
    *sorted((TESTS / "policies").glob("test_*.py")),
    *(TESTS / name for name in ("test_golden_log.py", "test_simple.py", "test_metamorphic.py")),
]
SLOW = ("test_replay", "test_merge", "test_itl_target", "test_decode_group", "test_edf")  # --whole: only for their own module
LIVES = "60"  # of the state machine
EVERY = 50


@dataclass
class Run:
    """One run over `chosen` faults; `answers` by key: the test that found it, or nothing."""

    chosen: list[Fault]
    answers: dict[str, str]
    again: bool
    file: Path | None
    began: float = field(default_factory=time.monotonic)

    def __call__(self, trials: Trials | None = None) -> None:
        """Ask, and say what survives."""
        asked = 0
        try:
            for fault in self.chosen:
                if self.known(fault):
                    continue
                began = time.monotonic()
                self.note(fault, self.answer(fault, trials), time.monotonic() - began)
                asked += 1
                if asked % EVERY == 0:
                    self.progress()
        except KeyboardInterrupt:
            print("stopped: what follows is of the faults asked so far", file=sys.stderr)
        self.summary()

    def known(self, fault: Fault) -> bool:
        """Was it asked before?"""
        answer = self.answers.get(fault.key)
        return answer is not None and not (self.again and answer == "")

    def answer(self, fault: Fault, trials: Trials | None) -> str:
        """In a forked child if that can tell."""
        test = trials.ask(fault) if trials else None
        if test is None or (trials and not test and trials.early(fault)):
            return "in a process of its own" if whole.ask(fault, files_of(fault)) else ""
        return test

    def note(self, fault: Fault, test: str, seconds: float) -> None:
        """Keep it."""
        self.answers[fault.key] = test
        if not test:
            print(f"survives  {fault.module}:{fault.line}  {fault.function}  {fault.what}", flush=True)
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"fault": fault.key, "line": fault.line, "found": test, "s": round(seconds, 3)}) + "\n")

    def counts(self) -> tuple[int, int]:
        """Faults asked, faults found; of those that were chosen."""
        told = [self.answers[fault.key] for fault in self.chosen if fault.key in self.answers]
        return len(told), sum(test != "" for test in told)

    def progress(self) -> None:
        """A line on standard error."""
        asked, found = self.counts()
        spent = time.monotonic() - self.began
        print(f"{asked} of {len(self.chosen)}, {found} found, {spent:.0f} s", file=sys.stderr, flush=True)

    def summary(self) -> None:
        """One JSON object."""
        asked, found = self.counts()
        share = round(found / asked, 3) if asked else None
        spent = round(time.monotonic() - self.began)
        print(json.dumps({"faults": len(self.chosen), "asked": asked, "found": found, "share": share, "s": spent}), flush=True)


def files_of(fault: Fault) -> list[Path]:
    """What a process of its own runs: its module's tests first."""
    near = [path for path in FILES if path.stem == f"test_{fault.module.rpartition('.')[2]}"]
    return near + [path for path in FILES if path not in near and path.stem not in SLOW]


def earlier(file: Path | None) -> dict[str, str]:
    """What was found before."""
    if file is None or not file.exists():
        return {}
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return {row["fault"]: row["found"] for row in rows}


def main() -> None:
    """Parse, break, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=0, help="so many of all faults; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="modules whose name contains this")
    parser.add_argument("--results", type=Path, help="keep answers in this file, and go on from it")
    parser.add_argument("--again", action="store_true", help="ask anew what survived")
    parser.add_argument("--budget", type=float, default=1000.0, help="seconds of tests that a fault is asked at most")
    parser.add_argument("--tests", nargs="+", default=FILES, help="files of tests, in place of all these")
    parser.add_argument("--whole", action="store_true", help="each fault in a process of its own: slow; to check this tool")
    args = parser.parse_args()
    chosen = [fault for path in modules() for fault in faults(path) if args.only in fault.module]
    if args.sample:
        chosen = random.Random(args.seed).sample(chosen, min(args.sample, len(chosen)))
    if args.results:
        args.results.parent.mkdir(parents=True, exist_ok=True)
    run = Run(chosen, earlier(args.results), args.again, args.results)
    os.environ.setdefault("SEEDS", LIVES)
    if args.whole:
        run()
        return
    quiet = [
        "-q",
        "-s",
        "--no-header",
        "--no-summary",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-W",
        whole.QUIET,
    ]
    code = pytest.main([*quiet, *map(str, args.tests)], plugins=[Trials(run, args.budget)])
    sys.exit(int(code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)))


if __name__ == "__main__":
    main()
