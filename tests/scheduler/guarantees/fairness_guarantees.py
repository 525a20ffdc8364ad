"""What policies promise about tenants: how far two of them may be apart in service while both have somebody waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from builders import make_request
from guarantee import Guarantee
from trials import STEP, admissions, made, trial

from scheduler.core.events import Event, RequestFinished, RequestQueued, RequestScheduled, StepCompleted
from scheduler.core.request import Request

PROMPT = 32
OUTPUT = 32
POOL = 1024  # tokens of KV memory: 16 requests run, and one ends every second step
BOUND = 2 * max(PROMPT, 2 * POOL)
QUANTUM = 100
LIMITS = {
    "blocks": POOL // 16, "block_size": 16, "allocation": "reserve", "max_num_seqs": 64, "max_num_batched_tokens": 256,
}  # fmt: skip


def stream(tenant: str, every: int, first: int = 0, last: int = 400, output: int = OUTPUT) -> list[Request]:
    """A request every so many steps."""
    return [
        make_request(f"{tenant}{at}", prompt=PROMPT, max_tokens=output, tenant=tenant, received_at=at * STEP)
        for at in range(first, last, every)
    ]


def service(events: Iterable[Event]) -> Iterator[tuple[int, Counter[str], Counter[str]]]:
    """After each step: now, service so far (prompt tokens + 2 · output tokens) and the number waiting, by tenant."""
    tenants: dict[int, str] = {}
    served: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    queued: set[int] = set()
    for event in events:
        match event:
            case RequestQueued():
                tenants[event.seq] = event.tenant
                waiting[event.tenant] += 1
                queued.add(event.seq)
            case RequestScheduled():
                waiting[tenants[event.number]] -= 1
                queued.discard(event.number)
            case RequestFinished() if event.number in queued:
                waiting[tenants[event.number]] -= 1
            case StepCompleted():
                served.update({tenant: 2 * n for tenant, n in Counter(tenants[n] for n in event.decodes).items()})
                for number, tokens, emitted in event.chunks:
                    served[tenants[number]] += tokens + 2 * emitted
                yield event.at, served, waiting


def largest_difference(events: Iterable[Event]) -> int:
    """Of ann's and bob's service over any stretch of time in which both have somebody waiting throughout."""
    low = high = worst = 0
    fresh = True
    for _, served, waiting in service(events):
        ahead = served["ann"] - served["bob"]
        if not (waiting["ann"] and waiting["bob"]):
            fresh = True
            continue
        low, high, fresh = (ahead, ahead, False) if fresh else (min(low, ahead), max(high, ahead), False)
        worst = max(worst, high - low)
    return worst


def drifts_apart(policy: str) -> str | None:
    """Both send more than half of what the engine can do, bob twice as much as ann."""
    worst = largest_difference(trial(made(policy), stream("ann", 2) + stream("bob", 1), until=400 * STEP, **LIMITS))
    return f"they were {worst} apart, the bound is {BOUND}" if worst > BOUND else None


def lets_the_idle_save(policy: str) -> str | None:
    """ann sends more than the engine can do; bob begins 150 steps later. Who gets what in the next 200 steps?"""
    requests = stream("ann", 1) + stream("bob", 1, 150)
    before, after = Counter[str](), Counter[str]()
    for now, served, _ in service(trial(made(policy), requests, until=370 * STEP, **LIMITS)):
        if now <= 170 * STEP:
            before = Counter(served)
        after = Counter(served)
    gained = after - before
    share = gained["ann"] / gained.total()
    return None if 0.4 <= share <= 0.6 else f"ann's share is {share:.2f}"


def ignores_weights(policy: str) -> str | None:
    events = trial(made(policy, {"weight.bob": 2}), stream("ann", 1) + stream("bob", 1), until=400 * STEP, **LIMITS)
    *_, (_, served, _) = service(events)
    ratio = served["bob"] / max(1, served["ann"])
    return None if 1.85 <= ratio <= 2.15 else f"bob, of weight 2, got {ratio:.2f} times as much as ann"


def lags_in_turns(policy: str) -> str | None:
    """All there: short requests of ann, long ones of bob. Tokens admitted, while both have somebody waiting."""
    largest = PROMPT + 160
    requests = [
        make_request(f"{tenant}{i}", prompt=PROMPT, max_tokens=output, tenant=tenant)
        for i in range(60)
        for tenant, output in (("ann", 10 + i % 7), ("bob", 160 - i % 5))
    ]
    events = trial(made(policy, {"quantum": QUANTUM}), requests, max_num_seqs=4, max_num_batched_tokens=512, blocks=4000)
    ahead, low, high = 0, 0, 0
    for _, who, waiting in admissions(events):
        if len({left.tenant for _, left in waiting.values()}) < 2:
            break
        ahead += (who.prompt_tokens + who.max_tokens) * (1 if who.tenant == "ann" else -1)
        low, high = min(low, ahead), max(high, ahead)
    bound = QUANTUM + 2 * largest
    return f"they were {high - low} tokens apart, the bound is {bound}" if high - low > bound else None


GUARANTEES = [
    Guarantee(
        "bounded service difference",
        "Two tenants that both have somebody waiting differ in service (prompt + 2 · output tokens) by at most "
        "2 · max(longest prompt, 2 · tokens in the KV memory), however fast either sends.",
        ("vtc",),
        ("fcfs", "priority", "lifo"),
        drifts_apart,
    ),
    Guarantee(
        "no credit from idling",
        "Who comes back from having nobody waiting gets its share, no more.",
        ("vtc", "deficit_round_robin"),
        ("fcfs", "priority"),
        lets_the_idle_save,
    ),
    Guarantee(
        "weighted shares",
        "Of two tenants that always have somebody waiting, the one of weight 2 gets twice as much.",
        ("vtc", "deficit_round_robin"),
        ("fcfs", "sjf", "lifo"),
        ignores_weights,
    ),
    Guarantee(
        "bounded lag of turns",
        "Two tenants that both have somebody waiting differ in tokens admitted by at most quantum + 2 · the largest request.",
        ("deficit_round_robin",),
        ("fcfs", "sjf", "lifo"),
        lags_in_turns,
    ),
]
