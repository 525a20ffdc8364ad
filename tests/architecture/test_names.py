"""Rule 10: names that say nothing are not rooms. Also: every module says what it is, and no two tests share a name."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import PurePosixPath

import pytest
from architecture.sources import FOLDERS, PACKAGES, ROOT, Source, python_sources

RULE = "rule 10: no utils.py, helpers.py, common.py; no class …Manager, …Helper, …Util"
EMPTY_FILES = re.compile(r"^_?(utils?|helpers?|common|misc|shared|stuff)$")
EMPTY_CLASSES = re.compile(r"(Managers?|Helpers?|Utils?)$")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def test_no_file_has_a_name_that_says_nothing() -> None:
    scripts = [path.relative_to(ROOT).as_posix() for path in (ROOT / "static/js").rglob("*.js")]
    paths = [source.path for source in python_sources(*FOLDERS)] + scripts
    empty = [path for path in paths if _says_nothing(path)]
    assert not empty, f"{RULE}: name the noun that the file is about: {empty}"


def test_no_class_has_a_name_that_says_nothing() -> None:
    empty = [
        f"{source.path}: {name}"
        for source in python_sources(*FOLDERS)
        for name in _classes(source)
        if EMPTY_CLASSES.search(name)
    ]
    assert not empty, f"{RULE}: what does it hold, or do? {empty}"


def test_every_module_says_what_it_is() -> None:
    mute = [source.path for source in python_sources(*FOLDERS) if source.text.strip() and not ast.get_docstring(source.tree)]
    assert not mute, f"no module docstring: {mute}"


def test_nothing_is_left_to_do_in_a_comment() -> None:
    here = PurePosixPath(__file__).name
    marks = [
        source.path for source in python_sources(*FOLDERS) if UNFINISHED.search(source.text) and not source.path.endswith(here)
    ]
    assert not marks, f"a TODO is an issue number, or it is not there: {marks}"


def test_test_files_have_unique_names() -> None:
    names = Counter(PurePosixPath(source.path).name for source in python_sources("tests"))
    del names["conftest.py"]  # pytest finds these by folder
    assert [name for name, count in names.items() if count > 1] == []


def test_packages_of_tests_have_no_init() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))


@pytest.mark.parametrize("path", ["app/utils.py", "scheduler/common/x.py", "static/js/helpers.js", "loadgen/_util.py"])
def test_empty_file_names_are_caught(path: str) -> None:
    assert _says_nothing(path)


@pytest.mark.parametrize("name", ["RequestManager", "TokenHelper", "StringUtils", "Util"])
def test_empty_class_names_are_caught(name: str) -> None:
    assert EMPTY_CLASSES.search(_classes(Source("app/x.py", f"class {name}: pass"))[0])


def test_full_names_pass() -> None:
    assert not any(_says_nothing(source.path) for source in python_sources(*PACKAGES) if source.path.endswith("errors.py"))
    assert (
        not EMPTY_CLASSES.search("BlockPool") and not UNFINISHED.search("what is to do") and UNFINISHED.search("# TODO later")
    )


def _says_nothing(path: str) -> bool:
    return any(EMPTY_FILES.match(part.partition(".")[0]) for part in PurePosixPath(path).parts)


def _classes(source: Source) -> list[str]:
    return [node.name for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)]
