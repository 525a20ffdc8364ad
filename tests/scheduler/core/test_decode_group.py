"""The decodes as one group do exactly what a plain loop over them does; only faster."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
from builders import MS, Bench, make_limits, make_request, make_scheduler

from scheduler.core.blocks import BlockPool
from scheduler.core.decode_group import DecodeGroup
from scheduler.core.events import Event, RequestPreempted
from scheduler.core.plan import StepOutput
from scheduler.core.policies.catalog import make
from scheduler.core.request import Request, RequestState
from scheduler.core.scheduler import Scheduler


class PlainDecodes(DecodeGroup):
    """The oracle: a list, looked through from end to end at every question."""

    def __init__(self, block_size: int, longest: int) -> None:
        self.members, self.numbers, self.changed = [], (), False
        self._size, self._longest = block_size, longest
        self._list: list[Request] = []

    @property
    def context(self) -> int:  # type: ignore[override]
        return sum(len(request.tokens) for request in self._list)

    def __len__(self) -> int:
        return len(self._list)

    def __contains__(self, request: Request) -> bool:
        return any(member is request for member in self._list)

    def everyone(self) -> list[Request]:
        return self._list

    def join(self, request: Request, step: int) -> None:
        self._list.append(request)
        self.changed = True

    def leave(self, request: Request) -> None:
        self._list = [member for member in self._list if member is not request]
        request.computed = len(request.tokens) - 1
        self.changed = True

    def settle(self) -> bool:
        changed, self.changed = self.changed, False
        self.members, self.numbers = list(self._list), tuple(request.number for request in self._list)
        return changed

    def needing(self, step: int) -> list[Request]:
        return [request for request in self._list if (len(request.tokens) - 1) % self._size == 0]

    def needy(self, step: int) -> int:
        return len(self.needing(step))

    def stand_still(self) -> None:
        return

    def first_end(self, step: int) -> int:
        lengths = [min(r.params.max_tokens - r.output_tokens, self._longest - len(r.tokens)) for r in self._list]
        return min(lengths, default=0)

    def append(self, tokens: Sequence[int], failed: Mapping[int, str]) -> list[Request]:
        without = []
        for row, request in enumerate(self.members):
            if request in self and row not in failed:
                request.tokens.append(tokens[row])
            else:
                without.append(request)
        return without

    def stopping(self, tokens: Sequence[int]) -> list[Request]:
        return [r for r in self.members if r in self and r.tokens[-1] in r.params.stop_token_ids]

    def ending(self, step: int) -> list[Request]:
        return [r for r in self._list if r.output_tokens >= r.params.max_tokens or len(r.tokens) >= self._longest]

    def check(self) -> None:
        return


def live(oracle: bool, policy: str, seed: int) -> list[Event]:
    """The same random life with either; what is sampled depends on the request and its place only."""
    rng = random.Random(seed)
    limits = make_limits(
        max_num_seqs=8,
        max_num_batched_tokens=rng.choice([8, 16, 64]),
        max_model_len=rng.choice([40, 1000]),
        batching=rng.choice(["continuous", "merge"]),
        max_head_skips=rng.choice([0, 3]),
    )
    pool = BlockPool(rng.choice([24, 40, 200]), 4, rng.random() < 0.7)
    core = Scheduler(limits, pool, make(policy, {}))
    if oracle:
        core._life.group = PlainDecodes(4, core._life.longest)
    events: list[Event] = []
    now = added = 0

    def token(request: Request) -> int:
        return random.Random(f"{seed}/{request.id}/{len(request.tokens)}").randrange(30)

    while added < 60 or core.requests:
        now += MS
        if added < 60 and rng.random() < 0.4:
            events += core.add(
                make_request(
                    f"r{added}",
                    [rng.randrange(5) for _ in range(rng.randrange(1, 28))],
                    rng.randrange(1, 30),
                    priority=rng.randrange(3),
                    stop_token_ids=(7,) if rng.random() < 0.5 else (),
                    min_tokens=rng.randrange(3),
                    received_at=now,
                    timeout_at=now + rng.randrange(10, 200) * MS if rng.random() < 0.2 else None,
                ),
                now,
            )
            added += 1
        plan = core.schedule(now)
        events += plan.events
        if plan.empty:
            continue
        if rng.random() < 0.05:
            events += core.abort(f"r{rng.randrange(added)}", now)
        rows = plan.sampling
        output = StepOutput([token(r) if r.state is RequestState.RUNNING else 0 for r in rows], 1)
        if rows and rng.random() < 0.03:
            output.errors = {rng.randrange(len(rows)): "internal"}
        events += core.commit(plan, output, now + MS // 2)
        core.check()
    return events


def test_group_and_plain_loop_live_the_same_life() -> None:
    preemptions = 0
    for policy in ("fcfs", "priority", "sjf"):
        for seed in range(20):
            group, oracle = live(False, policy, seed), live(True, policy, seed)
            assert group == oracle, (policy, seed)
            preemptions += sum(isinstance(event, RequestPreempted) for event in group)
    assert preemptions > 50


def caught_up(prompt: int, max_tokens: int = 10, **fields: object) -> Request:
    request = make_request(prompt=prompt, max_tokens=max_tokens, **fields)  # type: ignore[arg-type]
    request.number = prompt
    request.tokens.append(1)
    return request


def test_member_needs_a_block_exactly_when_its_token_opens_one() -> None:
    group = DecodeGroup(4, 1000)
    request = caught_up(6)  # 7 tokens after the prefill of step 10: positions 7, 8, … are computed from step 11 on
    group.join(request, 10)
    group.settle()
    opened = []
    for step in range(11, 20):
        if group.needing(step):
            opened.append(len(request.tokens) - 1)
        group.append([2], {})
    assert opened == [8, 12]


def test_member_ends_in_the_step_that_was_known_when_it_joined() -> None:
    group = DecodeGroup(4, 12)
    group.join(caught_up(6, max_tokens=4), 10)
    group.join(caught_up(8, max_tokens=100), 10)  # 9 tokens; no more than 12
    assert [len(group.ending(step)) for step in range(11, 15)] == [0, 0, 2, 0]


def test_plans_share_the_members_until_somebody_joins_or_leaves() -> None:
    group = DecodeGroup(4, 1000)
    first, second = caught_up(5), caught_up(6)
    group.join(first, 1)
    assert group.settle() and not group.settle()
    members, numbers = group.members, group.numbers
    group.append([3], {})
    assert group.members is members and group.numbers is numbers
    group.join(second, 2)
    assert members == [first], "what a plan holds is never mutated"
    group.settle()
    group.leave(first)
    group.settle()
    assert group.members == [second] and group.numbers == (6,)
    group.check()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 16])
def test_a_decode_takes_its_next_block_when_its_last_one_is_full_and_no_sooner(size: int) -> None:
    bench = Bench(make_scheduler(block_size=size))
    requests = [make_request(prompt=1 + i, max_tokens=40) for i in range(4)]
    bench.add(*requests)
    for _ in range(30):
        bench.step()
        assert [len(r.blocks) for r in requests] == [-(-(len(r.tokens) - 1) // size) for r in requests]


def test_answers_about_a_step_agree_also_after_the_decodes_stood_still() -> None:
    group = DecodeGroup(5, 1000)
    for number in range(1, 7):
        request = make_request(prompt=number, max_tokens=5 + number)
        request.number = number
        request.tokens.append(7)
        group.join(request, 1)
    for _ in range(4):
        steps = range(2, 30)
        assert [group.needy(step) for step in steps] == [len(group.needing(step)) for step in steps]
        end = next(step for step in steps if group.ending(step))
        assert [group.first_end(step) for step in range(2, end + 1)] == list(range(end - 1, 0, -1))
        group.stand_still()
    assert end == 6 + 3, "5 tokens after step 1, and 3 steps in which they stood still"


def test_where_nobody_decodes_nobody_ends() -> None:
    group = DecodeGroup(4, 1000)
    assert group.first_end(7) == 0 and not group.ending(7) and not group.needy(7)
    group.join(caught_up(8, max_tokens=9), 7)
    assert group.first_end(8) == 8
