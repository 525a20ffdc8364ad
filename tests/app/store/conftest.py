"""Fixtures of the records' tests: each runs on SQLite, and on a real PostgreSQL where its package is installed.

`url` is an empty database for one test, `module_url` one for all tests of a file, `bare_url` has no schema yet. A test about
SQLite itself takes `only_sqlite` (records.py) as its mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from postgres import HOW, Cluster, Databases, binaries
from records import BACKENDS, Records


@pytest.fixture(scope="session")
def databases(say: Callable[[str], None]) -> Iterator[Databases]:
    """Databases of a PostgreSQL that is started for this session; skips, and says so, where there is none."""
    if binaries() is None:
        say(f"SKIPPED: the records on PostgreSQL were not tested: {HOW}")
        pytest.skip(HOW)
    with Cluster() as cluster:
        yield Databases(cluster)


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Which database the tests run on."""
    return str(request.param)


@pytest.fixture(scope="module")
def new_url(
    backend: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], AbstractContextManager[str]]:
    """An empty database of the backend, as long as the context lasts."""
    if backend == "postgresql":
        databases: Databases = request.getfixturevalue("databases")
        return databases.current

    @contextmanager
    def file() -> Iterator[str]:
        yield f"sqlite:///{tmp_path_factory.mktemp('records') / 'records.sqlite3'}"

    return file


@pytest.fixture
def url(new_url: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    """An empty database for one test."""
    with new_url() as made:
        yield made


@pytest.fixture(scope="module")
def module_url(new_url: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    """An empty database for the tests of one file."""
    with new_url() as made:
        yield made


@pytest.fixture
def bare_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without any schema."""
    if backend == "sqlite":
        yield f"sqlite:///{tmp_path / 'bare.sqlite3'}"
        return
    databases: Databases = request.getfixturevalue("databases")
    with databases.bare() as made:
        yield made


@pytest.fixture
def records(url: str) -> Iterator[Records]:
    """A database with a started writer."""
    made = Records(url=url)
    yield made
    made.close()
