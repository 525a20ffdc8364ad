"""Orders to a generator: followed when they are ones, named when they are not; what became of them is told."""

import pytest

from loadgen import library
from loadgen.orders import Change, Changes, follow


def told(line: bytes) -> list[object]:
    heard = list[object]()
    follow(line, heard.append, lambda: heard.append("stop"))
    return heard


def test_a_rate_and_a_stop_are_followed() -> None:
    assert (
        told(b'{"rate_factor": 2}\n') == [2.0]
        and told(b'{"rate_factor": 0.1}') == [0.1]
        and told(b'{"stop": "now"}') == ["stop"]
    )


@pytest.mark.parametrize(
    "line",
    [
        b"hm",
        b"{}",
        b'{"rate_factor": true}',
        b'{"rate_factor": 11}',
        b'{"rate_factor": "2"}',
        b'{"stop": "soon"}',
        b"[1]",
        b"\n",
    ],
)
def test_what_is_no_order_changes_nothing_and_is_named(line: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(line) == []
    assert "no order" in capsys.readouterr().err


def test_a_factor_is_in_force_from_its_instant_on() -> None:
    changes, closed = Changes(), library.load("steady", {"users": 8})
    changes.add(Change(3.5, 2.0))
    changes.add(Change(6.0, 0.5))
    assert [changes.as_json(t, closed)["rate_factor"] for t in (3.4, 3.5, 7)] == [1.0, 2.0, 0.5]
    assert [changes.as_json(t, closed)["users"] for t in (3.4, 3.5, 7)] == [8, 16, 4]
    assert changes.as_json(0, library.load("poisson"))["users"] is None
    assert changes.as_json(9, closed)["rate_changes"] == [{"at_s": 3.5, "factor": 2.0}, {"at_s": 6.0, "factor": 0.5}]
