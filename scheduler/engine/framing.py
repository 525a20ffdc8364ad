"""Framing: messages to bytes and back. Knows no socket, and no message but that it is one.

A frame is a 4-byte big-endian length and a message as msgpack, schema-checked on arrival by msgspec.
Invariant: decode(encode(m)) == m for every message, wherever the bytes are cut; nothing here can execute what it reads.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from scheduler.engine.messages import Message, ToEngine, ToWeb
from scheduler.errors import ProtocolError

MAX_FRAME = 16 << 20
_HEADER = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()
_to_engine = msgspec.msgpack.Decoder(ToEngine)
_to_web = msgspec.msgpack.Decoder(ToWeb)


def frame(message: Message) -> bytes:
    """The message with its length before it; raises ProtocolError above MAX_FRAME."""
    body = _encoder.encode(message)
    if len(body) > MAX_FRAME:
        raise ProtocolError(f"message of {len(body)} bytes is over the frame limit of {MAX_FRAME}")
    return _HEADER.pack(len(body)) + body


class Unframer:
    """Bytes in, messages out: keeps what is incomplete. `to_engine` picks the direction that is read."""

    def __init__(self, *, to_engine: bool) -> None:
        self._decoder: msgspec.msgpack.Decoder[Any] = _to_engine if to_engine else _to_web
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """The messages that `data` completes; raises ProtocolError on a frame that breaks the schema or the limit."""
        buffer, messages, start = self._buffer, [], 0
        buffer += data
        while len(buffer) - start >= _HEADER.size:
            (length,) = _HEADER.unpack_from(buffer, start)
            if length > MAX_FRAME:
                raise ProtocolError(f"frame of {length} bytes is over the limit of {MAX_FRAME}")
            end = start + _HEADER.size + length
            if len(buffer) < end:
                break
            messages.append(self._decode(bytes(buffer[start + _HEADER.size : end])))
            start = end
        del buffer[:start]
        return messages

    def _decode(self, body: bytes) -> Any:
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:  # the latter for a tag that is no UTF-8
            raise ProtocolError(f"cannot read a message: {error}") from error
