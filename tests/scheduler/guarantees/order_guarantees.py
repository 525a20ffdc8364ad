"""What policies promise about order: who may be admitted while others wait."""

from __future__ import annotations

import random
from collections.abc import Callable

from builders import MS, FakeRunner, make_request
from guarantee import Guarantee
from trials import STEP, admissions, made, trial

from scheduler.core.events import Event, RequestQueued, RequestScheduled
from scheduler.core.request import Request

END = 500
GAP = 150 * MS
PROMOTE = 400 * MS
ALPHA = 20.0
LARGEST_SCORE = 2 * 4 + 2 + 1 + 2 * 2 + 1  # weighted_score's defaults, each factor at its worst under either set of weights


def crowd(seed: int = 2, count: int = 90, gap: int = 20 * MS) -> list[Request]:
    """More than two slots can serve: random lengths, classes, kinds, deadlines."""
    rng, requests = random.Random(seed), []
    for i in range(count):
        at = i * gap
        requests.append(
            make_request(
                f"r{i}",
                prompt=rng.randrange(1, 30),
                max_tokens=rng.choice([1, 2, 4, 9, 30]),
                priority=rng.choice([0, 0, 0, 1, 3, 9]),
                kind=rng.choice(["interactive", "background"]),
                tenant=rng.choice(["ann", "bob"]),
                deadline_at=rng.choice([None, at + 1000 * MS]),
                received_at=at,
            )
        )
    return requests


def run(policy: str, **params: float) -> list[Event]:
    return trial(made(policy, params), crowd(), max_num_seqs=2)


def passed(policy: str, broken: Callable[[RequestQueued, RequestQueued], bool], **params: float) -> str | None:
    """Is anybody first admitted although `broken(who, left)` of somebody left waiting?"""
    for event, who, waiting in admissions(run(policy, **params)):
        left = next((left for _, left in waiting.values() if broken(who, left)), None)
        if left is not None and not event.resumed:
            return f"{who.id} was admitted at {event.at / MS:.0f} ms while {left.id} waited"
    return None


def out_of_order(policy: str) -> str | None:
    return passed(policy, lambda who, left: who.seq > left.seq)


def past_a_better_class(policy: str) -> str | None:
    return passed(policy, lambda who, left: who.priority > left.priority)


def past_the_aged(policy: str) -> str | None:
    def broken(who: RequestQueued, left: RequestQueued) -> bool:
        return who.received_at - left.received_at > max(0, GAP * (left.priority - who.priority))

    return passed(policy, broken, gap_ms=GAP / MS)


def past_the_score(policy: str) -> str | None:
    bound = LARGEST_SCORE / ALPHA * 1000 * MS
    return passed(policy, lambda who, left: who.received_at - left.received_at > bound, alpha=ALPHA)


def longer_first(policy: str) -> str | None:
    return passed(policy, lambda who, left: who.prompt_tokens + who.max_tokens > left.prompt_tokens + left.max_tokens)


def past_the_promoted(policy: str) -> str | None:
    events = run(policy, promote_ms=PROMOTE / MS)
    for event, who, waiting in admissions(events):
        for since, left in waiting.values():
            if event.at - since >= PROMOTE and who.received_at > left.received_at:
                return f"{left.id} had waited {(event.at - since) / MS:.0f} ms when {who.id}, which came later, was admitted"
    return None


def asks_for_lengths(policy: str) -> str | None:
    """Does it matter to the order what senders say of their lengths? All end by themselves, at the same lengths."""

    def order(says: Callable[[int], int]) -> list[tuple[int, int]]:
        rng, requests = random.Random(7), []
        for i in range(60):
            length = rng.choice([1, 3, 8, 25])
            prompt = [length] * rng.randrange(1, 30)
            fields = {"received_at": i * 3 * STEP, "expected_output_tokens": says(length), "stop_token_ids": (END,)}
            requests.append(make_request(f"r{i}", prompt, 200, tenant=rng.choice(["ann", "bob"]), **fields))
        events = trial(made(policy, {"quantum": 20}), requests, runner=FakeRunner(_says_its_length, STEP), max_num_seqs=2)
        return [(event.number, event.at) for event in events if isinstance(event, RequestScheduled)]

    return None if order(lambda length: length) == order(lambda length: 30 - length) else "other hints, another order"


def _says_its_length(request: Request) -> int:
    """Each prompt consists of the number of output tokens that will end the answer."""
    return END if request.output_tokens + 1 == request.tokens[0] else END + 1


GUARANTEES = [
    Guarantee(
        "order of arrival",
        "Requests are first admitted in the order in which they came.",
        ("fcfs",),
        ("sjf", "priority", "lifo"),
        out_of_order,
    ),
    Guarantee(
        "strict classes",
        "Nobody is first admitted while a request of a better class waits.",
        ("priority",),
        ("fcfs", "sjf", "lifo"),
        past_a_better_class,
    ),
    Guarantee(
        "bounded ageing",
        "Nobody is overtaken by a request that arrived more than gap_ms · (difference of their classes) later.",
        ("fcfs", "priority_aging"),
        ("priority", "sjf", "lifo"),
        past_the_aged,
    ),
    Guarantee(
        "bounded overtaking",
        "Nobody is overtaken by a request that arrived more than B / alpha seconds later, B being the largest score under any "
        "of the weights.",
        ("fcfs", "weighted_score"),
        ("priority", "sjf", "lifo"),
        past_the_score,
    ),
    Guarantee(
        "shortest of who waits",
        "Whoever is first admitted is the shortest of all who wait.",
        ("sjf",),
        ("fcfs", "lifo", "vtc"),
        longer_first,
    ),
    Guarantee(
        "promotion",
        "Whoever has waited promote_ms is passed only by requests that came before it.",
        ("fcfs", "skip_join_mlfq"),
        ("sjf", "srtf", "priority", "lifo"),
        past_the_promoted,
    ),
    Guarantee(
        "lengths are not asked for",
        "What senders say of their output lengths does not change the order.",
        ("fcfs", "priority", "priority_aging", "edf", "skip_join_mlfq", "vtc"),
        ("sjf", "srtf", "least_slack", "deficit_round_robin"),
        asks_for_lengths,
    ),
]
