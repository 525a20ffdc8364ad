"""The search line and the named parameters are two spellings of one question; a mistake is shown where it is."""

from __future__ import annotations

import operator
import re
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import Records, make_bench, make_row, some_requests

from app.store import runs
from app.store.as_sql import as_sql_json
from app.store.database import is_sqlite
from app.store.errors import QueryError
from app.store.facets import spread_json
from app.store.fields import CHOICES, ENDS, EXACT, RANGES, names
from app.store.filters import filters
from app.store.grammar import parse, write
from app.store.runs import NewRun
from scheduler.metrics import WAIT_REASONS

texts = st.text(min_size=1, max_size=12)
numbers = st.one_of(st.integers(-(10**6), 10**9).map(str), st.floats(0, 1e9).map(repr), st.sampled_from(["1e3", ".5", "2."]))
parameters = st.dictionaries(
    st.sampled_from([*EXACT, "text"]), texts, max_size=3
).flatmap(
    lambda exact: st.dictionaries(
        st.tuples(st.sampled_from(list(ENDS)), st.sampled_from(list(RANGES))).map("".join), numbers, max_size=4
    ).map(lambda ranges: exact | ranges)
)  # fmt: skip


@given(parameters)
def test_what_is_written_is_read_back(params: dict[str, str]) -> None:
    read = {term.param: term.value for term in parse(write(params.items()))}
    assert read.keys() == params.keys()
    for name, value in params.items():
        ranged = name.startswith(tuple(ENDS))
        assert float(read[name]) == float(value) if ranged else read[name] == value


@given(st.text(max_size=40))
def test_any_text_is_a_question_or_an_error_with_its_place(text: str) -> None:
    try:
        terms = parse(text)
    except QueryError as error:
        place = re.match(r"at character (\d+): ", error.message)
        assert error.param == "q" and place and 1 <= int(place[1]) <= len(text) + 1
    else:
        assert write((term.param, term.value) for term in terms) == "" or terms


def test_what_a_measure_lacks_is_asked_by_none_and_written_back() -> None:
    assert asked("ttft:none tpot:none tenant:a") == {"lacks": "ttft_ms,tpot_ms", "tenant": "a"}
    assert filters({"lacks": "ttft_ms"}).search == "ttft:none"
    with pytest.raises(QueryError, match="lacks must be one of"):
        filters({"lacks": "colour"})


def test_requests_without_a_first_token_are_found(records: Records) -> None:
    records.accept(make_row("never"))
    records.play(make_bench(2), some_requests(3))
    assert [item["id"] for item in records.queries.requests({"q": "ttft:none"})["items"]] == ["never"]


def test_a_run_is_found_by_its_id_its_name_and_its_scenario(records: Records) -> None:
    for id, fields in (("run_1", {"scenario": "poisson"}), ("run_2", {"name": "poisson"}), ("run_3", {"scenario": "burst"})):
        records.job(partial(runs.create, run=NewRun(id, 1, **fields)))
        records.accept(make_row(f"of {id}", run=id))
    for text, found in (("run_1", {"of run_1"}), ("poisson", {"of run_1", "of run_2"}), ("nobody", set())):
        page = records.queries.requests({"q": f"run:{text}", "sort": "id"})
        assert {item["id"] for item in page["items"]} == found and page["total"] == len(found)
        spread = records.queries.ask(spread_json, {"q": f"run:{text}"})
        assert spread["undefined"] == len(found), "a run's name is not all runs"


def asked(text: str) -> dict[str, str]:
    return dict(filters({"q": text}).given)


