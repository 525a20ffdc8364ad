"""The command line: which words there are, and what becomes of what goes wrong. Knows no command's work.

Invariant: whatever was typed ends in an exit code of 0, 1, 2 or 130 and, unless 0, in one sentence on stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from app.cli import database, hardware, load, reports, reproduce, requests, runs, serve, simulate, sql
from app.cli.failures import FAILED, INTERRUPTED, OK, USAGE, CommandError
from app.store.errors import QueryError, StoreError
from scheduler.errors import BatchscopeError, SettingsError, in_words

Add = Callable[[argparse.ArgumentParser, argparse.ArgumentParser], None]


class Command(NamedTuple):
    """A word, what it does, and who adds its arguments. url: may it name a server?"""

    name: str
    help: str
    add: Add
    url: bool = True


COMMANDS = (
    Command("load", "run a Locust scenario, report at the end", load.add_load),
    Command("scenarios", "list the scenarios, or show one with its parameters", load.add_scenarios, url=False),
    Command("runs", "list load runs; change the load of one, stop, delete, export, import them", runs.add_runs),
    Command("report", "the report of a run", reports.add_report),
    Command("compare", "runs side by side", reports.add_compare),
    Command("requests", "list requests by filters, or show one", requests.add_requests),
    Command("sql", "one SELECT over the records, read only", sql.add_sql),
    Command("reproduce", "run experiments of the literature, and compare", reproduce.add_reproduce, url=False),
    Command("simulate", "a trace, a run or a scenario on a simulated clock, kept like a load run", simulate.add_simulate),
    Command("calibrate", "fit a cost model to the steps of a run", hardware.add_calibrate),
    Command("db", "the database: upgrade, check, back up, prune", database.add_database, url=False),
)


def parser() -> argparse.ArgumentParser:
    """Every command but `serve`, whose words belong to the server."""
    top = argparse.ArgumentParser(
        prog="batchscope",
        description="Load-test and watch LLM request scheduling. Exit codes: 0 ok, 1 failed, 2 usage, 130 interrupted.",
        allow_abbrev=False,
        formatter_class=partial(argparse.HelpFormatter, max_help_position=30),
    )
    words = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    words.add_parser("serve", help=serve.HELP, add_help=False)
    for command in COMMANDS:
        common = _common(url=command.url)
        added = words.add_parser(
            command.name, parents=[common], help=command.help, description=_sentence(command.help), allow_abbrev=False
        )
        command.add(added, _common(url=command.url, inherited=True))
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words[:1] == ["serve"]:
            return serve.serve(words[1:])
        options = parser().parse_args(_with_descending(words))
        code: int = options.act(options)
        sys.stdout.flush()
        return code
    except SystemExit as left:  # argparse: 0 after --help, 2 after a wrong word
        return left.code if isinstance(left.code, int) else FAILED
    except BrokenPipeError:  # `batchscope requests | head`: the reader has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except CommandError as error:
        return _fail(error.message, error.code)
    except QueryError as error:
        return _fail(str(error), FAILED if error.param in ("run", "id") else USAGE)
    except SettingsError as error:
        return _fail(error.message, USAGE)
    except OSError as error:
        return _fail(_of_system(error), FAILED)
    except (BatchscopeError, StoreError, SQLAlchemyError) as error:
        return _fail(str(error), FAILED)


def _common(*, url: bool, inherited: bool = False) -> argparse.ArgumentParser:
    """Flags that every command has. inherited: below a subcommand, where an absent flag leaves the command's own alone."""
    default = argparse.SUPPRESS if inherited else None
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", default=argparse.SUPPRESS if inherited else False, help="print JSON")
    common.add_argument("--data-dir", metavar="DIR", default=default, help="directory of the records (default: data)")
    if url:
        common.add_argument("--url", metavar="URL", default=default, help="ask this server instead of the data directory's")
    return common


def _with_descending(words: list[str]) -> list[str]:
    """`--sort -ttft_ms` as one word: argparse would take a key that begins with a dash for a flag."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "--sort" and word.startswith("-") and not word.startswith("--"):
            joined[-1] = f"--sort={word}"
        else:
            joined.append(word)
    return joined


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _of_system(error: OSError) -> str:
    """`FILE: no such file or directory`, not `[Errno 2] …`."""
    return f"{error.filename}: {in_words(error)}" if error.filename is not None else in_words(error)


def _fail(message: str, code: int) -> int:
    print(f"batchscope: {message}", file=sys.stderr)
    return code
