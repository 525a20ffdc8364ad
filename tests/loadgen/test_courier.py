"""The courier: every line reaches a server that takes it; one that takes none is asked no more, and that is said once."""

import pytest

from loadgen.courier import BATCH, Courier
from loadgen.target import Target, TargetError


class Deaf(Target):
    """Answers with the statuses given, in turn; None is no answer at all."""

    def __init__(self, *answers: int | None) -> None:
        super().__init__("http://127.0.0.1:1")
        self.answers = list(answers)
        self.batches: list[list[bytes]] = []

    def deliver(self, run: str, lines: bytes) -> int:
        self.batches.append(lines.splitlines())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise TargetError("nobody there")
        return answer


def courier(target: Target, lines: int = 3) -> Courier:
    one = Courier(target, "r")
    for n in range(lines):
        one.put(b'{"n":%d}\n' % n)
    return one


def test_lines_go_in_batches_in_order() -> None:
    target = Deaf(200)
    one = courier(target, BATCH + 7)
    assert one.deliver() and one.waiting == 0 and one.delivered == BATCH + 7
    assert [len(batch) for batch in target.batches] == [BATCH, 7]
    assert sum(target.batches, []) == [b'{"n":%d}' % n for n in range(BATCH + 7)]


@pytest.mark.parametrize("answer", [None, 500, 502, 503, 429, 408])
def test_a_batch_that_was_not_taken_goes_again(answer: int | None) -> None:
    target = Deaf(answer, 200)
    one = courier(target)
    assert not one.deliver() and one.waiting == 3
    one.put(b'{"n":3}\n')
    assert one.deliver() and one.delivered == 4
    assert target.batches[1][:3] == target.batches[0]


@pytest.mark.parametrize("answer", [404, 405, 501, 400, 413])
def test_a_server_that_takes_none_is_told_no_more_and_that_is_said_once(
    answer: int, capsys: pytest.CaptureFixture[str]
) -> None:
    target = Deaf(answer)
    one = courier(target)
    one.deliver()
    one.put(b"{}\n")
    one.deliver()
    one.finish(0.1)
    assert one.stopped and one.waiting == 0 and len(target.batches) == 1
    assert capsys.readouterr().err.count("requests.jsonl only") == 1


def test_the_end_waits_for_a_server_that_comes_back() -> None:
    one = courier(Deaf(None, 503, 200))
    one.finish(5.0)
    assert one.delivered == 3 and not one.stopped


def test_the_end_gives_up_in_time_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    one = courier(Deaf(None))
    one.finish(0.3)
    assert one.stopped and "3 records could not be delivered" in capsys.readouterr().err
