"""Every guarantee against every policy: who promised keeps it, who is named breaks it; docs/policies.md says what was found.

DOCS=write writes the section of the page anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from guarantee import Guarantee, all_guarantees

from scheduler.core.policies.catalog import CATALOG

PAGE = Path(__file__).parents[3] / "docs" / "policies.md"
HEADING = "## Guarantees"
LEGEND = """## Guarantees

What follows was measured: each guarantee is a test, put to every policy with the parameters that the test is about, else the
defaults. **yes**: promised, and it held. yes: not promised; no case of the test broke it. –: broken. A test that no policy
fails would be none, so each has policies that must fail it. `tests/scheduler/guarantees` has the tests and writes this section.
"""
GUARANTEES = all_guarantees()

Found = dict[tuple[str, str], str | None]


@pytest.fixture(scope="module")
def found() -> Found:
    """(guarantee, policy) → None, or how it was broken."""
    return {(each.name, policy): each.find_violation(policy) for each in GUARANTEES for policy in CATALOG}


def test_guarantees_have_names_of_their_own_and_policies_of_the_catalog() -> None:
    names = [each.name for each in GUARANTEES]
    assert len(set(names)) == len(names), "two guarantees share a name"
    for each in GUARANTEES:
        assert each.promised_by and each.violated_by, f"{each.name}: somebody must promise it, somebody must break it"
        assert {*each.promised_by, *each.violated_by} <= set(CATALOG), f"{each.name} names a policy that is not in the catalog"
        assert not set(each.promised_by) & set(each.violated_by), each.name


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda each: each.name)
def test_who_promises_keeps_it_and_who_is_named_breaks_it(guarantee: Guarantee, found: Found) -> None:
    broken = {policy: found[guarantee.name, policy] for policy in guarantee.promised_by}
    assert {policy: how for policy, how in broken.items() if how} == {}, guarantee.says
    kept = [policy for policy in guarantee.violated_by if found[guarantee.name, policy] is None]
    assert kept == [], f"the test of “{guarantee.says}” cannot fail: these should have broken it"


def test_every_policy_promises_something() -> None:
    assert [name for name in CATALOG if name != "lifo" and not any(name in each.promised_by for each in GUARANTEES)] == []


def test_the_table_of_the_page_is_what_was_measured(found: Found, say: Callable[[str], None]) -> None:
    section = _section(found)
    say(_table(found))
    text = PAGE.read_text("utf-8")
    before = text.partition(f"\n{HEADING}\n")[0].rstrip("\n")
    if os.environ.get("DOCS") == "write":
        PAGE.write_text(f"{before}\n\n{section}", "utf-8")
    page = PAGE.read_text("utf-8")
    assert page.endswith(f"\n\n{section}"), "docs/policies.md lags: run this test with DOCS=write, and read the difference"


def _section(found: Found) -> str:
    lines = [f"{number}. *{each.name[0].upper()}{each.name[1:]}.* {each.says}" for number, each in enumerate(GUARANTEES, 1)]
    return f"{LEGEND}\n{chr(10).join(lines)}\n\n{_table(found)}\n"


def _table(found: Found) -> str:
    numbers = [str(number) for number, _ in enumerate(GUARANTEES, 1)]
    lines = [["policy", *numbers], ["---"] * (len(numbers) + 1)]
    lines += [[f"`{policy}`", *(_cell(each, policy, found) for each in GUARANTEES)] for policy in CATALOG]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(guarantee: Guarantee, policy: str, found: Found) -> str:
    if found[guarantee.name, policy] is not None:
        return "–"
    return "**yes**" if policy in guarantee.promised_by else "yes"
