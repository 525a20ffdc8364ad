"""Whether blocks fit."""

from __future__ import annotations

from builders import make_limits, make_request

from scheduler.core.allocation import Allocation, longest_sequence
from scheduler.core.blocks import BlockPool


def test_on_demand_wants_the_sequence_so_far_and_reserve_the_whole_output() -> None:
    pool, request = BlockPool(100, 4), make_request(prompt=10, max_tokens=7)
    assert Allocation(make_limits(), pool).wanted(request) == 3
    assert Allocation(make_limits(allocation="reserve"), pool).wanted(request) == 4, "16 of 17: the last token needs no room"


def test_reserve_never_wants_more_than_the_pool_or_the_model_holds() -> None:
    request = make_request(prompt=10, max_tokens=10_000)
    assert Allocation(make_limits(allocation="reserve"), BlockPool(20, 4)).wanted(request) == 20
    assert Allocation(make_limits(allocation="reserve", max_model_len=33), BlockPool(20, 4)).wanted(request) == 8


def test_longest_sequence_is_the_models_or_the_pools() -> None:
    assert longest_sequence(make_limits(max_model_len=50), BlockPool(100, 4)) == 50
    assert longest_sequence(make_limits(max_model_len=500), BlockPool(100, 4)) == 401


def test_watermark_is_kept_free_but_not_by_an_idle_engine() -> None:
    pool = BlockPool(10, 4)
    allocation = Allocation(make_limits(watermark=0.3), pool)
    assert allocation.lacking(7, [], idle=False) == 0 and allocation.lacking(9, [], idle=False) == 2
    assert allocation.lacking(10, [], idle=True) == 0 and allocation.lacking(11, [], idle=True) == 1


def test_what_is_promised_to_others_is_kept_free_if_it_is_more_than_the_watermark() -> None:
    allocation = Allocation(make_limits(watermark=0.3), BlockPool(10, 4))
    assert allocation.lacking(7, [], idle=False, spare=2) == 0 and allocation.lacking(7, [], idle=False, spare=5) == 2


def test_fits_after_counts_what_comes_back_and_what_must_be_spared() -> None:
    pool = BlockPool(10, 4)
    table = pool.take(6)
    allocation = Allocation(make_limits(), pool)
    assert not allocation.fits_after(8, [], [], 0)
    assert allocation.fits_after(8, [], [table], 2) and not allocation.fits_after(8, [], [table], 3)


def test_reserve_wants_room_for_all_tokens_but_the_last_to_the_token() -> None:
    allocation = Allocation(make_limits(allocation="reserve"), BlockPool(100, 4))
    for output in range(1, 20):
        assert allocation.wanted(make_request(prompt=3, max_tokens=output)) == -(-(3 + output - 1) // 4)


def test_what_is_hit_need_not_be_taken() -> None:
    pool = BlockPool(10, 4)
    table = pool.take(6)
    allocation = Allocation(make_limits(), pool)
    hits = table[:2]
    assert allocation.lacking(6, hits, idle=True) == 0 and allocation.lacking(7, hits, idle=True) == 1
    assert allocation.fits_after(6, hits, [], 0) and not allocation.fits_after(7, hits, [], 0)
    assert allocation.fits_after(10, hits, [table], 0) and not allocation.fits_after(10, hits, [table], 1)


def test_without_a_watermark_nothing_is_kept_free_unless_it_is_promised() -> None:
    allocation = Allocation(make_limits(watermark=0.0), BlockPool(10, 4))
    assert allocation.lacking(10, [], idle=False) == 0 and allocation.lacking(10, [], idle=False, spare=1) == 1


def test_a_block_that_two_hold_comes_back_with_both_of_their_tables_and_not_with_one() -> None:
    pool = BlockPool(10, 4)
    first, alone = pool.take(4), pool.take(2)
    second = first[:2]
    pool.share(second)
    allocation = Allocation(make_limits(), pool)
    assert allocation.fits_after(6, [], [first], 0) and not allocation.fits_after(7, [], [first], 0)
    assert allocation.fits_after(8, [], [first, second], 0)
    assert allocation.fits_after(8, second, [alone], 0) and not allocation.fits_after(9, second, [alone], 0)


def test_a_hit_that_nobody_holds_is_one_of_the_free_blocks_also_when_others_yield() -> None:
    pool = BlockPool(10, 4)
    hit, table = pool.take(1), pool.take(3)
    pool.publish(hit, "", [b"0123"])
    pool.release(hit)
    allocation = Allocation(make_limits(), pool)
    assert allocation.fits_after(10, hit, [table], 0) and not allocation.fits_after(11, hit, [table], 0)
