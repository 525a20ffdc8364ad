"""A fault that is swapped in does what the broken source would do, and the process that forked knows nothing of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest
from builders import make_limits, make_request
from mutation import mutants as made
from mutation.lines import Lines
from mutation.mutants import CORE, Fault, broken, faults, source
from mutation.swap import live_functions, swap

from scheduler.core import admission
from scheduler.core.blocks import BlockPool
from scheduler.core.slots import Slots

SLOTS = CORE / "slots.py"


def the_fault(module: str, function: str, begins: str) -> Fault:
    """The first one whose words begin so."""
    return next(f for f in faults(CORE / f"{module}.py") if f.function == function and f.what.startswith(begins))


def holds_in_a_child(fault: Fault, claim: Callable[[], bool]) -> bool:
    """Does it hold once the fault is in? Here, it must not."""
    assert not claim()
    live = live_functions()
    child = os.fork()
    if not child:
        code = 2
        try:
            code = int(not (swap(fault, live) and claim()))
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert not claim(), "this process is broken too"
    return code == 0


def test_a_property_is_broken() -> None:
    assert holds_in_a_child(the_fault("slots", "Slots.full", "len(self._held) >= self.limit"), lambda: not Slots(0).full)


def test_a_method_is_broken_also_for_what_lived_before() -> None:
    pool = BlockPool(3, 4)
    assert holds_in_a_child(the_fault("blocks", "BlockPool.blocks_for", "-tokens // self.size"), lambda: pool.blocks_for(8) > 2)


def test_a_function_is_broken_for_those_who_call_it_by_name_only() -> None:
    request, limits, pool = make_request(prompt=7), make_limits(max_model_len=8), BlockPool(4, 4)
    too_long = the_fault("admission", "_never", "request.prompt_tokens + 1 > limits")
    assert holds_in_a_child(too_long, lambda: admission.refusal(request, {}, limits, pool, 0, 0) == "context_length")


def test_a_default_value_is_swapped_with_the_code() -> None:
    salted = [f for f in faults(CORE / "blocks.py") if f.function == "BlockPool.__init__" and f.what == "False  ->  True"]
    assert holds_in_a_child(salted[0], lambda: BlockPool(1, 1).root("a") == "a")


def test_every_fault_has_a_key_of_its_own_and_changes_the_code() -> None:
    found = list(faults(SLOTS))
    assert len({fault.key for fault in found}) == len(found) >= 10
    unbroken = compile(source(SLOTS), "slots", "exec")
    assert [fault.what for fault in found if compile(broken(fault)[0], "slots", "exec") == unbroken] == []


def test_a_fault_is_known_again_when_other_lines_were_added_but_not_when_its_function_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, text = [fault.key for fault in faults(SLOTS)], source(SLOTS)
    monkeypatch.setattr(made, "source", lambda path: "\n\n" + text)
    assert [fault.key for fault in faults(SLOTS)] == before
    monkeypatch.setattr(made, "source", lambda path: text.replace("self.limit = limit", "self.limit = limit + 0"))
    kept = {fault.function for fault in faults(SLOTS) if fault.key in before}
    assert kept == {fault.split(":")[1] for fault in before} - {"Slots.__init__", "Slots.resize"}


def test_the_lines_that_ran_are_those_of_the_branch_that_was_taken() -> None:
    slots, lines = Slots(2), Lines()
    slot = slots.take()
    slots.limit = 0
    sys.settrace(lines.trace)
    slots.give(slot)
    sys.settrace(None)
    first = Slots.give.__code__.co_firstlineno
    assert {line - first for _, line in lines.take()} == {0, 2, 3}, "the call, two lines, and not the third"
    assert lines.take() == set()
