"""Who may import whom: design.md section 4 held over the tree, and each rule shown a snippet that breaks it."""

from __future__ import annotations

from pathlib import Path

import pytest
from architecture import import_rules
from architecture.import_rules import RULES, Finding, imports_stand_at_the_top, parts_meet_in_wiring, torch_is_loaded_late
from architecture.sources import PACKAGES, ROOT, Source, python_sources

# What every part of app may know: values and names without behaviour of their own.
WORDS = ("app.settings", "app.percents", "app.request_id", "app.version", "app.safe_headers")

# Rule 7: a part of app → the other parts it knows. What is missing here meets in wiring.py. Views (api, pages) reach the
# running server through extensions.Parts, which therefore names every part's type and makes none. factory.py makes the Flask
# app, so it knows whatever registers on one. cli is another process: it asks the server, or reads what that has written.
KNOWS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(WORDS, ()),
    "app.acceptance": ("app.api.errors", "app.serving", "app.store", "app.supervisor"),
    "app.announcements": (),
    "app.api": (
        "app.extensions",
        "app.store",
        "app.supervisor",
        "app.acceptance",
        "app.serving",
        "app.report_file",
        "app.summaries",
    ),
    "app.cli": ("app.store", "app.supervisor.scenarios", "app.report_file"),
    "app.counters": (),
    "app.event_feed": (),
    "app.extensions": (
        "app.acceptance",
        "app.counters",
        "app.event_feed",
        "app.rates",
        "app.serving",
        "app.store",
        "app.summaries",
        "app.supervisor",
    ),
    "app.factory": (
        "app.api",
        "app.extensions",
        "app.gate",
        "app.live",
        "app.live_manners",
        "app.live_packet",
        "app.pages",
        "app.serving",
        "app.static_files",
    ),
    "app.callers": ("app.api.errors",),
    "app.gate": ("app.api.errors", "app.callers", "app.keys"),
    "app.keys": ("app.api.errors",),
    "app.log_lines": (),
    "app.minifier": (),
    "app.live": ("app.extensions", "app.live_state", "app.live_bars", "app.live_figures", "app.live_fold"),
    "app.live_bars": (),
    "app.live_figures": (),
    "app.live_fold": ("app.live_bars", "app.live_figures"),
    "app.live_state": ("app.live_bars", "app.live_figures", "app.live_fold"),
    "app.live_manners": (),
    "app.live_packet": (),
    "app.known_names": (),
    "app.lesson": (),
    "app.opening": ("app.store",),
    "app.pages": ("app.api.errors", "app.extensions", "app.lesson", "app.presets", "app.supervisor.scenarios"),
    "app.presets": (),
    "app.rates": (),
    "app.report_file": (),
    "app.retention": ("app.store",),
    "app.run_ledger": ("app.store", "app.summaries"),
    "app.serve": (
        "app.announcements",
        "app.factory",
        "app.known_names",
        "app.log_lines",
        "app.opening",
        "app.serving",
        "app.wiring",
    ),
    "app.serving": ("app.api.errors",),
    "app.static_files": (),
    "app.store": (),
    "app.summaries": ("app.store", "app.supervisor.generator"),
    "app.supervisor": (),
}

TREE = python_sources(*PACKAGES, "migrations")


@pytest.mark.parametrize("rule", sorted(RULES))
def test_rule_holds_in_the_tree(rule: int) -> None:
    assert TREE, "no sources found"
    _none([finding for source in TREE for finding in RULES[rule](source)])


def test_no_module_loads_torch_by_being_imported() -> None:
    _none(list(torch_is_loaded_late(TREE)))


def test_parts_of_app_meet_in_wiring_only() -> None:
    _none([finding for source in TREE for finding in parts_meet_in_wiring(source, KNOWS, WORDS)])


def test_imports_stand_at_the_top_of_files() -> None:
    _none(list(imports_stand_at_the_top(TREE)))


