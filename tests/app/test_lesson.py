"""The lesson: its two languages say the same, what it names exists, and its answers are what the recording shows."""

from __future__ import annotations

import ast
import gzip
import io
import json
import re
import shlex
import tomllib
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.cli.command import parser
from app.lesson import FILES, HERE, ROOT, read_lesson, recordings, render, slug
from app.live_state import LiveState
from scheduler import simple
from scheduler.core.events import EVENT_TYPES
from scheduler.core.request import RequestState

TEXTS = {lang: (ROOT / "docs" / name).read_text("utf-8") for lang, name in FILES.items()}
ENGLISH = TEXTS["en"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LARGEST = 60_000
SCENARIO = tomllib.loads((ROOT / "loadgen" / "scenarios" / "tutorial.toml").read_text("utf-8"))
PRIORITIES = {mix["kind"]: mix["priority"] for turn in SCENARIO["streams"][0]["turns"] for mix in turn["mix"]}
both = pytest.mark.parametrize("lang", list(TEXTS))
Frame = dict[str, Any]


def commands(text: str) -> list[str]:
    return [line for kind, block in FENCE.findall(text) if not kind for line in block.splitlines()]


def outputs(text: str) -> list[str]:
    return [block for kind, block in FENCE.findall(text) if kind]


@pytest.fixture(scope="module")
def messages() -> list[tuple[float, str, Frame]]:
    return [tuple(message) for message in json.loads(gzip.decompress(recordings()["tutorial"]))["messages"]]


def shown_at(messages: list[tuple[float, str, Frame]], step: int) -> int:
    """The index of the frame that the page shows at that step of the engine."""
    return next(
        index for index, (_, name, data) in enumerate(messages) if name == "frame" and data["steps"]["step"][-1:] >= [step]
    )


def who_waits(frame: Frame) -> list[str]:
    return [row["kind"] for row in frame["waiting_now"]]


def batches(messages: list[tuple[float, str, Frame]]) -> list[list[str]]:
    """Who was prefilled together, the best class first. The scenario's requests have their names in order of arrival."""
    bars = dict[tuple[str, str], float]()
    for _, name, frame in messages:
        changes = frame["changes"] if name == "frame" else {"id": [], "phase": [], "t0": []}
        for number, phase, began in zip(changes["id"], changes["phase"], changes["t0"], strict=True):
            bars.setdefault((phase, number), began)
    arrivals = sorted((began, number) for (phase, number), began in bars.items() if phase == "queued")
    names = {number: f"req{place}" for place, (_, number) in enumerate(arrivals, 1)}
    found = dict[float, list[str]]()
    for (phase, number), began in sorted(bars.items(), key=lambda bar: PRIORITIES[names[bar[0][1]]]):
        if phase == "prefill":
            found.setdefault(began, []).append(names[number])
    return [found[began] for began in sorted(found)]


# ---- the page


@both
def test_every_link_leads_to_this_server_or_is_words(lang: str) -> None:
    hrefs = re.findall(r'href="([^"]*)"', read_lesson(lang).html)
    assert len(hrefs) >= 15 and all(href.startswith("/") for href in hrefs), hrefs
    assert "/?recorded=tutorial&amp;step=45" in hrefs and "scheduler/<wbr>core/<wbr>blocks.py" in read_lesson(lang).html


def test_html_in_the_file_is_text_on_the_page() -> None:
    shown = render(
        "# A <b>\n\n<script>alert(1)</script> [x](javascript:alert(1)) [y](../secret) [z](https://a.example/)\n", "en"
    )
    assert (
        "<script" not in shown.html
        and "<b>" not in shown.html
        and "javascript:" not in re.findall(r'href="([^"]*)"', shown.html)
    )
    assert re.findall(r"href=\"([^\"]*)\"", shown.html) == ["https://a.example/"] and " y " in shown.html


def test_the_title_and_the_ids_are_as_github_makes_them() -> None:
    assert read_lesson("").title.startswith("Lesson") and read_lesson("nonsense").lang == "en"
    assert read_lesson("zh-TW").lang == "zh-CN" and slug("1. The Batch Manager: how?") == "1-the-batch-manager-how"


# ---- the two languages


def test_commands_outputs_links_and_tables_are_the_same_in_both() -> None:
    chinese = TEXTS["zh-CN"]
    assert commands(chinese) == commands(ENGLISH) and outputs(chinese) == outputs(ENGLISH)
    others = [re.findall(r"\]\(([^)]+)\)", text)[1:] for text in TEXTS.values()]  # the first leads to the other language
    assert others[0] == others[1]
    assert [len(re.findall(pattern, chinese, re.M)) for pattern in (r"^#", r"^\|")] == [
        len(re.findall(pattern, ENGLISH, re.M)) for pattern in (r"^#", r"^\|")
    ]
    assert re.findall(r"\*\*(\w[\w ]+)\*\* \|", chinese, re.A) == re.findall(r"\*\*(\w[\w ]+)\*\* \|", ENGLISH, re.A)


# ---- what it names


@both
def test_every_file_and_name_of_its_tables_exists(lang: str) -> None:
    rows = re.findall(r"^\| \[`([^`]+)`\]\(([^)]+)\) \| ([^|]+) \|", TEXTS[lang], re.M)
    assert len(rows) >= 12
    for path, link, names in rows:
        assert link == f"../{path}"
        known = names_in(ROOT / path)
        told = re.findall(r"`([^`]+)`", names)
        assert told and [name for name in told if name not in known] == [], path


def names_in(path: Path) -> set[str]:
    """Functions, classes, `Class.method` and assigned names of a module."""
    found = set[str]()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_every_command_of_it_is_one() -> None:
    found = commands(ENGLISH)
    assert len(found) == 5 and "python -m scheduler.simple" in found
    for line in found:
        program, *words = shlex.split(line)
        if program == "batchscope":
            parser().parse_args(words)  # ends the test where a word is wrong


def test_outputs_that_do_not_depend_on_the_machine_are_real(tmp_path: Path) -> None:
    _, static, continuous, demo = outputs(ENGLISH)
    said = io.StringIO()
    with redirect_stdout(said):
        simple.main()
    assert said.getvalue() == demo
    for line, wanted in zip([line for line in commands(ENGLISH) if "simulate" in line], (static, continuous), strict=True):
        said = io.StringIO()
        with redirect_stdout(said):
            assert main([*shlex.split(line)[1:], "--data-dir", str(tmp_path)]) == 0
        assert wanted in said.getvalue(), line


# ---- its answers


@both
def test_its_answers_are_what_the_recording_shows(lang: str, messages: list[tuple[float, str, Frame]]) -> None:
    answers = [re.findall(r"`([^`]+)`", line) for line in re.split(r"\n\d\. ", TEXTS[lang].rpartition("\n## ")[2])[1:]]
    moved = batches(messages)[1]
    assert sorted(moved) == sorted(
        set(who_waits(messages[shown_at(messages, 45)][2])) - set(who_waits(messages[shown_at(messages, 55)][2]))
    )
    event = next(kind.__name__ for kind in EVENT_TYPES if kind.__name__ == "RequestScheduled")
    assert answers[0] == [*moved, RequestState.WAITING.value, RequestState.RUNNING.value, event]

    idle = messages[shown_at(messages, 160)][2]["gauges"]
    assert (idle["running"], idle["max_num_seqs"], idle["waiting"]) == (1, 2, 2)
    (reason,) = [name for name, number in idle["waiting_by_reason"].items() if number]
    assert answers[1] == [reason, "batching=continuous"] and reason not in outputs(ENGLISH)[2]

    steps = messages[shown_at(messages, 1)][2]["steps"]
    assert (steps["step"][0], steps["running"][0], steps["waiting"][0]) == (1, 1, 0)
    assert answers[2] == [*batches(messages)[0], *(f"[{', '.join(batch)}]" for batch in batches(messages))]


def test_the_moments_of_its_tables_show_what_is_said(messages: list[tuple[float, str, Frame]]) -> None:
    told = sorted({int(step) for step in re.findall(HERE + r"/\?recorded=tutorial&step=(\d+)", ENGLISH)})
    frames = {step: messages[shown_at(messages, step)][2] for step in told}
    assert list(frames) == [1, 30, 45, 55, 160, 171, 260]
    for step in (30, 45):
        assert who_waits(frames[step]) == ["req2", "req3", "req4", "req5"]
    assert who_waits(frames[55]) == ["req3", "req4"] and frames[160]["gauges"]["running"] == 1
    third = frames[171]["steps"]
    assert third["prefill"][third["step"].index(171)] == 8 and frames[171]["gauges"]["running"] == 2
    assert (frames[260]["gauges"]["running"], frames[260]["gauges"]["finished"]) == (0, 5)


# ---- the recording


def test_the_recording_is_small_and_holds_what_the_websocket_sends_today(messages: list[tuple[float, str, Frame]]) -> None:
    assert sum(map(len, recordings().values())) <= LARGEST
    today = LiveState(lambda: 0).snapshot()
    assert messages[0][1] == "snapshot" and set(messages[0][2]) == set(today), "record it anew: tests/browser/record.py"
    for part in ("gauges", "steps", "segments", "server"):
        assert set(messages[0][2][part]) >= set(today[part]), f"{part}: record it anew: tests/browser/record.py"
    assert [at for at, _, _ in messages] == sorted(at for at, _, _ in messages)


def test_the_recordings_frames_join(messages: list[tuple[float, str, Frame]]) -> None:
    place = messages[0][2]["seq"]
    for _, name, frame in messages:
        if name == "frame":
            assert frame["from"] == place
            place = frame["to"]
