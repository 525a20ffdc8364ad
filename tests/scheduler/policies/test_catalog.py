"""The catalog: what people read is what they get."""

from __future__ import annotations

import pytest

from scheduler.core.policies.catalog import CATALOG, make
from scheduler.errors import SettingsError
from scheduler.settings import parse_pairs


def test_every_policy_says_what_it_is_and_promises() -> None:
    assert list(CATALOG) == [
        "fcfs",
        "priority",
        "priority_aging",
        "sjf",
        "srtf",
        "skip_join_mlfq",
        "edf",
        "least_slack",
        "vtc",
        "deficit_round_robin",
        "longest_prefix",
        "deficit_longest_prefix",
        "weighted_score",
        "lifo",
    ]
    for name, info in CATALOG.items():
        assert info.name == name and info.help and info.source and info.guarantee.endswith(".")
        doc = type(make(name, {})).__doc__ or ""
        assert all(word in doc for word in ("Formula:", "Source:", "Guarantee:")), name
        for param in info.params:
            assert param.help and param.low <= param.default <= param.high


def test_defaults_of_the_catalog_are_those_of_the_class() -> None:
    for name, info in CATALOG.items():
        policy_class = type(make(name, {}))
        defaults = policy_class.__init__.__defaults__ or ()
        assert tuple(None if param.family else param.default for param in info.params) == defaults, name


@pytest.mark.parametrize(
    ("name", "params", "field"),
    [
        ("nonsense", {}, "policy"),
        ("fcfs", {"gap_ms": 1}, "policy_params.gap_ms"),
        ("priority_aging", {"gap": 1}, "policy_params.gap"),
        ("priority_aging", {"gap_ms": -1}, "policy_params.gap_ms"),
        ("priority_aging", {"gap_ms": "long"}, "policy_params.gap_ms"),
        ("priority_aging", {"gap_ms": float("nan")}, "policy_params.gap_ms"),
        ("priority_aging", {"gap_ms": True}, "policy_params.gap_ms"),
        ("priority", {"preempt": 0.5}, "policy_params.preempt"),
        ("weighted_score", {"alpha": 0}, "policy_params.alpha"),
        ("vtc", {"weight.ann": 0}, "policy_params.weight.ann"),
        ("vtc", {"weight.ann": "much"}, "policy_params.weight.ann"),
        ("vtc", {"weight.": 1}, "policy_params.weight."),
        ("vtc", {"weight": 1}, "policy_params.weight"),
        ("fcfs", {"weight.ann": 1}, "policy_params.weight.ann"),
    ],
)
def test_what_is_wrong_is_named(name: str, params: dict[str, object], field: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make(name, params)
    assert caught.value.param == field


def test_parameters_reach_the_policy() -> None:
    assert make("priority", {"preempt": 1}).preempts and not make("priority", {}).preempts
    assert make("edf", {"preempt": 1, "default_ms": 5}).preempts


def test_family_of_parameters_takes_any_name_and_leaves_the_unnamed_alone() -> None:
    pairs = parse_pairs(["policy_params.weight.ann=2", "policy_params.weight.b.c d=0.5"])
    for name in ("vtc", "deficit_round_robin"):
        weighted, plain = make(name, pairs["policy_params"]), make(name, {})
        assert weighted.__dict__["_weights"] == {"ann": 2, "b.c d": 0.5} and plain.__dict__["_weights"] == {}
