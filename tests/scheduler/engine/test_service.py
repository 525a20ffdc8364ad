"""The engine's body: commands between steps, each answered once; text made in its own step."""

from __future__ import annotations

from array import array

import pytest

from scheduler.core.events import (
    EngineStarted,
    RequestFinished,
    RequestQueued,
    RequestScheduled,
    SettingsChanged,
    StepCompleted,
)
from scheduler.core.request import FinishReason, SamplingParams
from scheduler.engine.build import light_runner, settings_for
from scheduler.engine.messages import (
    PROTOCOL,
    Abort,
    Events,
    Hello,
    Hold,
    Patch,
    Ready,
    Reply,
    Shutdown,
    StepDone,
    Submit,
    unpack_event,
)
from scheduler.engine.service import EngineService
from scheduler.errors import ProtocolError, SettingsError
from scheduler.runners.pseudo_tokens import token_at
from scheduler.settings import ModelSettings


class Engine:
    """A service with a null runner, stepped by hand; keeps what it sent."""

    def __init__(self, **settings: object) -> None:
        self.sent: list[object] = []
        self.service = EngineService(self.sent.append)
        model = ModelSettings(runner="null")
        self.service.start(Hello(PROTOCOL, 4, settings, {}), model, light_runner(model))

    def submit(self, id: str = "r", prompt: int = 8, **params: object) -> None:
        params.setdefault("max_tokens", 12)
        ids = array("I", range(prompt)).tobytes()
        self.service.handle(Submit(id, ids, SamplingParams(**params), 0))

    def run(self) -> int:
        steps = 0
        while not self.service.idle:
            steps += self.service.step()
        return steps

    def events(self, kind: type) -> list:
        rows = [row for message in self.sent if isinstance(message, (Events, StepDone)) for row in message.events]
        return [event for event in map(unpack_event, rows) if isinstance(event, kind)]

    def text(self, number: int) -> str:
        steps = [message for message in self.sent if isinstance(message, StepDone)]
        return "".join(t for step in steps for n, t in zip(step.numbers, step.texts, strict=True) if n == number)

    def replies(self) -> list[Reply]:
        return [message for message in self.sent if isinstance(message, Reply)]


def sentence(seed: int, tokens: int) -> str:
    return bytes(token_at(seed, position) for position in range(tokens)).decode()


def test_ready_comes_first_and_then_the_start_of_the_boot():
    engine = Engine()
    assert isinstance(engine.sent[0], Ready)
    [started] = engine.events(EngineStarted)
    assert (started.boot, started.seq, started.blocks_total) == (4, 1, 384)


def test_another_protocol_is_refused():
    model = ModelSettings(runner="null")
    with pytest.raises(ProtocolError):
        EngineService(lambda message: None).start(Hello(PROTOCOL + 1, 1, {}, {}), model, light_runner(model))


def test_seqs_ascend_by_one_over_all_messages():
    engine = Engine(max_num_seqs=2)
    for i in range(5):
        engine.submit(f"r{i}")
    engine.run()
    assert [event.seq for event in engine.events(object)] == list(range(1, len(engine.events(object)) + 1))


def test_the_text_sent_is_the_text_of_the_tokens():
    engine = Engine()
    engine.submit(seed=3, max_tokens=20)
    engine.run()
    [queued], [finished] = engine.events(RequestQueued), engine.events(RequestFinished)
    assert engine.text(queued.seq) == sentence(3, 20)
    assert (finished.reason, finished.output_tokens) == (FinishReason.LENGTH, 20)


def test_a_stop_string_ends_its_request_in_the_step_that_completed_it():
    whole = sentence(3, 40)
    stop = whole[10:14]
    engine = Engine()
    engine.submit(seed=3, max_tokens=40, stop=(stop,))
    engine.run()
    [finished] = engine.events(RequestFinished)
    expected = whole[: whole.index(stop)]
    assert engine.text(finished.number) == expected
    assert (finished.reason, finished.output_tokens) == (FinishReason.STOP, len(expected) + len(stop))


def test_a_half_finished_stop_string_is_given_out_at_the_end():
    whole = sentence(3, 12)
    engine = Engine()
    engine.submit(seed=3, max_tokens=12, stop=(whole[-2:] + "never",))
    engine.run()
    [finished] = engine.events(RequestFinished)
    assert engine.text(finished.number) == whole


def test_stop_strings_wait_for_min_tokens():
    whole = sentence(0, 40)
    stop = whole[2]
    second = whole.index(stop, 8)
    engine = Engine()
    engine.submit(seed=67 * 2, max_tokens=40, stop=(stop,), min_tokens=8)
    engine.run()
    [finished] = engine.events(RequestFinished)
    assert engine.text(finished.number) == whole[:second]
    assert finished.output_tokens == second + 1


def test_a_stop_token_id_ends_without_losing_text():
    token = token_at(5, 6)
    engine = Engine()
    engine.submit(seed=5, max_tokens=40, stop_token_ids=(token,))
    engine.run()
    [finished] = engine.events(RequestFinished)
    assert finished.reason is FinishReason.STOP
    assert finished.output_tokens <= 7


