"""The pages of docs/ that are made from the code: policies, and the reference of commands and settings. Writes nothing.

Invariant: what a page says of a name, a default or a range is read from the table that the code itself uses.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import fields

from app.cli.command import parser
from app.settings import PREFIX, ServerSettings
from scheduler.core.policies.base import Param, PolicyInfo
from scheduler.core.policies.catalog import CATALOG
from scheduler.settings import describe

POLICIES_HEAD = """# Policies

A policy is the ORDER of the queue: it says who is next and who yields, not whether there is room (allocation), nor how many
tokens somebody gets (batching). It is chosen with `--policy`, `--set policy=NAME`, on the Policy page or by
`PATCH /api/scheduler`, and can be changed while requests wait: the new one takes over between two steps. Priority: the
lower number runs first. Ties are broken by arrival. Parameters are set as `--set policy_params.NAME=VALUE`,
those of a family, `weight.*`, each by its own name: `--set policy_params.weight.ann=2`.
`GET /api/scheduler` gives this catalog as JSON. Which policy keeps which guarantee, as measured: [the table](#guarantees).
"""

OWN_POLICIES = '''## A policy of your own
`batchscope serve --policies DIR` (or `BATCHSCOPE_POLICIES`, or `policies` in `batchscope.toml`) loads every `*.py` of DIR into
the engine process and adds what it finds to the catalog, marked *yours*, with the hash of its file; the hash is kept with each
run that uses it. A file defines `INFO`, as those of `scheduler/core/policies` do; `base.py` there says what a policy owes. It
is code of yours with all the rights of the engine: load no stranger's. Save this as `my_policies/short_prompts.py`:

```python
from scheduler.core.policies.base import Keyed, Param, PolicyInfo
from scheduler.core.request import Request


class ShortPrompts(Keyed):
    """Each prompt token counts as so much later an arrival."""

    def __init__(self, ms_a_token: float = 5.0) -> None:
        super().__init__()
        self._ns = int(ms_a_token * 1_000_000)

    def key_of(self, request: Request, now: int) -> int:
        return request.received_at + self._ns * request.prompt_tokens


INFO = PolicyInfo(
    name="short_prompts",
    help="short prompts first, within a bound",
    params=(Param("ms_a_token", 5.0, 0.0, 1000.0, "how much later a prompt token counts as, ms"),),
    source="the page on policies",
    guarantee="Nobody is overtaken by a request that came more than ms_a_token · (difference of prompt tokens) later.",
    make=lambda params, pool: ShortPrompts(params["ms_a_token"]),
)
```

and start with `batchscope serve --policies my_policies --policy short_prompts`. Before it is offered, a policy serves a few
requests in a small trial. A file that cannot be read, takes a name that is taken, or whose policy lacks a method or fails the
trial, stops the start and is named. Should a policy raise later, the engine ends and a new one begins: the log and `/readyz`
say which policy, in which line.
'''

REFERENCE_HEAD = """# Reference

Made from the code (`DOCS=write .venv/bin/python -m pytest tests/architecture/test_docs.py` writes it anew).
"""

COMMANDS_HEAD = """## Commands

`.venv/bin/batchscope COMMAND`. Exit codes: 0 ok, 1 failed, 2 usage, 130 interrupted. Each command has `--help`,
and `--json` where it prints data.
`--data-dir DIR` names the records; where a live server holds them, the command asks that server, else it reads the
database. `--url URL` asks another server. `BATCHSCOPE_API_KEY` is the key that commands send to a server that wants one.
"""

SERVER_HEAD = """## Server settings

Flags of `batchscope serve` go before environment variables, these before `batchscope.toml` (`name = value`), that before
defaults. Unknown names are errors. `batchscope serve --check` says what they come to.
"""

SCHEDULER_HEAD = """## Scheduler settings

`--set NAME=VALUE`, a table `[set]` in `batchscope.toml`, `PATCH /api/scheduler`, the Policy page, and `--scheduler` of a load
run. Names are vLLM's where vLLM has one. *live*: changes between two steps; *restart*: only at a start.
"""


def policies_page() -> str:
    """docs/policies.md."""
    return "\n".join([POLICIES_HEAD, *(_policy(info) for info in CATALOG.values()), OWN_POLICIES])


def reference_page() -> str:
    """docs/reference.md."""
    return "\n".join([REFERENCE_HEAD, COMMANDS_HEAD, *_commands(), SERVER_HEAD + _server(), SCHEDULER_HEAD + _scheduler()])


def commands(top: argparse.ArgumentParser, before: str = "batchscope") -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """(full name, help, parser) of every command and subcommand."""
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, below in action.choices.items():
                yield f"{before} {name}", helps.get(name, ""), below
                yield from commands(below, f"{before} {name}")


def _policy(info: PolicyInfo) -> str:
    sentence = info.help[0].upper() + info.help[1:]
    parts = [f"## `{info.name}`\n{sentence}.", f"Guarantee: {info.guarantee}"]
    if info.params:
        rows = [(f"`{param.name}`", _plain(param.default), _range(param), param.help) for param in info.params]
        parts.append(_table(("parameter", "default", "range", "meaning"), rows))
    return "\n\n".join([*parts, f"Source: {info.source}.\n"])


def _commands() -> Iterator[str]:
    for name, help, below in commands(parser()):
        own = [action for action in below._actions if action.help != argparse.SUPPRESS and not _common(action)]
        rows = [(f"`{_words(action)}`", _help(action)) for action in own]
        yield f"### `{name}`\n{help[:1].upper()}{help[1:].rstrip('?')}{'?' if help.endswith('?') else '.'}\n" + (
            "\n" + _table(("word", "meaning"), rows) + "\n" if rows else ""
        )


def _common(action: argparse.Action) -> bool:
    return isinstance(action, argparse._SubParsersAction) or action.dest in ("help", "json", "data_dir", "url")


def _words(action: argparse.Action) -> str:
    shown = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        return shown
    return action.option_strings[-1] if action.nargs == 0 else f"{action.option_strings[-1]} {shown}"


def _help(action: argparse.Action) -> str:
    choices = f" ({', '.join(action.choices)})" if action.choices else ""
    return (action.help or "").replace("%(default)s", str(action.default)) + choices


def _server() -> str:
    rows = []
    for spec in fields(ServerSettings):
        flag, choices = "--" + spec.name.replace("_", "-"), spec.metadata["choices"]
        about = spec.metadata["help"] + (f" ({', '.join(choices)})" if choices else "")
        rows.append((f"`{flag}`", f"`{PREFIX}{spec.name.upper()}`", _default(spec.default), about))
    return "\n" + _table(("flag", "environment", "default", "meaning"), rows) + "\n"


def _scheduler() -> str:
    rows = []
    for spec in describe():
        default = (
            _default(spec["default"]) if spec["default"] == spec["cuda"] else f"{_default(spec['default'])} / {_cuda(spec)}"
        )
        bounds = ", ".join(spec["choices"]) or (
            "" if spec["low"] is None else f"{_plain(spec['low'])} – {_plain(spec['high'])}"
        )
        change, vllm = "live" if spec["live"] else "restart", "yes" if spec["vllm"] else "no"
        rows.append((f"`{spec['name']}`", default, spec["unit"] or "–", bounds or "–", change, vllm, spec["help"]))
    return "\n" + _table(("name", "default (CPU / CUDA)", "unit", "range", "change", "vLLM has it", "meaning"), rows) + "\n"


def _cuda(spec: dict[str, object]) -> str:
    return "from memory" if spec["cuda"] == 0 else _default(spec["cuda"])


def _default(value: object) -> str:
    if value is None or value is False or value in ("", (), {}):
        return "–"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _range(param: Param) -> str:
    return f"{_plain(param.low)} – {_plain(param.high)}"


def _plain(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(head)
    lines = [names, ["---"] * len(names), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
