"""The server beside its inference calls: its model is found, runs are registered where there are runs."""

import pytest
from fakes import FakeServer

from loadgen.target import Model, Target, TargetError
from loadgen.workload import Limits


def test_the_first_model_is_taken_with_its_limits() -> None:
    with FakeServer() as server:
        assert Target(server.url).model(None) == Model("fake", Limits(49152, 2048))


def test_a_server_that_is_still_loading_is_waited_for() -> None:
    with FakeServer(loading=2) as server:
        assert Target(server.url).model(None).id == "fake"
    assert len(server.requests) == 3


def test_a_named_model_is_taken_even_if_it_is_not_listed() -> None:
    with FakeServer() as server:
        assert Target(server.url).model("other") == Model("other", Limits())


def test_a_server_that_lists_no_model_needs_one_named() -> None:
    with FakeServer(models=[]) as server, pytest.raises(TargetError, match="--model"):
        Target(server.url).model(None)


def test_nobody_listening_is_said_with_the_address() -> None:
    with pytest.raises(TargetError, match="127.0.0.1:1"):
        Target("http://127.0.0.1:1").model(None)


def test_a_run_is_registered_where_there_are_runs_and_nowhere_else() -> None:
    with FakeServer() as server:
        assert Target(server.url).register({"external": True}) == "run-of-fake"
    with FakeServer(batchscope=False) as server:
        assert Target(server.url).register({"external": True}) is None


def test_only_plain_http_is_loaded() -> None:
    for url in ("https://example.org", "ftp://x", "127.0.0.1:8000", ""):
        with pytest.raises(TargetError):
            Target(url)


def test_a_key_goes_out_as_a_bearer_token() -> None:
    with FakeServer() as server:
        Target(server.url, "secret").model(None)
    assert server.requests[0].headers["authorization"] == "Bearer secret"
