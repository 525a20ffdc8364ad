"""LivePacket: the bytes that Socket.IO's own packet would make, made once for all who get the same payload."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from socketio.packet import EVENT, Packet

from app import live_packet
from app.live_packet import LivePacket, SharedJson

FRAME: dict[str, Any] = {"boot": 1, "steps": {"seq": [1, 2]}, "text": "ünïcode </script>", "none": None, "half": 0.5}


def test_it_decodes_to_what_the_plain_packet_says() -> None:
    ours = LivePacket(EVENT, data=["frame", FRAME], namespace="/live", id=7).encode()
    plain = Packet(EVENT, data=["frame", FRAME], namespace="/live", id=7).encode()
    head = "2/live,7"
    assert ours.startswith(head) and plain.startswith(head)
    assert json.loads(ours.removeprefix(head)) == json.loads(plain.removeprefix(head)) == ["frame", FRAME]


def test_one_payload_for_many_is_encoded_once_and_another_one_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[object] = []
    plain = orjson.dumps

    def dumps(value: object, **options: Any) -> bytes:
        if isinstance(value, dict):
            encoded.append(value)
        return plain(value, **options)

    monkeypatch.setattr(live_packet.orjson, "dumps", dumps)
    codec = SharedJson()
    texts = {codec.dumps(["frame", FRAME]) for _ in range(20)}
    assert len(texts) == 1 and len(encoded) == 1
    assert codec.dumps(["frame", dict(FRAME)]) in texts and len(encoded) == 2


@pytest.mark.parametrize("text", ["[" * 20_000, "NaN", "{", "9" * 5000 + "x"])
def test_what_is_no_json_is_a_value_error_also_when_it_nests_deeply(text: str) -> None:
    with pytest.raises(ValueError):
        SharedJson().loads(text)
