"""Figure: one number of ours beside the one it must be compared with, and what that comparison demands. Measures nothing.

Part and Experiment: what is run to get them, in a quick and in a full size. Invariant: a figure that holds says so by its
own numbers alone; nothing else is consulted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

OWN = "a separate simulator of ours"  # written before this product, sharing no code with it


class Rule(StrEnum):
    """How a figure must lie to its reference."""

    WITHIN = "within"
    AT_MOST = "at most"
    AT_LEAST = "at least"
    EXACTLY = "exactly"


@dataclass(frozen=True, slots=True)
class Figure:
    """what: as people read it. ours, reference: in `unit`. tolerance: relative, for WITHIN. source: of the reference."""

    what: str
    ours: float
    rule: Rule
    reference: float
    source: str
    unit: str = ""
    tolerance: float = 0.0

    @property
    def holds(self) -> bool:
        """Is it as it must be? A NaN is not."""
        match self.rule:
            case Rule.WITHIN:
                return abs(self.ours - self.reference) <= self.tolerance * abs(self.reference)
            case Rule.AT_MOST:
                return self.ours <= self.reference
            case Rule.AT_LEAST:
                return self.ours >= self.reference
            case Rule.EXACTLY:
                return self.ours == self.reference


def within(what: str, ours: float, reference: float, tolerance: float, source: str, unit: str = "") -> Figure:
    """`ours` may differ from `reference` by the share `tolerance` of it."""
    return Figure(what, ours, Rule.WITHIN, reference, source, unit, tolerance)


def at_most(what: str, ours: float, bound: float, source: str, unit: str = "") -> Figure:
    """`ours` may be `bound`, not more."""
    return Figure(what, ours, Rule.AT_MOST, bound, source, unit)


def at_least(what: str, ours: float, bound: float, source: str, unit: str = "") -> Figure:
    """`ours` may be `bound`, not less."""
    return Figure(what, ours, Rule.AT_LEAST, bound, source, unit)


def exactly(what: str, ours: float, reference: float, source: str, unit: str = "") -> Figure:
    """No tolerance at all."""
    return Figure(what, ours, Rule.EXACTLY, reference, source, unit)


@dataclass(frozen=True, slots=True)
class Part:
    """A few runs that belong together. quick, full: arguments of `measure` for either size; it has defaults for the rest."""

    title: str
    measure: Callable[..., Iterable[Figure]]
    quick: Mapping[str, object] = field(default_factory=dict)
    full: Mapping[str, object] = field(default_factory=dict)

    def figures(self, *, full: bool = False) -> list[Figure]:
        """Run it: seconds when quick, up to minutes when full."""
        return list(self.measure(**(self.full if full else self.quick)))


@dataclass(frozen=True, slots=True)
class Experiment:
    """name: as one types it. says: what it shows, for people who have not read the paper. source: where it is from."""

    name: str
    says: str
    source: str
    parts: tuple[Part, ...]
