"""The search line: `state:error tenant:a ttft>500ms wait.kv_blocks>200ms "part of an id"`, to and from named parameters. Pure.

A term is a field with `:` and a value, a measure with `>`, `>=`, `<`, `<=` or `=` and a number with its unit (`ttft:none`
where it is undefined), or words in double quotes (or a bare word) that the id or the client's id contains. All terms must hold.
Invariant: `write` of parameters is read back as the same parameters; an error says at which character, and what was expected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches

from app.store.errors import QueryError
from app.store.fields import CHOICES, ENDS, LACKS, MEASURES, SEARCHED, SPELLED, WORDS, is_duration, range_of

MAX_TEXT = 2000
_HEAD = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)(>=|<=|:|>|<|=)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"(?=\s|$)', re.DOTALL)
_BARE = re.compile(r'[^\s"]+(?=\s|$)')
_NUMBER = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?)(ms|s)?", re.IGNORECASE | re.ASCII)
_PARAMS = {">=": ("min_",), "<=": ("max_",), ">": ("above_",), "<": ("below_",), "=": ("min_", "max_")}


@dataclass(frozen=True, slots=True)
class Term:
    """One named parameter that the text asks for, and where: `at` counts characters from 1."""

    param: str
    value: str
    at: int


def parse(text: str) -> list[Term]:
    """The parameters of a search; raises QueryError("q") with the place of the first thing that is wrong."""
    if len(text) > MAX_TEXT:
        raise QueryError(f"a search has at most {MAX_TEXT} characters, not {len(text)}", "q")
    found: dict[str, Term] = {}
    for term in _terms(text):
        if term.param == LACKS and LACKS in found:
            term = Term(LACKS, f"{found[LACKS].value},{term.value}", found[LACKS].at)
        elif term.param in found:
            hint = " (several with commas)" if term.param in CHOICES else ""
            raise misplaced(term.at, f"{_name(term.param)} is asked twice{hint}")
        found[term.param] = term
    return list(found.values())


def write(params: Iterable[tuple[str, str]]) -> str:
    """The search that asks for these parameters; what is no filter is the caller's to leave out."""
    return " ".join(_written(name, value) for name, value in params)


def misplaced(at: int, message: str) -> QueryError:
    """An error of the search line, with its place."""
    return QueryError(f"at character {at}: {message}", "q")


def _terms(text: str) -> Iterator[Term]:
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        head = _HEAD.match(text, at)
        value, end = _value(text, head.end() if head else at)
        if value == "":
            raise misplaced(at + 1, "a value is missing")
        if head is None:
            yield Term("text", value, at + 1)
        else:
            yield from _asked(head[1], head[2], value, at + 1)
        at = end


def _value(text: str, at: int) -> tuple[str, int]:
    """The value that begins there, and where it ends."""
    quoted = _QUOTED.match(text, at)
    if quoted:
        return re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL), quoted.end()
    if at >= len(text) or text[at].isspace():
        raise misplaced(at + 1, "a value is missing")
    bare = _BARE.match(text, at)
    if not bare:
        raise misplaced(at + 1, 'a quotation mark is open, or stands within a word: write "…" with \\" inside')
    return bare[0], bare.end()


def _asked(word: str, sign: str, value: str, at: int) -> Iterator[Term]:
    name = WORDS.get(word, word if word in SPELLED else None)
    if name is not None:
        if sign == ":" and value == "none" and name in MEASURES:
            yield Term(LACKS, name, at)
            return
        if sign not in _PARAMS:
            raise misplaced(at, f"{word} is a measure: write {word}>{'500ms' if is_duration(name) else '5'}, or >=, <, <=, =")
        number = _number(word, name, value, at + len(word) + len(sign))
        yield from (Term(end + name, number, at) for end in _PARAMS[sign])
        return
    if word not in SEARCHED:
        raise misplaced(at, _unknown(word))
    if sign not in (":", "="):
        raise misplaced(at, f"{word} has no order: write {word}:{value}")
    yield Term(word, value, at)


def _number(word: str, name: str, value: str, at: int) -> str:
    """The canonical number, in ms where it is a duration."""
    match = _NUMBER.fullmatch(value)
    if match is None or not math.isfinite(float(match[1])):
        raise misplaced(at, f"{word} takes a number{' with ms or s' if is_duration(name) else ''}, not {value!r}")
    number, unit = Decimal(match[1]), (match[2] or "").lower()
    if not is_duration(name):
        if unit:
            raise misplaced(at, f"{word} is counted, so it has no unit {unit!r}")
        return plain(number)
    if not unit and not word.endswith("_ms"):
        raise misplaced(at, f"say in which unit: {word}…{value}ms or {value}s")
    return plain(number * 1000 if unit == "s" else number)


def plain(number: Decimal) -> str:
    """12.5, 500, 1E+20: the shortest that is read back the same."""
    if number == 0:
        return "0"
    number = number.normalize()
    return format(number, "f") if -12 < number.adjusted() < 15 else str(number)


def _unknown(word: str) -> str:
    near = get_close_matches(word, [*SEARCHED, *WORDS], 1, 0.6)
    meant = f"did you mean {near[0]}?" if near else f"fields are {', '.join(SEARCHED)}; measures {', '.join(WORDS)}"
    return f"unknown field {word!r}: {meant}"


def _name(param: str) -> str:
    found = range_of(param)
    return f"{SPELLED[found[1]]} {ENDS[found[0]]}" if found else "free text" if param == "text" else param


def _written(param: str, value: str) -> str:
    found = range_of(param)
    if param == LACKS:
        return " ".join(f"{SPELLED[name]}:none" for name in value.split(","))
    if found is None:
        return _quote(value) if param == "text" else f"{param}:{value if _BARE.fullmatch(value) else _quote(value)}"
    end, name = found
    try:
        number = plain(Decimal(value.strip()))
    except InvalidOperation:  # "1_000": a number to float()
        number = plain(Decimal(repr(float(value))))
    return f"{SPELLED[name]}{ENDS[end]}{number}{'ms' if is_duration(name) else ''}"


def _quote(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