def test_app_package_is_a_docstring_so_that_serve_can_patch_first() -> None:
    body = Source("app/__init__.py", (ROOT / "app/__init__.py").read_text("utf-8")).tree.body
    assert len(body) <= 1, "app/__init__.py runs before app/serve.py patches: nothing but a docstring may stand in it"


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (1, "scheduler/core/x.py", "import time"),
        (1, "scheduler/core/x.py", "from os import path"),
        (1, "scheduler/core/x.py", "import msgspec"),
        (1, "scheduler/core/x.py", "from ..settings import SchedulerSettings"),
        (1, "scheduler/core/policies/x.py", "from scheduler import metrics"),
        (1, "scheduler/core/x.py", "import importlib\nimportlib.import_module('threading')"),
        (1, "scheduler/core/x.py", "key = hash('a')"),
        (1, "scheduler/core/x.py", "for item in {1, 2}: pass"),
        (1, "scheduler/core/x.py", "def f(ids: set[int]):\n    return [i for i in ids]"),
        (1, "scheduler/core/x.py", "class A:\n def __init__(self):\n  self.s = set()\n def f(self):\n  return list(self.s)"),
        (1, "scheduler/core/x.py", "class A:\n    ids: frozenset[int]\ndef f(a):\n    return (*a.ids,)"),
        (1, "scheduler/core/x.py", "def f(a, b):\n    rest = set(a) - set(b)\n    return rest.pop()"),
        (1, "scheduler/core/x.py", "def f(a, b):\n    for key in a.keys() & b.keys(): pass"),
        (1, "scheduler/core/x.py", "print('x')"),
        (2, "scheduler/runners/simulated.py", "import torch.nn"),
        (2, "app/api/x.py", "def f():\n    from torch import Tensor"),
        (2, "scheduler/text/x.py", "from safetensors.torch import load_file"),
        (3, "scheduler/metrics/x.py", "import sqlalchemy as sa"),
        (3, "loadgen/x.py", "import flask_socketio"),
        (3, "app/api/x.py", "from sqlalchemy import create_engine"),
        (3, "app/pages.py", "from sqlalchemy.orm import Session"),
        (3, "app/live.py", "import sqlite3"),
        (4, "app/api/x.py", "from scheduler.core.scheduler import Scheduler"),
        (4, "app/api/x.py", "from scheduler.core.request import Request"),
        (4, "app/api/x.py", "from scheduler import core"),
        (4, "app/factory.py", "from scheduler.engine import local"),
        (4, "app/live.py", "import gevent.event"),
        (4, "app/supervisor.py", "import locust"),
        (5, "loadgen/x.py", "from app.settings import Settings"),
        (5, "loadgen/x.py", "from scheduler.errors import BatchscopeError"),
        (5, "app/supervisor.py", "from loadgen.scenario import load"),
        (5, "scheduler/simulate.py", "import loadgen"),
        (6, "scheduler/core/policies/sjf.py", "from scheduler.core.policies.fcfs import Fcfs"),
        (6, "scheduler/core/policies/sjf.py", "from . import fcfs"),
        (6, "scheduler/core/policies/sjf.py", "from scheduler.core.blocks import BlockPool"),
        (8, "scheduler/runners/null.py", "from scheduler.engine.clock import Clock"),
        (8, "scheduler/core/x.py", "from scheduler.runners.base import Runner"),
        (8, "scheduler/metrics/x.py", "from scheduler.runners.cost_model import load"),
        (8, "scheduler/metrics/x.py", "import time"),
    ],
)  # fmt: skip
def test_rule_catches_a_breach(rule: int, path: str, text: str) -> None:
    findings = list(RULES[rule](Source(path, text)))
    assert findings, f"rule {rule} let this pass: {text}"
    assert import_rules.QUOTES[rule] in str(findings[0]) and findings[0].room in str(findings[0])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("scheduler/core/x.py", "from dataclasses import dataclass\nfrom scheduler.core.request import Request"),
        ("scheduler/core/x.py", "from scheduler.errors import CapacityError\nfrom . import events"),
        ("scheduler/core/x.py", "def f(a, b):\n    ids = set(a)\n    return [x for x in b if x in ids] + sorted(ids)"),
        ("scheduler/core/x.py", "def f(ids: set[int]): return len(ids)\ndef g(ids: list[int]):\n    for i in ids: pass"),
        ("scheduler/core/policies/sjf.py", "from scheduler.core.policies.base import KeyQueue\nimport heapq"),
        ("scheduler/runners/torch_runner/model.py", "import torch"),
        ("app/store/writer.py", "import sqlite3\nfrom sqlalchemy import Connection"),
        ("migrations/versions/x.py", "import sqlalchemy as sa"),
        ("app/wiring.py", "import gevent\nfrom scheduler.engine.local import LocalEngine"),
        ("app/api/x.py", "from scheduler.core.request import WaitReason\nfrom scheduler.engine import messages"),
    ],
)
def test_lawful_lines_pass(path: str, text: str) -> None:
    _none([finding for rule in RULES.values() for finding in rule(Source(path, text))])


