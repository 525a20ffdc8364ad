"""The queue of most orders, when it is so long that it lies in several runs."""

from __future__ import annotations

import random

from builders import make_request

from scheduler.core.policies.queues import SortedQueue
from scheduler.core.request import Request

MANY = 3 * 2 * SortedQueue._LOAD


def pushed(rng: random.Random) -> tuple[SortedQueue, list[Request]]:
    queue, requests = SortedQueue(), [make_request(prompt=1) for _ in range(MANY)]
    for number, request in enumerate(requests, 1):
        request.number, request.key = number, rng.randrange(700)
        queue.push(request)
        assert max(map(len, queue._runs)) <= 2 * SortedQueue._LOAD and knows_its_lasts(queue)
    return queue, requests


def knows_its_lasts(queue: SortedQueue) -> bool:
    return queue._lasts == [run[-1] for run in queue._runs]


def in_order(requests: list[Request]) -> list[Request]:
    return sorted(requests, key=lambda request: (request.key, request.number))


def test_it_hands_out_in_order_what_was_pushed_in_any() -> None:
    queue, requests = pushed(random.Random(1))
    assert len(queue._runs) > 3 and list(queue) == in_order(requests) and len(queue) == MANY
    for expected in in_order(requests):
        assert queue.first() is expected
        queue.remove(expected)
    assert queue.first() is None and len(queue) == 0


def test_who_leaves_from_anywhere_leaves_all_others_in_their_order_and_each_run_knows_its_last() -> None:
    rng = random.Random(2)
    queue, requests = pushed(rng)
    rng.shuffle(requests)
    while len(requests) > MANY // 3:
        queue.remove(requests.pop())
        assert knows_its_lasts(queue)
    assert list(queue) == in_order(requests)
    for request in requests:
        queue.remove(request)
        queue.push(request)
    assert list(queue) == in_order(requests)