def test_terms_are_the_named_parameters() -> None:
    assert asked('state:waiting,running tenant:"a b" ttft>500ms e2e<=1.5s wait.kv_blocks>0.2s preemptions=2 "x 1"') == {
        "state": "waiting,running", "tenant": "a b", "above_ttft_ms": "500", "max_e2e_ms": "1500",
        "above_wait_kv_blocks_ms": "200", "min_preemptions": "2", "max_preemptions": "2", "text": "x 1",
    }  # fmt: skip
    assert asked("ttft_ms>500") == asked("ttft>500ms") and asked("req_1") == {"text": "req_1"}
    assert filters({"q": "tenant:a", "min_ttft_ms": "5"}).search == "ttft>=5ms tenant:a"
    assert filters({"q": "since:2026-11-30T10:00"}).conditions[0].compare(filters({"since": "2026-11-30T10:00"}).conditions[0])


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("tenant:a colour:red", 10, "unknown field 'colour'"),
        ("tennant:a", 1, "did you mean tenant?"),
        ("ttft>500", 6, "500ms or 500s"),
        ("ttft>fast", 6, "takes a number with ms or s, not 'fast'"),
        ("ttft:500ms", 1, "is a measure: write ttft>500ms"),
        ("preemptions>1ms", 13, "has no unit 'ms'"),
        ("tenant>a", 1, "has no order"),
        ("tenant: a", 8, "a value is missing"),
        ('tenant:a "open', 10, "a quotation mark is open"),
        ("state:gone", 1, "state must be one of"),
        ("tenant:a tenant:b", 10, "is asked twice"),
        ("state:waiting state:running", 15, "several with commas"),
        ("since:soon", 1, "ISO 8601"),
        ('""', 1, "a value is missing"),
        ("x" * 2001, None, "at most 2000 characters"),
    ],
)
def test_a_mistake_is_shown_where_it_is(text: str, at: int | None, says: str) -> None:
    with pytest.raises(QueryError) as caught:
        filters({"q": text})
    assert caught.value.param == "q" and says in caught.value.message
    assert at is None or caught.value.message.startswith(f"at character {at}: ")


def test_a_parameter_and_a_term_of_one_name_are_refused() -> None:
    with pytest.raises(QueryError, match="is asked by a parameter too"):
        filters({"q": "tenant:a", "tenant": "a"})


def test_every_name_is_a_filter() -> None:
    values = (
        {name: choices[0] for name, choices in CHOICES.items()}
        | {"wait": WAIT_REASONS[0], "since": "0", "until": "0"}
        | {"lacks": "e2e_ms"}
    )
    for name in names():
        asked = filters({name: values.get(name, "tenant:a" if name == "q" else "1")})
        assert asked.given and asked.conditions, name


QUESTIONS: list[dict[str, str]] = [
    {},
    {"q": "tenant:a"},
    {"q": "ttft>10ms preemptions>=0", "sort": "-ttft_ms"},
    {"q": "wait.kv_blocks>0.5ms", "sort": "e2e_ms"},
    {"q": 'R1 output>1.5 endpoint:/v1/completions', "sort": "tpot_ms"},
    {"tenant": "it's 100% \"x\"; --"},
    {"text": "100%_'"},
    {"state": "waiting,running"},
    {"max_prompt_tokens": "7.5", "since": "2020-01-01"},
]  # fmt: skip


@pytest.fixture(scope="module")
def played(module_url: str) -> Any:
    records = Records(url=module_url)
    records.play(make_bench(2, blocks=8, max_num_seqs=3, max_num_batched_tokens=16), some_requests(12), run="one")
    yield records
    records.close()


@pytest.mark.parametrize("params", QUESTIONS)
def test_as_sql_gives_the_same_ids_in_the_same_order(played: Records, params: dict[str, str]) -> None:
    statement = played.queries.ask(as_sql_json, params)["sql"]
    wanted = [item["id"] for item in played.queries.requests(params)["items"]]
    assert [row[0] for row in played.sql(statement)] == wanted
    if is_sqlite(played.url):
        assert [row[0] for row in played.queries.sql(statement)["rows"]] == wanted, "the console's views are the same"


@pytest.mark.parametrize(("sign", "holds"), [(">", operator.gt), (">=", operator.ge), ("<", operator.lt), ("<=", operator.le)])
@pytest.mark.parametrize("bound", ["7.5", "8", "8.5", "1e300", "-1e300"])
def test_bounds_of_whole_numbers_may_be_fractions(played: Records, sign: str, holds: Any, bound: str) -> None:
    found = {item["id"] for item in played.queries.requests({"q": f"prompt{sign}{bound}"})["items"]}
    every = played.queries.requests({})["items"]
    assert found == {item["id"] for item in every if holds(item["prompt_tokens"], float(bound))}


def test_the_questions_above_find_some_and_not_all(played: Records) -> None:
    found = [len(played.queries.requests(params)["items"]) for params in QUESTIONS]
    assert found[0] == 12 and sum(0 < n < 12 for n in found) >= 4, found
