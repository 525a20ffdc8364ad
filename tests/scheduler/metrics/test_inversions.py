"""Inversions: a better class was held back while a worse one was admitted; counted by hand and by brute force."""

from __future__ import annotations

from builders import MS, make_request, make_scheduler, play
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.policies import catalog
from scheduler.metrics import Inversions, Spell, inversions, lives, spells

spell = st.builds(
    lambda priority, since, length, admitted: Spell(priority, since, since + length, admitted),
    st.integers(0, 3),
    st.integers(0, 20),
    st.integers(0, 10),
    st.booleans(),
)


def test_an_admission_past_a_better_one_is_an_inversion() -> None:
    waited = [Spell(0, 0, 30, True), Spell(5, 0, 10, True), Spell(5, 0, 40, True)]
    assert inversions(waited) == Inversions(3, 1)


def test_those_of_one_plan_and_those_who_come_then_do_not_invert() -> None:
    assert inversions([Spell(0, 0, 10, True), Spell(5, 0, 10, True)]) == Inversions(2, 0)
    assert inversions([Spell(0, 10, 30, True), Spell(5, 0, 10, True)]) == Inversions(2, 0)


def test_who_gave_up_waiting_was_held_back_until_then() -> None:
    assert inversions([Spell(0, 0, 20, False), Spell(5, 0, 10, True), Spell(5, 0, 25, True)]) == Inversions(2, 1)


def test_one_class_alone_cannot_be_inverted() -> None:
    assert inversions([Spell(3, 0, 10, True), Spell(3, 0, 5, True)]) is None and inversions([]) is None


@given(st.lists(spell, max_size=30), st.randoms())
def test_it_is_the_count_of_all_pairs_in_any_order(waited: list[Spell], chance: object) -> None:
    inverted = sum(
        any(other.priority < each.priority and other.since < each.until < other.until for other in waited)
        for each in waited
        if each.admitted
    )
    found = inversions(waited)
    if len({each.priority for each in waited}) < 2:
        assert found is None
    else:
        assert found == Inversions(sum(each.admitted for each in waited), inverted)
    shuffled = list(waited)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert inversions(shuffled) == found


def test_fcfs_inverts_and_priority_does_not() -> None:
    def count(policy: str) -> Inversions:
        requests = [make_request(f"r{i}", 4, 3, priority=i % 2 == 0, received_at=(1 + i) * MS) for i in range(12)]
        found = inversions(
            spells(lives(play(make_scheduler(catalog.make(policy, {}, None), max_num_seqs=1), requests)).values())
        )
        assert found is not None and found.admissions == 12
        return found

    assert count("priority").inverted == 0 < count("fcfs").inverted
