"""Long prompts beside running answers: a token budget bounds the gap between tokens. E4 and E17 of the literature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler.core.events import StepCompleted
from scheduler.core.request import Request
from scheduler.experiments.figure import OWN, Experiment, Figure, Part, at_least, at_most, within
from scheduler.experiments.record import MS, SECOND, job, play
from scheduler.metrics import percentile
from scheduler.runners.cost_model import DEFAULT_HARDWARE, CostModel, StepShape, load
from scheduler.runners.simulated import SimulatedRunner

DECODERS, CONTEXT, LONG_PROMPT = 32, 1024, 8192
SOURCE = "Sarathi-Serve (Agrawal et al., OSDI'24)"
RTX4090 = "rtx4090-llama3.1-8b-tp1-bf16"
KNOWN_MS: dict[str, dict[int, tuple[float, float | None]]] = {  # hardware → budget → (longest gap, TTFT of the long prompts)
    DEFAULT_HARDWARE: {0: (213.7, 216.0), 2048: (60.2, 234.0), 1024: (32.5, 245.0), 512: (20.2, 313.0), 256: (14.4, 466.0)},
    RTX4090: {0: (898.0, 910.0), 2048: (266.0, 999.0), 1024: (145.0, None), 512: (84.0, None), 256: (54.0, 1706.0)},
}
WHOLE = 0
CALM_S = 8.0  # by then all decoders decode, on any hardware


class Gaps:
    """Every time between two tokens of the decoders, ns: the length of each step that held them, and what passed since."""

    def __init__(self, decoders: int) -> None:
        self._decoders = decoders
        self._last: int | None = None
        self.all: list[int] = []

    def step(self, event: StepCompleted) -> None:
        """Counted from when every decoder decodes."""
        if len(event.decodes) < self._decoders:
            return
        if self._last is not None:
            self.all.append(event.ended_at - self._last)
        self._last = event.ended_at


def requests(seconds: float, every_s: float, prompt: int) -> list[Request]:
    """32 answers without an end, and, once they all run, a long prompt with an answer of one token every so often."""
    endless = [job(i, 0, 100_000, CONTEXT) for i in range(DECODERS)]
    count = int(seconds / every_s)
    return endless + [job(DECODERS + i, round((CALM_S + i * every_s) * SECOND), 1, prompt) for i in range(count)]


def worst_step_ms(cost: CostModel, budget: int, context: int) -> float:
    """The dearest step that `budget` allows: all decoders at `context` tokens, the rest at either end of a long prompt."""
    piece = budget - DECODERS
    shapes = [StepShape(DECODERS, DECODERS * context, ((piece, before),), 1) for before in (0, LONG_PROMPT - piece)]
    return max(map(cost.step_ms, shapes))


def chunked(
    seconds: float = 20, hardware: str = DEFAULT_HARDWARE, budgets: Sequence[int] = (2048, 1024, 512, 256)
) -> Iterator[Figure]:
    """The longest gap between tokens without chunks, and with budgets that shrink."""
    cost, longest = load(hardware), {}
    for budget in (WHOLE, *budgets):
        gaps = Gaps(DECODERS)
        limits = {"max_num_batched_tokens": budget} if budget else {"enable_chunked_prefill": False}
        run = play(
            requests(seconds, 2.0, LONG_PROMPT), SimulatedRunner(cost), until_s=CALM_S + seconds, on_step=gaps.step, **limits
        )
        longest[budget] = max(gaps.all) / MS
        name = f"{budget} tokens a step" if budget else "whole prompts"
        if budget:
            bound = worst_step_ms(cost, budget, CONTEXT + run.end.steps) + 0.001
            yield at_most(f"longest gap between tokens, {name}", longest[budget], bound, "dearest step of that budget", "ms")
        first = [life.ttft / MS for life in run.lives if life.prompt_tokens == LONG_PROMPT and life.ttft is not None]
        known_gap, known_ttft = KNOWN_MS[hardware][budget]
        yield within(f"longest gap between tokens, {name}", longest[budget], known_gap, 0.1, OWN, "ms")
        if known_ttft is not None:
            yield within(f"TTFT of the long prompts, {name}", sum(first) / len(first), known_ttft, 0.1, OWN, "ms")
    yield at_least("whole prompts over 512 tokens a step", longest[WHOLE] / longest[512], 10.0, SOURCE, "times")


def budget_for_a_target(seconds: float = 20, target_ms: float = 25.0) -> Iterator[Figure]:
    """The step's budget follows a bound on the gap between tokens."""
    gaps = Gaps(DECODERS)
    play(
        requests(seconds, 0.5, LONG_PROMPT // 2),
        SimulatedRunner(load(DEFAULT_HARDWARE)),
        until_s=CALM_S + seconds,
        on_step=gaps.step,
        itl_target_ms=target_ms,
    )
    gaps_ms = [gap / MS for gap in sorted(gaps.all)]
    p99 = percentile(gaps_ms, 99) or 0.0
    yield at_most(
        f"p99 of the gaps between tokens, itl_target_ms {target_ms:g}", p99, 1.05 * target_ms, "the target and 5 %", "ms"
    )
    yield at_least(f"p99 of the gaps, itl_target_ms {target_ms:g}: the room is used", p99, 0.6 * target_ms, "the target", "ms")


SARATHI = Experiment(
    name="sarathi",
    says="32 answers run on a simulated H100, and every two seconds a prompt of 8,192 tokens arrives. Computed whole, it stops "
    "every answer for its whole length; in chunks, no gap is longer than the dearest step of the token budget. The price is a "
    "later first token of the long prompt.",
    source=SOURCE,
    parts=(
        Part("simulated H100", chunked),
        Part("simulated RTX 4090", chunked, {"hardware": RTX4090}, {"hardware": RTX4090}),
    ),
)
ITL = Experiment(
    name="itl",
    says="The token budget is chosen anew in each step, so that the step's time by the cost model stays below a bound on the "
    "gap between tokens.",
    source="this product; FairBatching (2025) for the idea",
    parts=(Part("25 ms on a simulated H100", budget_for_a_target, quick={"seconds": 6}),),
)