def test_torch_behind_two_imports_is_found() -> None:
    sources = [
        Source("app/serve.py", "from scheduler.text import bundle"),
        Source("scheduler/text/bundle.py", "from scheduler.runners.torch_runner import model"),
        Source("scheduler/runners/torch_runner/model.py", "import torch"),
    ]
    findings = list(torch_is_loaded_late(sources))
    assert [finding.path for finding in findings] == ["app/serve.py", "scheduler/text/bundle.py"]
    assert "app.serve -> scheduler.text.bundle -> scheduler.runners.torch_runner.model -> torch" in findings[0].what


def test_torch_in_a_function_of_the_engine_server_is_not_loaded() -> None:
    late = "def runner():\n    from scheduler.runners.torch_runner.runner import TorchRunner"
    sources = [
        Source("scheduler/engine/server.py", late),
        Source("scheduler/runners/torch_runner/runner.py", "import torch"),
    ]
    _none([*torch_is_loaded_late(sources), *imports_stand_at_the_top(sources)])


def test_parts_that_do_not_know_each_other_are_named() -> None:
    findings = list(parts_meet_in_wiring(Source("app/live.py", "from app.store.queries import steps"), KNOWS, WORDS))
    assert "wiring.py" in findings[0].room
    assert list(parts_meet_in_wiring(Source("app/novelty.py", ""), KNOWS, WORDS)), "an unknown part must be put into the table"
    _none(list(parts_meet_in_wiring(Source("app/wiring.py", "from app import live, store"), KNOWS, WORDS)))


def test_late_imports_are_found_and_an_extra_has_one_user() -> None:
    plain = Source("app/api/x.py", "def f():\n    import json")
    assert [finding.rule for finding in imports_stand_at_the_top([plain])] == [9]
    extra = "def f():\n    import pyarrow"
    _none(list(imports_stand_at_the_top([Source("app/store/export.py", extra)])))
    twice = [Source("app/store/export.py", extra), Source("app/store/reports.py", extra)]
    assert [finding.path for finding in imports_stand_at_the_top(twice)] == ["app/store/reports.py"]


def test_top_level_has_no_other_folders() -> None:
    known = {"app", "scheduler", "loadgen", "static", "templates", "migrations", "tests", "benchmarks", "docs"}
    known |= {".ci", ".git", ".venv", "data"}
    passing = {
        path
        for path in _folders(ROOT)
        if path.endswith((".egg-info", "_cache")) or path in ("__pycache__", ".hypothesis", "out")
    }
    assert _folders(ROOT) - passing <= known, "design.md section 3 is the tree: which room does this belong to?"


def _folders(root: Path) -> set[str]:
    return {path.name for path in root.iterdir() if path.is_dir()}


def _none(findings: list[Finding]) -> None:
    assert not findings, "\n" + "\n".join(str(finding) for finding in findings)
