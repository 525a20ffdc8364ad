"""What policies promise about prefixes: what is hit, who may be overtaken for it, and how far tenants may be apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from builders import MS, make_limits, make_request
from guarantee import Guarantee
from trials import STEP, admissions, drive, made

from scheduler.core.blocks import BlockPool
from scheduler.core.events import Event, RequestFinished, RequestQueued, StepCompleted
from scheduler.core.request import Request
from scheduler.core.scheduler import Scheduler

BLOCK = 16
PREFIX, SUFFIX, OUTPUT = 1000, 100, 4
HIT_RATE = 0.85  # the best possible: 19 of 20 find 62 blocks of 16 tokens, of 1100: 0.857
BOUND_MS = 600.0
QUANTUM = 200
SHARED = 32
SLOTS = 4
MOST_AT_ONCE = SLOTS * (SHARED + 8 + 2 * 8)  # what a tenant's running requests can cost: prompts, and outputs at 2
APART = 2 * (QUANTUM + MOST_AT_ONCE)


def observed(
    policy: str,
    requests: Iterable[Request],
    params: Mapping[str, float],
    *,
    blocks: int,
    until: int | None = None,
    **limits: int,
) -> list[Event]:
    """A trial in which the policy may look at the pool."""
    pool = BlockPool(blocks, BLOCK)
    settings = {"max_num_batched_tokens": 2048, "max_model_len": 2048, "max_num_seqs": SLOTS} | limits
    return drive(Scheduler(make_limits(**settings), pool, made(policy, params, pool)), requests, until=until)


# ---- E12


def interleaved() -> list[Request]:
    """20 prefixes, each 20 times with another suffix, in turn, all there at once."""
    return [
        make_request(
            f"p{n % 20}-{n // 20}",
            prompt=[*range(n % 20 * PREFIX, (n % 20 + 1) * PREFIX), *range(50_000 + n * SUFFIX, 50_000 + (n + 1) * SUFFIX)],
            max_tokens=OUTPUT,
        )
        for n in range(400)
    ]


def hit_rate(policy: str) -> float:
    """Tokens hit of tokens asked. The pool holds two prefixes, and what is each one's own of the four that run."""
    blocks = 2 * (PREFIX // BLOCK + 1) + SLOTS * ((SUFFIX + OUTPUT) // BLOCK + 2)
    ends = [each for each in observed(policy, interleaved(), {}, blocks=blocks) if isinstance(each, RequestFinished)]
    assert len(ends) == 400 and all(end.reason.value == "length" for end in ends), "not everybody was served"
    return sum(end.cached_tokens for end in ends) / sum(end.prompt_tokens for end in ends)


def misses_hits(policy: str) -> str | None:
    rate = hit_rate(policy)
    return None if rate >= HIT_RATE else f"{rate:.3f} of the tokens were hit; {HIT_RATE} is asked, 0.857 possible"


# ---- ageing


def hot_and_cold() -> list[Request]:
    """A prefix that more share than one slot can serve, and now and then somebody who shares nothing and is worse placed."""
    hot = [make_request(f"hot{i}", prompt=[*range(64), 90 + i], max_tokens=4, received_at=i * 30 * MS) for i in range(150)]
    cold = [make_request(f"cold{i}", prompt=80, max_tokens=6, priority=3, received_at=(2 + i * 700) * MS) for i in range(5)]
    return hot + cold


def farthest_overtaking(policy: str, **params: float) -> int:
    """How much later, ns, the latest comer came that was admitted before somebody who waited."""
    events = observed(policy, hot_and_cold(), {"worth_ms": 50, "bound_ms": BOUND_MS, **params}, blocks=200, max_num_seqs=1)
    return max(
        (who.received_at - left.received_at for _, who, waiting in admissions(events) for _, left in waiting.values()),
        default=0,
    )


def starves_the_cold(policy: str) -> str | None:
    worst = farthest_overtaking(policy)
    return (
        f"overtaken by one that came {worst / MS:.0f} ms later, the bound is {BOUND_MS:.0f}" if worst > BOUND_MS * MS else None
    )


# ---- fair shares


def two_tenants() -> list[Request]:
    """ann's requests share a prefix, bob's share nothing; both have more waiting than is served."""
    requests = []
    for i in range(300):
        own = range(10_000 + i * 50, 10_008 + i * 50)
        requests.append(make_request(f"ann{i}", prompt=[*range(SHARED), *own], max_tokens=8, tenant="ann"))
        requests.append(make_request(f"bob{i}", prompt=SHARED + 8, max_tokens=8, tenant="bob"))
    return requests


def largest_difference(events: Iterable[Event]) -> int:
    """How far the difference of service (computed prompt + 2 · output tokens) moved while both had somebody waiting."""
    tenants, waiting, left = dict[int, str](), Counter[str](), dict[int, str]()
    ahead, low, high = 0, 0, 0
    for event in events:
        match event:
            case RequestQueued():
                tenants[event.seq] = left[event.seq] = event.tenant
                waiting[event.tenant] += 1
            case StepCompleted():
                for number, tokens, emitted in [*event.chunks, *((number, 0, 1) for number in event.decodes)]:
                    if number in left:
                        waiting[left.pop(number)] -= 1
                    ahead += (tokens + 2 * emitted) * (1 if tenants[number] == "ann" else -1)
                if not (waiting["ann"] and waiting["bob"]):
                    break
                low, high = min(low, ahead), max(high, ahead)
    return high - low


def favours_the_cached(policy: str) -> str | None:
    apart = largest_difference(observed(policy, two_tenants(), {"quantum": QUANTUM}, blocks=200, until=2000 * STEP))
    return f"they were {apart} apart, the bound is {APART}" if apart > APART else None


GUARANTEES = [
    Guarantee(
        "shared prefixes are hit",
        "20 prefixes of 1,000 tokens, each asked 20 times in turn, in a pool that holds two: at least 0.85 of the tokens are "
        "hit (the best possible is 0.857).",
        ("longest_prefix", "deficit_longest_prefix"),
        ("fcfs", "priority", "sjf"),
        misses_hits,
    ),
    Guarantee(
        "bounded overtaking for a prefix",
        "Nobody is overtaken by a request of the same tenant that arrived more than bound_ms later, however many share a "
        "cached prefix.",
        ("longest_prefix", "deficit_longest_prefix"),
        ("priority", "lifo", "sjf"),
        starves_the_cold,
    ),
    Guarantee(
        "bounded difference beside a cached prefix",
        "Two tenants that both have somebody waiting differ in service (computed prompt + 2 · output tokens) by at most "
        "2 · (quantum + what a tenant's running requests can cost), though one of them hits and the other does not.",
        ("deficit_longest_prefix",),
        ("longest_prefix", "sjf", "lifo"),
        favours_the_cached,
    ),
]
