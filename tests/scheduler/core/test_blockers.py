"""Who held what: the set is the truth of its instant, and is told when it is news and not before."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from builders import Bench, make_limits, make_request, make_scheduler

from scheduler.core.blockers import MATERIAL, SHOWN, Shares, _news
from scheduler.core.events import StepCompleted
from scheduler.core.holders import Blockers, Holding
from scheduler.core.plan import StepPlan
from scheduler.core.request import RequestState, WaitReason


def told(here: Bench, reason: WaitReason) -> list[Blockers]:
    return [step.blockers for step in here.of(StepCompleted) if step.binding is reason and step.blockers is not None]


def test_slots_are_told_by_tenant_most_first_and_the_rest_summed() -> None:
    here = Bench(make_scheduler(max_num_seqs=28, max_num_batched_tokens=512, blocks=512))
    for tenant in range(7):
        here.add(*[make_request(tenant=f"t{tenant}", max_tokens=9) for _ in range(7 - tenant)])
    here.add(make_request("waits"))
    here.step()
    (found,) = told(here, WaitReason.SLOTS)
    assert found.limit == 28 and len(found.holders) == SHOWN
    assert [holding.amount for holding in found.holders] == [7, 6, 5, 4, 3] and found.rest == 2 + 1
    assert found.holders[0] == Holding("t0", 7)


def test_an_unchanged_set_is_told_once() -> None:
    here = Bench(make_scheduler(max_num_seqs=2))
    here.add(*[make_request(max_tokens=20) for _ in range(3)])
    for _ in range(15):
        here.step()
    assert len(told(here, WaitReason.SLOTS)) == 1
    steps = here.of(StepCompleted)
    assert all(step.binding is WaitReason.SLOTS for step in steps) and sum(step.blockers is not None for step in steps) == 1


def test_a_set_is_told_again_when_there_are_fewer_slots_though_nobody_came_or_went() -> None:
    here = Bench(make_scheduler(max_num_seqs=30, max_num_batched_tokens=512))
    here.add(*[make_request(max_tokens=20) for _ in range(31)])
    for limit in (30, 20):
        here.scheduler.set_limits(make_limits(max_num_seqs=limit, max_num_batched_tokens=512), here.clock.now)
        for _ in range(3):
            here.step()
    assert [(found.limit, found.holders[0].amount) for found in told(here, WaitReason.SLOTS)] == [(30, 30), (20, 30)]


def test_a_set_is_told_again_when_other_tenants_hold_the_slots() -> None:
    here = Bench(make_scheduler(max_num_seqs=1))
    here.add(*[make_request(tenant=tenant, max_tokens=3) for tenant in ("ann", "bob", "cyd")])
    here.run_to_idle()
    assert [found.holders[0].tenant for found in told(here, WaitReason.SLOTS)] == ["ann", "bob"]


def test_kv_blocks_say_what_the_head_lacks_and_what_is_free() -> None:
    here = Bench(make_scheduler(blocks=20, block_size=4, max_num_batched_tokens=128, watermark=0.1))
    here.add(make_request(tenant="ann", prompt=48, max_tokens=8))
    here.step()
    head = make_request(tenant="bob", prompt=40)
    here.add(head)
    here.step()
    (found,) = told(here, WaitReason.KV_BLOCKS)
    assert (found.limit, found.head, found.needed, found.kept) == (20, head.number, 10, 2)
    assert found.holders == (Holding("ann", 13),) and found.free == 7
    assert found.needed > found.free - found.kept


def test_no_more_blocks_are_told_as_kept_than_are_free() -> None:
    """Once blocks ran out, admission would leave room for all who run, which may be more than there is."""
    here = Bench(make_scheduler(blocks=16, block_size=4, max_num_batched_tokens=128, max_num_seqs=8))
    here.add(*[make_request(prompt=12, max_tokens=60) for _ in range(8)])
    wanted = 0
    for _ in range(60):
        plan = here.step()
        wanted = max(wanted, plan.kept - here.scheduler.pool.free)
    found = told(here, WaitReason.KV_BLOCKS)
    assert wanted > 0, "admission never wanted to leave more than is free"
    assert all(0 <= each.kept <= each.free for each in found) and any(each.kept for each in found)


def test_references_beyond_the_blocks_in_use_are_those_that_requests_share() -> None:
    """What is said beside the holders is made of the set alone: references less what is in use."""
    here = Bench(make_scheduler(blocks=20, block_size=4, max_num_batched_tokens=128, watermark=0.1, enable_prefix_caching=True))
    for tenant in ("ann", "bob"):
        here.add(make_request(tenant=tenant, prompt=range(40), max_tokens=8))
        here.step()
    here.add(make_request(tenant="cyd", prompt=60))
    here.step()
    found = told(here, WaitReason.KV_BLOCKS)[-1]
    running = [one.blocks for one in here.scheduler.requests.values() if one.blocks]
    again = sum(map(len, running)) - len({block for blocks in running for block in blocks})
    assert again > 0, "they share no prefix"
    assert sum(holding.amount for holding in found.holders) + found.rest - (found.limit - found.free) == again


def test_token_budget_says_whose_tokens_the_step_computes_and_which_are_prefill() -> None:
    here = Bench(make_scheduler(max_num_batched_tokens=16, max_num_seqs=8))
    here.add(make_request(tenant="ann", prompt=4, max_tokens=30))
    here.step()
    here.add(make_request(tenant="bob", prompt=60), make_request(tenant="cyd"))
    here.step()
    (found,) = told(here, WaitReason.TOKEN_BUDGET)
    assert found.limit == 16 and found.holders == (Holding("bob", 15, 15), Holding("ann", 1, 0)) and found.rest == 0


def test_a_static_batch_says_who_is_in_it() -> None:
    here = Bench(make_scheduler(max_num_seqs=2, batching="static", max_num_batched_tokens=64))
    here.add(*[make_request(tenant=tenant, max_tokens=4) for tenant in ("ann", "bob")])
    here.step()
    here.add(make_request(tenant="cyd"))
    here.step()
    assert told(here, WaitReason.STATIC_BATCH)[0].holders == (Holding("ann", 1), Holding("bob", 1))


@pytest.mark.parametrize(
    ("reason", "limits"),
    [
        (WaitReason.SLOTS, {"blocks": 400, "max_num_seqs": 6}),
        (WaitReason.KV_BLOCKS, {"blocks": 40, "max_num_seqs": 40}),
        (WaitReason.TOKEN_BUDGET, {"blocks": 400, "max_num_seqs": 24, "max_num_batched_tokens": 24}),
    ],
)
def test_amounts_are_those_of_the_requests_at_that_step(reason: WaitReason, limits: dict[str, int]) -> None:
    rng = random.Random(5)
    here = Bench(make_scheduler(**limits))
    seen: Counter[WaitReason] = Counter()
    for _ in range(200):
        while here.scheduler.waiting < 20:
            here.add(make_request(prompt=rng.randrange(1, 30), max_tokens=rng.randrange(1, 20), tenant=rng.choice("abcdefgh")))
        plan = here.scheduler.schedule(here.clock.now)
        if plan.blockers is not None:
            assert plan.blockers == truth(here, plan)
            seen[plan.binding] += 1
        here.clock.tick(1000)
        here.scheduler.commit(plan, here.runner.run(plan), here.clock.now)
        here.scheduler.check()
    assert seen[reason] > 20


def truth(here: Bench, plan: StepPlan) -> Blockers:
    """The set by counting everybody anew."""
    runs = [r for r in here.scheduler.requests.values() if r.state is RequestState.RUNNING]
    held, prefill = Counter[str](), Counter[str]()
    pool, fields, limit = here.scheduler.pool, {}, 0
    if plan.binding is WaitReason.SLOTS:
        held, limit = Counter(r.tenant for r in runs), here.scheduler.limits.max_num_seqs
    elif plan.binding is WaitReason.KV_BLOCKS:
        for r in runs:
            held[r.tenant] += len(r.blocks)
        limit, fields = (
            pool.total,
            {"needed": plan.needed, "head": plan.head, "free": pool.free, "kept": min(plan.kept, pool.free)},
        )
    else:
        for chunk in plan.chunks:
            prefill[chunk.request.tenant] += chunk.tokens
        held, limit = prefill + Counter(r.tenant for r in plan.decodes), plan.token_budget
    order = sorted((-amount, name) for name, amount in held.items())
    holders = tuple(Holding(name, -amount, prefill[name]) for amount, name in order[:SHOWN])
    return Blockers(limit, holders, -sum(amount for amount, _ in order[SHOWN:]), **fields)


def test_shares_sort_anew_what_changed() -> None:
    rng, shares, plain = random.Random(1), Shares(), Counter[str]()
    for _ in range(2000):
        name = rng.choice("abcdefghij")
        amount = rng.randrange(1, 9) if rng.random() < 0.5 else -min(plain[name], rng.randrange(9))
        shares.add(name, amount)
        plain[name] += amount
        if rng.random() < 0.3:
            best = sorted((-amount, name) for name, amount in plain.items() if amount)[:3]
            assert shares.top(3) == [(name, -amount) for amount, name in best]
            shares.check(plain)


BEFORE = Blockers(20, (Holding("ann", 10, 4), Holding("bob", 6)), rest=4, needed=5, head=3, free=6, kept=3)


def held(*amounts: tuple[str, int, int]) -> Blockers:
    return BEFORE._replace(holders=tuple(Holding(*amount) for amount in amounts))


@pytest.mark.parametrize("field", ["rest", "needed", "free", "kept"])
@pytest.mark.parametrize("by", [-3, -2, 2, 3])
def test_an_amount_that_moved_by_more_than_a_tenth_of_the_limit_is_news(field: str, by: int) -> None:
    assert _news(BEFORE, BEFORE._replace(**{field: getattr(BEFORE, field) + by})) is (abs(by) > 20 / MATERIAL)


@pytest.mark.parametrize(
    ("found", "news"),
    [
        (BEFORE, False),
        (BEFORE._replace(limit=21), True),
        (BEFORE._replace(head=4), True),
        (held(("ann", 10, 4)), True),
        (held(("ann", 10, 4), ("cyd", 6, 0)), True),
        (held(("bob", 6, 0), ("ann", 10, 4)), False),
        (held(("ann", 12, 4), ("bob", 4, 0)), False),
        (held(("ann", 10, 6), ("bob", 6, 2)), False),
        (held(("ann", 10, 2), ("bob", 6, 0)), False),
        (held(("ann", 13, 4), ("bob", 6, 0)), True),
        (held(("ann", 10, 4), ("bob", 3, 0)), True),
        (held(("ann", 10, 7), ("bob", 6, 0)), True),
        (held(("ann", 10, 4), ("bob", 6, 3)), True),
    ],
)
def test_a_set_is_news_by_its_limit_its_head_its_tenants_and_what_they_hold(found: Blockers, news: bool) -> None:
    assert _news(BEFORE, found) is news


def test_one_more_of_each_is_what_they_are_added_one_by_one() -> None:
    single, at_once = Shares(), Shares()
    for names in (["ann"], ["bob", "ann", "bob"], []):
        for name in names:
            single.add(name, 1)
        at_once.add_one_each(names)
        assert at_once.top() == single.top()
        assert (at_once.total, at_once.moved) == (single.total, single.moved)
    assert at_once.top() == [("ann", 2), ("bob", 2)]


def test_names_that_hold_nothing_are_forgotten() -> None:
    shares = Shares()
    for name in ("ann", "bob"):
        shares.add(name, 3)
        shares.top()
        shares.add(name, -3)
        assert shares.top() == [] and not shares._amounts and not shares._placed
