"""The invariants' own checker: it holds on a busy scheduler, and sees each book that lies."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from builders import Bench, make_request, make_scheduler

from scheduler.core.policies.base import Departure
from scheduler.core.request import Request, RequestState, WaitReason
from scheduler.core.scheduler import Scheduler


def busy() -> Scheduler:
    """Somebody of every kind: decodes, a prefill half done, one in the queue, one over its quota, one who stands aside."""
    bench = Bench(
        make_scheduler(
            blocks=32, max_num_seqs=8, max_num_batched_tokens=16, max_head_skips=3, tenant_max_running=2,
            long_prefill_token_threshold=4,
        )
    )  # fmt: skip
    bench.add(*[make_request(f"ann{i}", max_tokens=40, tenant="ann", stop_token_ids=(7,)) for i in range(3)])
    for _ in range(3):
        bench.step()
    bench.add(make_request("long", prompt=40, tenant="bob"), make_request("large", prompt=110, tenant="cyd"))
    bench.add(make_request("small", tenant="dan"), make_request("last", prompt=100, tenant="eve"))
    bench.step()
    return bench.scheduler


def by_id(core: Scheduler, id: str) -> Request:
    return core.requests[id]


def test_it_holds_while_somebody_is_in_every_book() -> None:
    core = busy()
    core.check()
    states = {id: (r.state, r.parked) for id, r in core.requests.items()}
    assert states["ann0"] == (RequestState.RUNNING, None) and by_id(core, "ann0") in core._life.group
    assert states["ann2"] == (RequestState.WAITING, WaitReason.QUOTA)
    assert states["long"][0] is RequestState.RUNNING and by_id(core, "long") not in core._life.group
    assert states["large"] == (RequestState.WAITING, WaitReason.KV_BLOCKS), states


def more(thing: object, name: str, by: int = 1) -> None:
    setattr(thing, name, getattr(thing, name) + by)


def shown_twice(core: Scheduler) -> None:
    """A decode is among the prefills too."""
    core._life.prefilling[by_id(core, "ann0").number] = by_id(core, "ann0")


def same_slot(core: Scheduler) -> None:
    by_id(core, "ann1").slot = by_id(core, "ann0").slot


def lost(core: Scheduler) -> None:
    """Whoever is in the queue leaves it unseen."""
    while (head := core.policy.head(0)) is not None:
        core.policy.dequeue(head, Departure.GONE)


def forgotten_claim(core: Scheduler) -> None:
    core._life.quotas._tenants["ann"].claims[99] = by_id(core, "ann0")


def due(core: Scheduler) -> None:
    """There is room for a third of ann's, and nobody is told."""
    core._life.quotas.max_running = 3


def two_at_one_place(core: Scheduler) -> None:
    pool = core.pool
    one, other = [block for block in range(pool.total) if pool._key_of[block] is not None][:2]
    pool._place_of[one] = pool._place_of[other]


LIES: dict[str, Callable[[Scheduler], object]] = {
    "a finished request is live": lambda core: setattr(by_id(core, "last"), "state", RequestState.FINISHED),
    "counts differ from states": lambda core: more(core._life, "running"),
    "the open queue is miscounted": lambda core: more(core._life, "open"),
    "waiting tokens differ": lambda core: more(core._life, "waiting_tokens"),
    "a running request is in two places": shown_twice,
    "slots are shared": same_slot,
    "waits but holds something": lambda core: more(by_id(core, "last"), "computed"),
    "has computed more than its blocks hold": lambda core: more(by_id(core, "long"), "computed", 100),
    "outgrew its room": lambda core: setattr(core._life, "longest", 9),
    "the policy lost somebody": lost,
    "parked in one book only": lambda core: setattr(by_id(core, "large"), "parked", None),
    "parked by cause differ": lambda core: setattr(by_id(core, "large"), "parked", WaitReason.QUOTA),
    "parked tokens differ": lambda core: more(core._life.parked, "tokens"),
    "ref counts differ": lambda core: by_id(core, "ann0").blocks.append(by_id(core, "ann1").blocks[0]),
    "free blocks are miscounted": lambda core: core.pool._plain.pop(),
    "a plain block has a key": lambda core: core.pool._key_of.__setitem__(core.pool._plain[0], ("", b"")),
    "keys and blocks do not correspond": lambda core: core.pool._index.popitem(),
    "two blocks end at one place": two_at_one_place,
    "needing differs": lambda core: core._life.group._needing[by_id(core, "ann0").phase].clear(),
    "ending differs": lambda core: core._life.group._ending.clear(),
    "context differs": lambda core: more(core._life.group, "context"),
    "stop ids differ": lambda core: core._life.group._union.add(8),
    "ann runs 2, not 3": lambda core: more(core._life.quotas._tenants["ann"], "running"),
    "tokens of ann differ": lambda core: more(core._life.quotas._tenants["ann"], "tokens"),
    "claims of ann differ": forgotten_claim,
    "parked of ann differ": lambda core: core._life.quotas._tenants["ann"].parked.remove(by_id(core, "ann2")),
    "is parked for nothing": due,
    "a tenant is not in the books": lambda core: core._life.quotas._tenants.pop("bob"),
    "somebody is parked for ever": lambda core: core._planner.skips.aside.clear(),
    "the total differs": lambda core: more(core._life.held.decodes, "total"),
}


@pytest.mark.parametrize("lie", LIES)
def test_it_sees_a_book_that_lies(lie: str) -> None:
    core = busy()
    LIES[lie](core)
    with pytest.raises(AssertionError, match=lie):
        core.check()


@pytest.mark.parametrize("book", ["slots", "blocks", "decodes"])
def test_it_sees_a_tenant_who_holds_more_than_is_written_or_less(book: str) -> None:
    for by in (-1, 1):
        core = busy()
        getattr(core._life.held, book).add("ann", by)
        with pytest.raises(AssertionError):
            core.check()
