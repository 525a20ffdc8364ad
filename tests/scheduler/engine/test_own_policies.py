"""A user's own policies: loaded, tried, and named when they are wrong."""

from __future__ import annotations

import re
from array import array
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from scheduler.core.policies.catalog import CATALOG, make
from scheduler.core.request import SamplingParams
from scheduler.engine.build import light_runner
from scheduler.engine.messages import PROTOCOL, Hello, Patch, Ready, Reply, Submit
from scheduler.engine.own_policies import blame, catalog_with, load
from scheduler.engine.service import EngineService
from scheduler.errors import SettingsError
from scheduler.settings import ModelSettings

PAGE = Path(__file__).parents[3] / "docs" / "policies.md"
HEAD = "from scheduler.core.policies.base import Keyed, Param, PolicyInfo\n"
NEWEST = (
    HEAD
    + """
class Newest(Keyed):
    def key_of(self, request, now):
        return -request.number

INFO = PolicyInfo("newest", "the newest first", (), "us", "None.", lambda params, pool: Newest())
"""
)


def written(directory: Path, **files: str) -> str:
    for name, text in files.items():
        (directory / f"{name}.py").write_text(text, "utf-8")
    return str(directory)


def refusal(directory: Path, **files: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(written(directory, **files))
    assert caught.value.param == "policies"
    return caught.value.message


def test_example_of_the_page_is_a_policy(tmp_path: Path) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    own = load(written(tmp_path, short_prompts=example))
    assert list(own) == ["short_prompts"] and "short_prompts" in PAGE.read_text("utf-8")
    policy = make("short_prompts", {"ms_a_token": 2}, None, catalog_with(own))
    assert type(policy).__name__ == "ShortPrompts"


def test_policy_is_known_by_its_name_and_the_hash_of_its_file(tmp_path: Path) -> None:
    own = load(written(tmp_path, mine=NEWEST))
    row = own["newest"].row()
    assert (
        row["sha256"] == sha256(NEWEST.encode()).hexdigest() and row["file"] == "mine.py" and row["help"] == "the newest first"
    )
    assert set(catalog_with(own)) == {*CATALOG, "newest"} and "newest" not in CATALOG


def test_no_directory_is_no_policy_of_ones_own_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    assert load("") == {}
    with pytest.raises(SettingsError, match="nowhere is no directory"):
        load(str(tmp_path / "nowhere"))
    assert "there is no *.py in" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("def (", "SyntaxError"),
        ("raise KeyError('x')", "KeyError"),
        ("INFO = 3", "it defines no INFO = PolicyInfo"),
        (NEWEST.replace('"newest"', '"sjf"'), "'sjf' is taken"),
        (NEWEST.replace('"newest"', '"My Policy"'), "must be of a-z"),
        (NEWEST.replace('"us"', "None"), "source must be a text"),
        (NEWEST.replace("(),", "(Param('x', 5, 0, 1, 'too much'),),"), "no Param with low <= default <= high"),
        (NEWEST.replace("(),", "('x',),"), "is no Param"),
        (NEWEST.replace("Newest())", "1 // 0)"), "make() raised ZeroDivisionError"),
        (NEWEST.replace("Newest())", "object())"), "lacks enqueue, head, dequeue, served, tick, victim, adopt"),
        (NEWEST.replace("class Newest(Keyed):", "class Newest(Keyed):\n    preempts = 1"), "must say preempts"),
        (NEWEST.replace("-request.number", "request.numbr"), "failed in a trial, line 5: AttributeError"),
        (NEWEST.replace("lambda params,", "lambda params, more,"), "make() raised TypeError"),
        (
            NEWEST + "    \nNewest.head = lambda self, now: None\n",
            "failed in a trial: AssertionError: the policy lost somebody",
        ),
    ],
)
def test_what_is_wrong_is_told_with_the_name_of_the_file(text: str, what: str, tmp_path: Path) -> None:
    message = refusal(tmp_path, wrong=text)
    assert str(tmp_path / "wrong.py") in message and what in message


def test_two_files_of_one_name_are_refused_with_both(tmp_path: Path) -> None:
    message = refusal(tmp_path, one=NEWEST, two=NEWEST)
    assert str(tmp_path / "one.py") in message and str(tmp_path / "two.py") in message


def test_file_may_hold_a_dataclass_and_is_not_compiled_into_the_directory(tmp_path: Path) -> None:
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n" + NEWEST
    load(written(tmp_path, mine=text + "\n@dataclass\nclass Seen:\n    number: int = 0\n"))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


# ---- in the engine


class Engine:
    """A service that knows the policies of a directory."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.sent: list[Any] = []
        self.service = EngineService(self.sent.append)
        model = ModelSettings(runner="null")
        hello = Hello(PROTOCOL, 4, settings, {}, policies=str(directory))
        self.service.start(hello, model, light_runner(model), load(hello.policies))

    def patch(self, **changes: Any) -> Reply:
        self.service.handle(Patch(1, changes))
        reply: Reply = self.sent[-1]
        return reply

    def submit(self, kind: str) -> None:
        ids = array("I", range(8)).tobytes()
        self.service.handle(Submit(kind, ids, SamplingParams(max_tokens=2, ignore_eos=True), 0, kind=kind))


def test_ready_tells_what_there_is_and_a_change_may_name_it(tmp_path: Path) -> None:
    engine = Engine(Path(written(tmp_path, mine=NEWEST)), policy="newest")
    ready = engine.sent[0]
    assert isinstance(ready, Ready) and [row["name"] for row in ready.policies] == ["newest"]
    assert type(engine.service.loop.scheduler.policy).__name__ == "Newest"
    assert engine.patch(policy="fcfs").error is None
    assert engine.patch(policy="newest").error is None
    assert engine.patch(policy="oldest").error == "invalid"


def test_make_that_fails_on_a_parameter_refuses_the_change_and_the_engine_lives(tmp_path: Path) -> None:
    text = NEWEST.replace("(),", "(Param('x', 1, 0, 1, 'a divisor'),),").replace("Newest()", "1 // params['x'] and Newest()")
    engine = Engine(Path(written(tmp_path, mine=text)))
    reply = engine.patch(policy="newest", policy_params={"x": 0})
    assert reply.error == "invalid" and "mine.py" in reply.message and "ZeroDivisionError" in reply.message
    assert engine.patch(policy="newest").error is None


def test_policy_that_raises_in_the_engine_is_named_with_its_line(tmp_path: Path) -> None:
    text = NEWEST.replace("return -request.number", "return 1 // (request.kind != 'bad')")
    engine = Engine(Path(written(tmp_path, mine=text)), policy="newest")
    engine.submit("good")
    with pytest.raises(ZeroDivisionError) as caught:
        engine.submit("bad")
    engine.service.explain(caught.value)
    assert caught.value.__notes__ == [f"raised by your policy 'newest' ({tmp_path / 'mine.py'}, line 5)"]


def test_policy_in_force_is_named_when_the_core_finds_fault_and_none_of_ours_is(tmp_path: Path) -> None:
    own = load(written(tmp_path, mine=NEWEST))
    assert blame(AssertionError("x"), own, "newest") == f"while your policy 'newest' ({tmp_path / 'mine.py'}) was in force"
    assert blame(AssertionError("x"), own, "fcfs") is None