def test_settings_change_between_steps_and_say_so():
    engine = Engine()
    engine.service.handle(Patch(9, {"max_num_seqs": 3}, 1))
    [reply], [changed] = engine.replies(), engine.events(SettingsChanged)
    assert (reply.token, reply.version, reply.settings["max_num_seqs"], reply.error) == (9, 2, 3, None)
    assert (changed.version, changed.changes) == (2, (("max_num_seqs", 3),))


def test_another_policy_drops_the_parameters_of_the_last_and_says_so():
    engine = Engine()
    engine.service.handle(Patch(1, {"policy": "vtc", "policy_params": {"weight.a": 4.0}}))
    engine.service.handle(Patch(2, {"policy": "fcfs"}))
    engine.service.handle(Patch(3, {"policy": "edf"}))
    told = [dict(event.changes) for event in engine.events(SettingsChanged)]
    assert told[1:] == [{"policy": "fcfs", "policy_params": {}}, {"policy": "edf"}]
    assert engine.replies()[-1].settings["policy_params"] == {}


@pytest.mark.parametrize(
    ("changes", "expected", "error", "param"),
    [
        ({"max_num_seqs": 3}, 7, "conflict", "version"),
        ({"max_num_seqs": 0}, None, "invalid", "max_num_seqs"),
        ({"nonsense": 1}, None, "invalid", "nonsense"),
        ({"block_size": 32}, None, "invalid", "block_size"),
        ({"policy": "nonsense"}, None, "invalid", "policy"),
    ],
)
def test_a_bad_change_is_refused_whole_and_names_the_field(changes, expected, error, param):
    engine = Engine()
    before = engine.service.loop.settings
    engine.service.handle(Patch(1, changes, expected))
    [reply] = engine.replies()
    assert (reply.error, reply.param, reply.version) == (error, param, 1)
    assert engine.service.loop.settings == before
    assert engine.events(SettingsChanged) == []


def test_a_held_engine_runs_one_step_at_a_time():
    engine = Engine()
    engine.service.handle(Hold(1, "pause"))
    engine.submit(max_tokens=4)
    assert engine.run() == 0
    engine.service.handle(Hold(2, "step"))
    assert engine.run() == 1
    engine.service.handle(Hold(3, "resume"))
    assert engine.run() == 3
    assert [reply.token for reply in engine.replies()] == [1, 2, 3]


def test_a_held_engine_keeps_time_outs():
    engine = Engine()
    engine.service.handle(Hold(1, "pause"))
    ids = array("I", range(8)).tobytes()
    engine.service.handle(Submit("late", ids, SamplingParams(), 0, timeout_at=1))
    assert engine.service.patience is not None
    assert engine.service.step() is False
    [finished] = engine.events(RequestFinished)
    assert (finished.id, finished.reason) == ("late", FinishReason.TIMEOUT)
    assert engine.service.patience is None


def test_shutdown_ends_what_is_open_and_says_why():
    engine = Engine()
    engine.submit("a")
    engine.service.step()
    engine.submit("b")
    engine.service.handle(Shutdown())
    assert engine.service.stopping
    ended = engine.events(RequestFinished)
    assert [(event.id, event.reason, event.detail) for event in ended] == [
        ("a", FinishReason.ABORT, "shutdown"),
        ("b", FinishReason.ABORT, "shutdown"),
    ]


def test_abort_of_unknown_ids_is_nothing():
    engine = Engine()
    count = len(engine.sent)
    engine.service.handle(Abort(["nobody"], "operator"))
    assert len(engine.sent) == count


def test_each_step_tells_what_the_last_one_cost_to_record():
    engine = Engine()
    engine.submit(max_tokens=5)
    engine.run()
    steps = [message for message in engine.sent if isinstance(message, StepDone)]
    assert len(steps) == len(engine.events(StepCompleted)) == 5
    assert all(step.observe_ns > 0 for step in steps)


def test_settings_beyond_the_runner_are_refused_by_name():
    capacity = light_runner(ModelSettings(runner="simulated")).capacity()
    for name in ("max_model_len", "kv_cache_tokens"):
        with pytest.raises(SettingsError) as caught:
            settings_for(capacity, {name: 1 << 20})
        assert caught.value.param == name


def test_a_step_with_who_was_submitted_again_is_told_before_it_runs():
    engine = Engine()
    told_at_run: list[int] = []
    run = engine.service.loop.runner.run

    def watched(plan):
        told_at_run.append(len(engine.events(RequestScheduled)))
        return run(plan)

    engine.service.loop.runner.run = watched
    engine.submit("fresh", max_tokens=1)
    engine.run()
    ids = array("I", range(8)).tobytes()
    engine.service.handle(Submit("again", ids, SamplingParams(max_tokens=1), 0, resubmitted=True))
    engine.run()
    assert told_at_run == [0, 2], "with its step in fair weather; ahead of it once an engine has died"
    rows = [row for message in engine.sent if isinstance(message, (Events, StepDone)) for row in message.events]
    seqs = [event.seq for event in map(unpack_event, rows)]
    assert seqs == sorted(set(seqs)) and len(engine.events(RequestScheduled)) == 2


@pytest.mark.parametrize("salted", [True, False])
def test_prefixes_are_salted_when_the_settings_say_so(salted: bool) -> None:
    assert Engine(prefix_salt_by_tenant=salted).service.loop.scheduler.pool.salted is salted
