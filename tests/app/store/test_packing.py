"""What was packed comes back; and it is small."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store.packing import pack_gaps, pack_slices, unpack_gaps, unpack_slices
from scheduler.core.events import SliceRow

numbers = st.lists(st.integers(1, 1 << 40), unique=True, max_size=80)


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int, int]], list[int]]:
    """decodes, chunks, failed: as a StepCompleted may hold them."""
    everyone = draw(numbers)
    split = draw(st.integers(0, len(everyone)))
    decodes = draw(st.permutations(everyone[:split]))
    chunks = [(n, draw(st.integers(1, 1 << 20)), draw(st.integers(0, 1))) for n in everyone[split:]]
    return decodes, chunks, decodes[: draw(st.integers(0, len(decodes)))]


@given(steps())
def test_slices_come_back_sorted_by_number(step: tuple[list[int], list[tuple[int, int, int]], list[int]]) -> None:
    decodes, chunks, failed = step
    expected = [SliceRow(n, 1, "decode", 0 if n in failed else 1) for n in sorted(decodes)]
    expected += [SliceRow(n, tokens, "prefill", emitted) for n, tokens, emitted in sorted(chunks)]
    assert unpack_slices(pack_slices(decodes, chunks, failed)) == expected


@given(st.lists(st.floats(0, 1e7), max_size=200))
def test_gaps_come_back_to_the_microsecond(gaps: list[float]) -> None:
    back = unpack_gaps(pack_gaps(gaps))
    assert len(back) == len(gaps)
    assert all(abs(there - here) <= 0.000501 for there, here in zip(back, gaps, strict=True))


@pytest.mark.parametrize("gap", [-1.0, float("nan"), float("inf")])
def test_a_gap_that_cannot_be_is_refused(gap: float) -> None:
    with pytest.raises(ValueError, match="gaps_ms"):
        pack_gaps([1.0, gap])


def test_no_column_is_no_gaps() -> None:
    assert unpack_gaps(None) == []


def test_a_step_of_256_decodes_takes_less_than_a_byte_a_slice() -> None:
    decodes = [1000 + 3 * i + i % 7 for i in range(256)]
    assert len(pack_slices(decodes, [(4000, 512, 1)])) < 256
