"""lifo: the newest first, and what that does to the others."""

from __future__ import annotations

from builders import MS, Bench, make_request, make_scheduler

from scheduler.core.events import RequestFinished
from scheduler.core.policies.catalog import CATALOG, make
from scheduler.core.request import RequestState


def test_newest_goes_first_and_who_came_together_in_the_order_of_submission() -> None:
    bench = Bench(make_scheduler(make("lifo", {}), max_num_seqs=1))
    bench.add(make_request("a"), make_request("b"))
    bench.clock.tick()
    bench.add(make_request("c"), make_request("d"))
    bench.clock.tick()
    bench.add(make_request("e"))
    bench.run_to_idle()
    assert [event.id for event in bench.of(RequestFinished)] == ["e", "c", "d", "a", "b"]


def test_it_starves_who_once_waited_and_says_so() -> None:
    bench = Bench(make_scheduler(make("lifo", {}), max_num_seqs=1))
    bench.clock.tick(MS)
    old = make_request("old")
    bench.add(old)
    for _ in range(100):
        bench.clock.tick()
        bench.add(make_request(prompt=4, max_tokens=2))
        bench.step()
        bench.step()
    assert old.state is RequestState.WAITING, "it never ran"
    assert "starves" in CATALOG["lifo"].help and CATALOG["lifo"].guarantee.startswith("None")
