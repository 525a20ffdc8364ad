"""The documents keep up: every event, policy, setting, route, command and wait reason is in them, and no link is dead.

DOCS=write writes the generated pages anew.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from architecture.reference_pages import commands, policies_page, reference_page
from architecture.sources import ROOT

from app.cli.command import parser
from app.settings import ServerSettings
from app.settings import parser as server_parser
from scheduler.core.events import EVENT_TYPES
from scheduler.core.policies.catalog import CATALOG
from scheduler.core.request import FinishReason, RequestState, WaitReason
from scheduler.settings import SchedulerSettings

DOCS = ROOT / "docs"
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *(ROOT / name for name in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md", "CHANGELOG.md")),
]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
MEASURED = "\n## Guarantees\n"  # from here on, policies.md is written and held by tests/scheduler/guarantees
NO_METHODS = {"HEAD", "OPTIONS"}


@pytest.mark.parametrize(("name", "make"), [("policies.md", policies_page), ("reference.md", reference_page)])
def test_generated_pages_are_current(name: str, make: Callable[[], str]) -> None:
    page = make()
    if os.environ.get("DOCS") == "write":
        _, heading, measured = (DOCS / name).read_text("utf-8").partition(MEASURED)
        (DOCS / name).write_text(page + heading + measured, "utf-8")
    now = (DOCS / name).read_text("utf-8").partition(MEASURED)[0]
    assert now == page, f"docs/{name} lags: run this test with DOCS=write, and read the difference"


def test_every_kind_of_event_is_described_with_its_fields() -> None:
    text = (DOCS / "events.md").read_text("utf-8")
    assert [kind.__name__ for kind in EVENT_TYPES if f"| `{kind.__name__}` |" not in text] == []


def test_every_wait_reason_state_and_end_is_in_the_glossary() -> None:
    text = (DOCS / "glossary.md").read_text("utf-8")
    assert [reason.name.lower() for reason in WaitReason if f"| `{reason.name.lower()}` |" not in text] == []
    assert [state.value for state in RequestState if f"**{state.value}**" not in text] == []
    assert [reason.value for reason in FinishReason if f"`{reason.value}`" not in text] == []


def test_every_policy_and_setting_is_described() -> None:
    policies, reference = (DOCS / "policies.md").read_text("utf-8"), (DOCS / "reference.md").read_text("utf-8")
    assert [name for name in CATALOG if f"## `{name}`" not in policies] == []
    settings = [spec.name for spec in fields(SchedulerSettings)]
    flags = ["--" + spec.name.replace("_", "-") for spec in fields(ServerSettings)]
    assert [name for name in [*settings, *flags] if f"`{name}`" not in reference] == []


def test_every_command_is_described() -> None:
    text = (DOCS / "reference.md").read_text("utf-8")
    assert [name for name, _, _ in commands(parser()) if f"### `{name}`" not in text] == []


def test_every_route_is_described() -> None:
    text = (DOCS / "api.md").read_text("utf-8")
    missing = [route for route in routes() if f"`{route}`" not in text]
    assert missing == [], "docs/api.md lags"


def test_described_routes_exist() -> None:
    known = set(routes())
    told = re.findall(r"`((?:GET|POST|PATCH|DELETE) /\S*)`", (DOCS / "api.md").read_text("utf-8"))
    assert [route for route in told if route not in known] == []


def test_a_route_that_is_not_described_would_be_found() -> None:
    assert "GET /livez" in routes() and "`GET /nonsense`" not in (DOCS / "api.md").read_text("utf-8")


def test_quoted_lines_of_the_golden_log_are_in_it() -> None:
    log = (DOCS / "golden_log.jsonl").read_text("utf-8").splitlines()
    quoted = [line for line in (DOCS / "events.md").read_text("utf-8").splitlines() if line.startswith('{"event"')]
    assert quoted and [line for line in quoted if line not in log] == []
    assert all(json.loads(line)["boot"] == 1 for line in log)


def test_links_lead_somewhere() -> None:
    dead = [
        f"{page.relative_to(ROOT)}: {link}" for page in PAGES for link in local_links(page) if not (page.parent / link).exists()
    ]
    assert dead == []


def test_readme_has_the_two_commands_and_a_picture() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert "make run" in text and "make test" in text and text.count("](docs/screenshots/") == 2


def test_both_readmes_have_the_same_commands_pictures_and_pages() -> None:
    english, chinese = [(ROOT / name).read_text("utf-8") for name in ("README.md", "README.zh-CN.md")]
    for what in (r"(?s)^```\n.*?^```", r"\]\((docs/screenshots/[^)]+)\)", r"https?://[^\s)>]+", r"^## ", r"^\d+\. "):
        assert re.findall(what, chinese, re.M) == re.findall(what, english, re.M), what
    known = {"README.md", "README.zh-CN.md", "docs/lesson.md", "docs/lesson.zh-CN.md"}  # each leads to its own language
    assert set(LINK.findall(chinese)) - known == set(LINK.findall(english)) - known
    assert all(re.search(r"[\u4e00-\u9fff]", line) for line in re.findall(r"^\d+\. .*", chinese, re.M))


def test_the_readmes_commands_are_commands() -> None:
    lines = re.findall(r"^batchscope ([^#>\n]+)", (ROOT / "README.md").read_text("utf-8"), re.M)
    assert len(lines) >= 9
    for line in lines:
        words = shlex.split(line.replace("--sort ", "--sort="))
        known = server_parser() if words[0] == "serve" else parser()  # the server's words are its own
        known.parse_args(words[words[0] == "serve" :])


def local_links(page: Path) -> list[str]:
    """Relative links of a page; pictures and web addresses are others' business."""
    found = LINK.findall(page.read_text("utf-8"))
    return [link for link in found if "://" not in link and not link.startswith("docs/img/") and not link.startswith("img/")]


def routes() -> list[str]:
    """`METHOD /path` of the real application, made in a process of its own: making it sets up gevent's Socket.IO."""
    code = (
        "import json; from app.factory import create_app; rules = create_app(None, []).url_map.iter_rules();"
        "print(json.dumps([[sorted(rule.methods), rule.rule] for rule in rules]))"
    )
    made = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    rules = json.loads(made.stdout)
    plain = [(method, re.sub(r"<(?:[^:>]+:)?(\w+)>", r"{\1}", path)) for methods, path in rules for method in methods]
    return sorted({f"{method} {path}" for method, path in plain if method not in NO_METHODS and not path.startswith("/static")})
