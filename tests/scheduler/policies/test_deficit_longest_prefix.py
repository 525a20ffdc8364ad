"""deficit_longest_prefix: longest prefix first, among tenants that have something left of the round's quantum."""

from __future__ import annotations

import random

import pytest
from builders import Bench, make_limits, make_request

from scheduler.core.blocks import BlockPool
from scheduler.core.events import RequestScheduled
from scheduler.core.policies import deficit_longest_prefix
from scheduler.core.policies.base import Departure
from scheduler.core.policies.deficit_longest_prefix import DeficitLongestPrefix
from scheduler.core.request import Request
from scheduler.core.scheduler import Scheduler


def numbered(number: int, tenant: str, prompt: int = 8) -> Request:
    request = make_request(f"{tenant}{number}", prompt=prompt, tenant=tenant)
    request.number = number
    return request


def admitted(policy: DeficitLongestPrefix, most: int) -> str:
    """The tenants of those admitted, each paid for in full at once."""
    tenants = ""
    for now in range(most):
        head = policy.head(now)
        if head is None:
            break
        policy.dequeue(head, Departure.ADMITTED)
        policy.served(head, head.prompt_tokens - 1)
        tenants += head.tenant
    return tenants


def test_tenant_that_has_spent_its_quantum_waits_for_the_others() -> None:
    policy = DeficitLongestPrefix(None, quantum=20, w_output=0)
    for number in range(1, 13):
        policy.enqueue(numbered(number, "a" if number <= 9 else "b", prompt=11), 0)
    assert admitted(policy, 12) == "aabb" + "aab" + "aaaaa", "20 of 10 each a round; b has nothing left in the third"


def test_longest_prefix_is_first_among_those_that_may() -> None:
    pool = BlockPool(64, 4)
    bench = Bench(Scheduler(make_limits(max_num_seqs=1), pool, DeficitLongestPrefix(pool, quantum=1000)))
    bench.add(make_request("warm", prompt=range(13), max_tokens=2, tenant="a"))
    bench.run_to_idle()
    bench.events.clear()
    bench.add(make_request("cold", prompt=30, tenant="b"), make_request("hot", prompt=[*range(12), 99], tenant="a"))
    names = {request.number: name for name, request in bench.scheduler.requests.items()}
    bench.run_to_idle()
    assert [names[event.number] for event in bench.of(RequestScheduled)] == ["hot", "cold"]


def test_debt_is_kept_and_credit_is_not_saved() -> None:
    policy = DeficitLongestPrefix(None, quantum=10, w_output=0)
    policy.enqueue(numbered(1, "a", prompt=41), 0)  # 40 tokens: four rounds
    assert admitted(policy, 1) == "a"
    policy.enqueue(numbered(2, "a", prompt=41), 0)
    for number in range(5, 20):
        policy.enqueue(numbered(number, "b", prompt=11), 0)
    assert admitted(policy, 6) == "bbbbab", "a has four rounds to wait; b, who is new, has one round to spend and no more"


@pytest.mark.parametrize("known", [True, False], ids=["back", "new"])
def test_who_comes_late_has_one_quantum_to_spend_before_the_others_go_on(known: bool) -> None:
    policy = DeficitLongestPrefix(None, quantum=10, w_output=0)
    if known:
        policy.enqueue(numbered(1, "a", prompt=2), 0)
        assert admitted(policy, 1) == "a"
    for number in range(2, 20):
        policy.enqueue(numbered(number, "b", prompt=11), 0)
    assert admitted(policy, 9) == "b" * 9
    for number in range(20, 25):
        policy.enqueue(numbered(number, "a", prompt=11), 0)
    assert admitted(policy, 6) in ("ababab", "bababa")


def test_first_of_a_tenant_goes_before_others_as_soon_as_its_prefix_can_be_hit() -> None:
    pool = BlockPool(64, 4)
    policy = DeficitLongestPrefix(pool, quantum=1000)
    shared = make_request(prompt=range(13), tenant="a")
    for number, request in enumerate((make_request(prompt=30, tenant="b"), shared), 1):
        request.number = number
        policy.enqueue(request, 0)
    policy.tick((), False)
    assert policy.head(0) is not shared
    pool.publish(pool.take(1), pool.root("a"), [shared.tokens[:4].tobytes()])
    policy.tick((), False)
    assert policy.head(0) is shared


def test_output_tokens_are_paid_for_step_by_step() -> None:
    policy = DeficitLongestPrefix(None, quantum=10, w_output=2)
    decoding = [numbered(number, "a") for number in range(3)]
    policy.enqueue(numbered(5, "a"), 0)
    policy.enqueue(numbered(6, "b"), 0)
    policy.tick(decoding, True)
    assert policy.head(0).tenant == "a", "6 of 10 are spent"  # type: ignore[union-attr]
    policy.tick(decoding, False)
    assert policy.head(1).tenant == "b", "12 of 10 are"  # type: ignore[union-attr]


@pytest.mark.parametrize("prompt", [4, 9], ids=["with something left", "in debt"])
def test_names_of_tenants_that_came_once_are_forgotten(prompt: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deficit_longest_prefix, "REMEMBERED", 100)
    policy = DeficitLongestPrefix(None, quantum=4, w_output=0)
    for number in range(1, 1000):
        policy.enqueue(numbered(number, f"t{number}", prompt), 0)
        assert admitted(policy, 1)
    assert len(policy._paid) <= 200 and policy._paid["t999"] == prompt - 1


def test_books_agree_with_a_plain_account_through_a_random_life() -> None:
    rng, policy = random.Random(9), DeficitLongestPrefix(None, quantum=25, w_output=3)
    here = dict[int, Request]()
    for number in range(3000):
        tenant = rng.choice("abcd")
        match rng.randrange(4):
            case 0 | 1:
                here[number] = numbered(number, tenant)
                here[number].received_at = rng.randrange(100)
                policy.enqueue(here[number], 0)
            case 2:
                policy.tick([numbered(0, rng.choice("abcd")) for _ in range(rng.randrange(4))], True)
            case _ if here:
                head = policy.head(number)
                assert head is not None
                may = [r for r in here.values() if policy._paid[r.tenant] < policy._round * 25]
                assert head is min(may, key=lambda r: (r.received_at, r.number))
                gone = head if rng.random() < 0.7 else rng.choice(list(here.values()))
                policy.dequeue(here.pop(gone.number), Departure.ADMITTED)
                policy.served(gone, rng.randrange(1, 8))
        waiting = {request.tenant for request in here.values()}
        assert set(policy._front_of) | set(policy._level_of) == waiting and not set(policy._front_of) & set(policy._level_of)
