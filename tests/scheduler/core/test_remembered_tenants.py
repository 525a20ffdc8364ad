"""What deficit_longest_prefix remembers of tenants that ask for nothing: the newest debts, and no more."""

from __future__ import annotations

import pytest
from builders import make_request

from scheduler.core.policies import deficit_longest_prefix
from scheduler.core.policies.deficit_longest_prefix import DeficitLongestPrefix


def test_idle_tenants_without_a_debt_and_the_oldest_debts_are_forgotten_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deficit_longest_prefix, "REMEMBERED", 8)
    policy = DeficitLongestPrefix(None, quantum=10)
    policy.enqueue(make_request(tenant="waits"), 0)
    policy.tick([make_request(tenant="runs")], True)
    for debtor in range(5):
        policy.served(make_request(prompt=9, tenant=f"owes {debtor}"), 4)
    policy.served(make_request(prompt=9, tenant="owes nothing"), 0)
    assert len(policy._paid) == 8, "as many as are remembered before anybody is forgotten"
    policy.served(make_request(prompt=9, tenant="new"), 4)
    assert list(policy._paid) == ["waits", "runs", "owes 1", "owes 2", "owes 3", "owes 4", "new"]
    for name in range(3):
        policy.served(make_request(prompt=9, tenant=f"name {name}"), 0)
    assert len(policy._paid) == 10, "the next look is half of it later"
    policy.served(make_request(prompt=9, tenant="last"), 0)
    assert list(policy._paid) == ["waits", "runs", "owes 2", "owes 3", "owes 4", "new", "last"]
