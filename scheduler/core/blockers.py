"""Blockers: who holds what the waiting lack, as the step's planning found it. Observes; decides nothing.

What tenants hold is counted as it changes (`Holdings`), so that a step pays for changes only; `WaitLedger` makes a set of
it when a step is bound by something, and hands it on when it differs from the last one in substance: another reason,
another head, other tenants, or an amount that moved by a tenth of the limit. In between, the last set stands.
Sets by reason: SLOTS and STATIC_BATCH slots by tenant; TOKEN_BUDGET (and PREFILL_CAP) tokens of the step by tenant,
of which prefill; KV_BLOCKS block references by tenant (a block that two share counts for both), what the head lacks, what
is free and how much of that admission leaves to the running. QUOTA has a set of its own for each who is parked (quotas.py).
Invariant: amounts of a set are those of one instant, after planning and before the step runs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Sequence

from scheduler.core.decode_group import DecodeGroup
from scheduler.core.holders import Blockers, Holding
from scheduler.core.plan import StepPlan
from scheduler.core.request import Request, WaitReason

SHOWN = 5
BINDING = (  # what a set is made of; in a tuple of them, since an attribute of an enum's class costs 80 ns (CPython 3.11)
    WaitReason.SLOTS, WaitReason.STATIC_BATCH, WaitReason.KV_BLOCKS, WaitReason.TOKEN_BUDGET, WaitReason.PREFILL_CAP,
)  # fmt: skip
UNBOUND = WaitReason.STEP  # asked first: most steps are, and of a tuple each element is compared
MATERIAL = 10  # an amount that moved by more than limit / MATERIAL is news


class Shares:
    """An amount by name, and who has most. Only names that changed since the last look are sorted anew."""

    __slots__ = ("total", "moved", "_amounts", "_order", "_placed", "_changed")

    def __init__(self) -> None:
        self.total = 0
        self.moved = 0  # all that was ever added or taken away: no amount changed by more than this did
        self._amounts: dict[str, int] = {}
        self._order: list[tuple[int, str]] = []
        self._placed: dict[str, int] = {}
        self._changed: dict[str, None] = {}

    def add(self, name: str, amount: int) -> None:
        """So much more, or less, of `name`."""
        self._amounts[name] = self._amounts.get(name, 0) + amount
        self._changed[name] = None
        self.total += amount
        self.moved += abs(amount)

    def add_one_each(self, names: Sequence[str]) -> None:
        """One more of each of `names`, which may name one of them again."""
        amounts, changed = self._amounts, self._changed
        for name in names:
            amounts[name] = amounts.get(name, 0) + 1
            changed[name] = None
        self.total += len(names)
        self.moved += len(names)

    def of(self, name: str) -> int:
        """The amount of `name`."""
        return self._amounts.get(name, 0)

    def top(self, most: int = SHOWN) -> list[tuple[str, int]]:
        """Those who have most, (name, amount), equal ones by name."""
        for name in self._changed:
            before, amount = self._placed.pop(name, 0), self._amounts[name]
            if before:
                del self._order[bisect_left(self._order, (-before, name))]
            if amount:
                insort(self._order, (-amount, name))
                self._placed[name] = amount
            else:
                del self._amounts[name]
        self._changed.clear()
        return [(name, -amount) for amount, name in self._order[:most]]

    def check(self, amounts: Counter[str]) -> None:
        """Assert that these are the amounts."""
        assert {name: n for name, n in self._amounts.items() if n} == {name: n for name, n in amounts.items() if n}
        assert self.total == sum(amounts.values()), "the total differs"


class Holdings:
    """What running requests hold, by tenant: slots, block references, and decodes (a token of each step)."""

    __slots__ = ("slots", "blocks", "decodes")

    def __init__(self) -> None:
        self.slots = Shares()
        self.blocks = Shares()
        self.decodes = Shares()

    def check(self, running: Iterable[Request], group: DecodeGroup) -> None:
        """Assert the counts, of all who run and of the decodes."""
        slots, blocks, decodes = Counter[str](), Counter[str](), Counter[str]()
        for r in running:
            slots[r.tenant] += 1
            blocks[r.tenant] += len(r.blocks)
            decodes[r.tenant] += r in group
        self.slots.check(slots)
        self.blocks.check(blocks)
        self.decodes.check(decodes)


class WaitLedger:
    """The sets, step by step."""

    def __init__(self, held: Holdings) -> None:
        self._held = held
        self._binding = WaitReason.STEP
        self._last = Blockers(0)
        self._moved = 0  # of the slots, when the last set was made of them

    def of(self, plan: StepPlan, slots: int, blocks: int, free: int) -> Blockers | None:
        """The step's set if it is news, else None. slots, blocks: how many there are; free: blocks."""
        binding, changed = plan.binding, plan.binding is not self._binding
        self._binding = binding
        if binding is UNBOUND or binding not in BINDING:
            return None
        match binding:
            case WaitReason.SLOTS | WaitReason.STATIC_BATCH:
                shares = self._held.slots
                if not changed and slots == self._last.limit and (shares.moved - self._moved) * MATERIAL <= slots:
                    return None
                self._moved = shares.moved
                found = _set(slots, shares)
            case WaitReason.KV_BLOCKS:
                found = _set(blocks, self._held.blocks)
                found = found._replace(needed=plan.needed, head=plan.head, free=free, kept=min(plan.kept, free))
            case _:
                found = self._tokens(plan)
        if not changed and not _news(self._last, found):
            return None
        self._last = found
        return found

    def _tokens(self, plan: StepPlan) -> Blockers:
        prefill: Counter[str] = Counter()
        for chunk in plan.chunks:
            prefill[chunk.request.tenant] += chunk.tokens
        decodes = self._held.decodes
        names = dict.fromkeys([*prefill, *[name for name, _ in decodes.top(SHOWN)]])
        holders = sorted([Holding(name, decodes.of(name) + prefill[name], prefill[name]) for name in names], key=_most_first)
        return _of(plan.token_budget, tuple(holders[:SHOWN]), decodes.total + prefill.total())


def _most_first(holding: Holding) -> tuple[int, str]:
    return -holding.amount, holding.tenant


def _set(limit: int, shares: Shares) -> Blockers:
    return _of(limit, tuple([Holding(name, amount) for name, amount in shares.top()]), shares.total)


def _of(limit: int, holders: tuple[Holding, ...], total: int) -> Blockers:
    return Blockers(limit, holders, total - sum([holding.amount for holding in holders]))


def _news(last: Blockers, found: Blockers) -> bool:
    """Is `found` another set in substance?"""
    if last.limit != found.limit or last.head != found.head or len(last.holders) != len(found.holders):
        return True
    least = found.limit / MATERIAL
    amounts = zip(
        (last.rest, last.free, last.needed, last.kept), (found.rest, found.free, found.needed, found.kept), strict=True
    )
    if any([abs(before - now) > least for before, now in amounts]):
        return True
    before = {holding.tenant: holding for holding in last.holders}
    return any([holding.tenant not in before or _moved(before[holding.tenant], holding, least) for holding in found.holders])


def _moved(before: Holding, now: Holding, least: float) -> bool:
    return abs(before.amount - now.amount) > least or abs(before.prefill - now.prefill) > least
