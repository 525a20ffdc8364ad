"""`batchscope serve`: becomes `python -m app.serve`, so that nothing was imported before its first line patches.

Knows the server's flags only through app.settings. `--check` says what flags, environment and file come to, and stops.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import NoReturn

from app.cli.failures import OK
from app.cli.server import server_environment
from app.cli.terminal import pairs, print_json
from app.settings import load, parser
from scheduler.runners.cost_model import available

HELP = "serve the dashboard and the OpenAI-compatible API"


def serve(argv: list[str]) -> int:
    """Replace this process by the server; returns only for --help and --check."""
    environ = server_environment()
    if "-h" in argv or "--help" in argv:
        print(parser("batchscope serve").format_help().rstrip().replace("`", ""))
        print("  --check               say what flags, environment and file come to, and stop; --json prints it as JSON")
        print("\nknown hardware, for --runner simulated (or the file of a cost model, as batchscope calibrate writes it):")
        print("\n".join(f"  {name}" for name in available()))
        return OK
    if "--check" in argv:
        return _check([word for word in argv if word not in ("--check", "--json")], environ, as_json="--json" in argv)
    return _become(argv, environ)


def _become(argv: list[str], environ: dict[str, str]) -> NoReturn:
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", "app.serve", *argv], environ)


def _check(argv: list[str], environ: dict[str, str], *, as_json: bool) -> int:
    settings = asdict(load(argv, environ))
    if as_json:
        print_json(settings)
    else:
        print(pairs(settings))
    return OK
