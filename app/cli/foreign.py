"""Load a server that is not ours: spawn `python -m loadgen`, show its progress, print what the client saw.

Knows the generator's command line and lines, imports nothing of it. Invariant: the child has ended when this returns.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

from app.cli.failures import FAILED, OK, CommandError
from app.cli.report_text import report_text
from app.cli.terminal import ProgressLine, print_json, say

MODULE = [sys.executable, "-m", "loadgen"]


def load_foreign(options: argparse.Namespace) -> int:
    """Run the generator against `options.url`; the exit code."""
    folder = options.out or Path(tempfile.mkdtemp(prefix="batchscope-load-"))
    command = [*MODULE, f"--scenario={options.scenario}", f"--url={options.url}", f"--seed={options.seed}"]
    command += [f"--processes={options.processes}", f"--out={folder}", *(f"--set={pair}" for pair in options.set)]
    say(f"loading {options.url}, a server that is not ours; its rows go to {folder / 'requests.jsonl'}")
    code = _follow(command)
    if not options.out and not any(folder.iterdir()):
        folder.rmdir()  # nobody named it, and nothing was written
    report = _report(folder)
    if options.out:
        (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    print_json(report) if options.json else print(report_text(report))
    return OK if code == 0 else FAILED


def _follow(command: list[str]) -> int:
    """Show the child's progress until it ends. In a session of its own, it is told of Ctrl-C by us alone, once."""
    line = ProgressLine()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        try:
            _show_all(line, child.stdout)
        except KeyboardInterrupt:
            line.end()
            say("stopping; what there is is kept")
            child.send_signal(signal.SIGTERM)
            _show_all(line, child.stdout)
        code = child.wait()
    line.end()
    return code


def _show_all(line: ProgressLine, lines: IO[str] | None) -> None:
    for said in lines or ():
        _show(line, said)


def _show(line: ProgressLine, said: str) -> None:
    try:
        figures: Any = json.loads(said)
    except ValueError:
        say(said.rstrip())
        return
    if isinstance(figures, dict) and figures.get("type") == "progress":
        counts = ", ".join(f"{figures.get(name, 0)} {name}" for name in ("sent", "ok", "failed", "refused", "in_flight"))
        line.show(None, f"{figures.get('t', 0):.0f} s  {counts.replace('_', ' ')}")


def _report(folder: Path) -> dict[str, Any]:
    if not (folder / "requests.jsonl").exists():
        raise CommandError("the load generator wrote no rows: see its messages above")
    made = subprocess.run([*MODULE, f"--report={folder}"], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise CommandError(f"no report could be made: {made.stderr.strip()}")
    report: dict[str, Any] = json.loads(made.stdout)
    return report
