"""Requests that share prefixes, and a cache that holds two of them: E12 of the literature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scheduler.core.request import Request, SamplingParams
from scheduler.experiments.figure import Experiment, Figure, Part, at_least, at_most
from scheduler.experiments.record import MS, Record, play
from scheduler.experiments.unit_cost import UnitCost

PREFIX, SUFFIX, SLOTS, BLOCK = 1000, 100, 4, 20
SOURCE = "SGLang (Zheng et al., NeurIPS'24)"


def interleaved(prefixes: int, each: int) -> list[Request]:
    """One request of each prefix in turn, all there at once."""
    return [
        Request(
            f"{prefix}-{turn}",
            [
                *range(prefix * 10_000, prefix * 10_000 + PREFIX),
                *range(5_000_000 + (prefix * each + turn) * SUFFIX, 5_000_000 + (prefix * each + turn + 1) * SUFFIX),
            ],
            SamplingParams(max_tokens=1, ignore_eos=True),
        )
        for turn in range(each)
        for prefix in range(prefixes)
    ]


def hit_rate(run: Record) -> float:
    """Share of the prompts' tokens that were found in the cache."""
    return sum(life.cached_tokens for life in run.lives) / sum(life.prompt_tokens for life in run.lives)


def longest_first(prefixes: int = 20, each: int = 20) -> Iterator[Figure]:
    """The prefix cache's hit rate, first come first served and longest cached prefix first."""
    room = 2 * PREFIX + SLOTS * (SUFFIX + BLOCK)
    settings: dict[str, Any] = {
        "max_num_seqs": SLOTS,
        "kv_cache_tokens": room,
        "block_size": BLOCK,
        "enable_prefix_caching": True,
    }
    in_turn, by_prefix = (
        play(interleaved(prefixes, each), UnitCost(10 * MS), policy, **settings) for policy in ("fcfs", "longest_prefix")
    )
    most = (each - 1) / each * PREFIX / (PREFIX + SUFFIX)
    yield at_most("hit rate under fcfs", hit_rate(in_turn), 0.01, SOURCE)
    yield at_least(
        "hit rate under longest_prefix", hit_rate(by_prefix), 0.98 * most, "0.98 of the most that any order can reach"
    )
    yield at_most(
        "hit rate under longest_prefix, beside the best", hit_rate(by_prefix), most, "the most that any order can reach"
    )


PREFIX_ORDER = Experiment(
    name="prefix",
    says="Twenty prefixes take turns, and the cache holds two. In the order of arrival nothing is ever found again; longest "
    "cached prefix first computes each prefix once.",
    source=SOURCE,
    parts=(Part("twenty prefixes in turn", longest_first),),
)
