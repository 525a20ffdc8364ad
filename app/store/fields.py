"""What requests can be asked by: the names of the parameters, and the words that the search grammar has for them. Pure.

Invariant: every word of WORDS and every name of RANGES stands for exactly one column, in one unit.
"""

from __future__ import annotations

from app.store.models import WAIT_COLUMNS
from app.store.open_request import GRAVITY
from scheduler.metrics import WAIT_REASONS

STATES = ("waiting", "running", "preempted", "finished")
MEASURES = ("ttft_ms", "tpot_ms", "queue_ms", "e2e_ms", "prompt_tokens", "cached_tokens", "output_tokens", "preemptions")
PARTS = ("prefill", "decode", "stalled", "preempted")  # of the time after the first admission
EXACT = ("run", "tenant", "policy", "kind", "model", "endpoint", "detail", "client_request_id")
CHOICES = {"state": STATES, "finish": GRAVITY, "top_wait": WAIT_REASONS}
INSTANTS = ("since", "until")
SEARCHED = (*EXACT, *CHOICES, "wait", *INSTANTS)  # words of a search with a value, not a measure
LACKS = "lacks"  # measures, with commas, that are undefined: `ttft:none` in a search
ENDS = {"min_": ">=", "max_": "<=", "above_": ">", "below_": "<"}

RANGES: dict[str, str] = {  # the name in parameters → the column; `_ns` columns are asked in ms
    **{name: name for name in (*MEASURES, "overtaken", "priority")},
    **{f"{part}_ms": f"{part}_ns" for part in PARTS},
    **{f"wait_{reason}_ms": column for reason, column in zip(WAIT_REASONS, WAIT_COLUMNS, strict=True)},
}
WORDS: dict[str, str] = {  # the word in a search → the name in parameters
    **{name.removesuffix("_ms").removesuffix("_tokens"): name for name in RANGES if not name.startswith("wait_")},
    **{f"wait.{reason}": f"wait_{reason}_ms" for reason in WAIT_REASONS},
}
SPELLED = {name: word for word, name in WORDS.items()}


def is_duration(name: str) -> bool:
    """True where a range is asked in ms."""
    return name.endswith("_ms")


def range_of(param: str) -> tuple[str, str] | None:
    """`min_ttft_ms` → ("min_", "ttft_ms"); None of what is no range."""
    for end in ENDS:
        if param.startswith(end) and param[len(end) :] in RANGES:
            return end, param[len(end) :]
    return None


def names() -> list[str]:
    """Every parameter that filters."""
    ranges = [end + name for name in RANGES for end in ENDS]
    return [*SEARCHED, LACKS, "text", "q", *ranges]
