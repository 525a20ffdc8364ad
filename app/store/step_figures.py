"""What the steps of a run say: how full, what bound them, how prefills stretched decodes, what was wasted. Knows no SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from app.store.report_rows import Gathered, StepRow
from scheduler.metrics import Interference, budget_used, idle_share, memory, percentile, ratio, recomputed


def steps_figures(steps: Sequence[StepRow]) -> dict[str, Any]:
    """Steps of the run's window: how full, how long, what bound them."""
    ms = sorted((step.ended_at - step.started_at) / 1e6 for step in steps)
    binding = Counter(step.binding for step in steps)
    return {
        "n": len(steps),
        "ms": {"p50": percentile(ms, 50), "p95": percentile(ms, 95), "max": ms[-1] if ms else None},
        "budget_used": budget_used(steps),
        "prefill_tokens": sum(step.prefill_tokens for step in steps),
        "decode_tokens": sum(step.decode_tokens for step in steps),
        "preemptions": sum(step.preempted for step in steps),
        "binding": {reason: n / len(steps) for reason, n in binding.most_common()},
        "running_max": max((step.running for step in steps), default=None),
        "waiting_max": max((step.waiting for step in steps), default=None),
        "host_late": sum(step.host_late_ns > 0 for step in steps),
        "host_late_time": ratio(
            sum(step.host_late_ns for step in steps), sum(step.ended_at - step.started_at for step in steps)
        ),
    }


def waste(found: Gathered, reconciliation: Mapping[str, Any]) -> dict[str, Any]:
    """What was computed twice, held or left idle; each a ratio over the run, None where there is nothing to divide by."""
    server, steps = found.server, found.steps
    preemptions = sum(row["preemptions"] or 0 for row in server)
    again = recomputed(found.relapses)
    computed = sum(step.prefill_tokens + step.decode_tokens for step in steps)
    cached = [row for row in server if row["cached_tokens"] is not None]
    kv = memory(steps)
    thousand_steps = ratio(1000 * sum(step.preempted for step in steps), len(steps))
    return {
        "preemptions_a_request": ratio(preemptions, len(server)),
        "preemptions_a_1000_steps": thousand_steps,
        "recomputed_tokens": again,
        "recomputed_share": ratio(again, computed),
        "prefix_hit_rate": ratio(sum(row["cached_tokens"] for row in cached), sum(row["prompt_tokens"] or 0 for row in cached)),
        "budget_used": budget_used(steps),
        "kv_used": None if kv is None else {"mean": kv.mean, "peak": kv.peak},
        "idle_share": idle_share(steps),
        "shed_rate": ratio(reconciliation["refused"], reconciliation["sent"]),
    }


def interference_json(
    found: Interference | None, steps: Sequence[StepRow], who: Mapping[tuple[int, int], list[tuple[str | None, int]]]
) -> dict[str, Any] | None:
    """In ms. `who`: (boot, seq) of a worst step → whose prompts were in it, and how many tokens."""
    if found is None:
        return None
    began = {(step.boot, step.seq): step.started_at for step in steps}
    first = min(step.started_at for step in steps)
    worst = [
        {
            "boot": step.boot,
            "seq": step.seq,
            "t_s": (began[step.boot, step.seq] - first) / 1e9,
            "ms": step.ns / 1e6,
            "alone_ms": step.alone / 1e6,
            "decodes": step.decodes,
            "prefill_tokens": step.prefill_tokens,
            "prefilled": [{"id": id, "tokens": tokens} for id, tokens in who.get((step.boot, step.seq), [])],
        }
        for step in found.worst
    ]
    return {
        "mixed_steps": found.mixed,
        "compared": found.compared,
        "stretched_ms": found.stretched / 1e6,
        "lost_ms": found.lost / 1e6,
        "share": found.share,
        "worst": worst,
    }
