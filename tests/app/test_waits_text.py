"""A request's waits in a terminal: the sums with their holders come first, what is left out is counted, heads are named."""

from __future__ import annotations

from typing import Any

from app.cli.waits_text import MOST_STRETCHES, held_by, waits_text


def blocks(a: int, b: int, *, head: int = 7, needed: int = 5, free: int = 2) -> dict[str, Any]:
    return {
        "holders": [{"tenant": "b", "amount": b}, {"tenant": "a", "amount": a}], "rest": 0, "unit": "blocks",
        "limit": a + b + free, "free": free, "kept": 0, "needed": needed, "head": head, "tokens": 0, "max_tokens": 0,
    }  # fmt: skip


def stretch(start: float, end: float | None, reason: str, blockers: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"sequence": "req_1", "from_ms": start, "to_ms": end, "reason": reason, "blockers": blockers}


def request(*stretches: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"waited": list(stretches), "waits": {}, "e2e_ms": 500.0, "number": 9} | fields


def test_the_sum_by_reason_and_who_held_it_comes_before_the_stretches() -> None:
    waited = (
        stretch(0, 10, "step"), stretch(10, 110, "kv_blocks", blocks(20, 80)), stretch(110, 310, "kv_blocks", blocks(50, 50)),
        stretch(310, 320, "slots"), stretch(320, 330, "kv_blocks", blocks(0, 100)),
    )  # fmt: skip
    said = waits_text(request(*waited)).splitlines()
    # b: 80 × 100 + 50 × 200 + 100 × 10 of 31,000; neighbours of one reason are one stretch
    assert said[:4] == [
        "Waits",
        "2 stretches, kv_blocks 310 ms: b 61 %, a 39 %",
        *(f"1 stretch, {reason} 10 ms" for reason in ("step", "slots")),
    ]
    assert said[5] == "Who held what when (5)" and len(said) == 5 + 2 + len(waited)


def test_what_the_scheduler_booked_is_what_the_sums_say_and_an_open_stretch_goes_until_now() -> None:
    held = stretch(0, None, "kv_blocks", blocks(25, 75))
    assert "1 stretch, kv_blocks 300 ms: b 75 %, a 25 %" in waits_text(request(held, e2e_ms=None, age_ms=300.0))
    said = waits_text(request(held, waits={"kv_blocks": 290.5, "paused": 4.0, "slots": 0.0}))
    assert "kv_blocks 290.5 ms" in said and "\npaused 4 ms\n" in said and "slots" not in said


def test_stretches_that_are_left_out_are_counted_and_all_shows_them() -> None:
    many = request(*[stretch(at, at + 1, "slots") for at in range(MOST_STRETCHES + 33)])
    few, every = waits_text(many), waits_text(many, every=True)
    assert f"({MOST_STRETCHES} of {MOST_STRETCHES + 33}, --all)" in few
    assert len(every.splitlines()) - len(few.splitlines()) == 33 and "--all" not in every


def test_whose_need_it_is_is_said() -> None:
    assert "next in line needs 5, 2 free" in held_by(blocks(1, 2, head=7), asks=9)
    assert "it needs 5, 2 free" in held_by(blocks(1, 2, head=7), asks=7)
    assert "memory ran out for the running" in held_by(blocks(1, 2, head=0), asks=7)


def test_blocks_that_are_shared_are_not_counted_as_more_than_there_are() -> None:
    shared = blocks(1, 2) | {"limit": 4}
    assert held_by(shared).startswith("2 of 4 blocks in use: b 2, a 1 (1 more than in use")


def test_a_request_that_never_waited_has_no_such_part() -> None:
    assert waits_text(request()) == ""
