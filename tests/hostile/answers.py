"""Randomly corrupted answers: bytes of the frame, or fields of the message.

Addresses in them are kept, so that clients only connect to this machine.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Any

from aiokafka_lead._wire import Response, encode_response
from aiokafka_lead._wire.framing import decode_response
from aiokafka_lead._wire.message import Struct
from aiokafka_lead.errors import EncodeError, MalformedMessageError, UnsupportedVersionError
from aiokafka_lead.testing import RequestRecord

HOST = b"127.0.0.1"

INTEGERS = (-(2**63), -(2**31), -(2**15), -2, -1, 0, 1, 2, 99, 2**15 - 1, 2**31 - 1, 2**63 - 1)
TEXTS = ("", "a", "\x1b[2J\r\n\0", "\u202e", "x" * 32_000, "127.0.0.1")
_NUMBERS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff", b"\x00\x0f\xff\xff", b"\x7f\xff")
"""Encoded lengths and counts: the largest of 32 bits, the largest varint, -1, a million, the largest of 16 bits."""

LARGE = 2000
"""Number of repetitions of an element."""


def bent(rng: Random, record: RequestRecord, answer: bytes) -> bytes:
    """Return a corrupted answer to this request."""
    if rng.random() < 0.4:
        made = with_other_fields(rng, record, answer)
        if made is not None:
            return made
    return rng.choice(_BENDINGS)(rng, answer)


# --- bytes -----------------------------------------------------------------------------------------------------------


def _flip(rng: Random, answer: bytes) -> bytes:
    """Change a few bytes behind the correlation id."""
    parts = answer[8:].split(HOST)
    for _ in range(rng.choice((1, 1, 3, 20))):
        at = rng.randrange(len(parts))
        if part := bytearray(parts[at]):
            part[rng.randrange(len(part))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            parts[at] = bytes(part)
    return answer[:8] + HOST.join(parts)


def _large_number(rng: Random, answer: bytes) -> bytes:
    """Write a count or length somewhere that is far too large, or negative."""
    parts = answer[8:].split(HOST)
    at = rng.randrange(len(parts))
    number = rng.choice(
        (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff", b"\x00\x0f\xff\xff", b"\x7f\xff")
    )
    place = rng.randrange(len(parts[at]) + 1)
    parts[at] = parts[at][:place] + number + parts[at][place + len(number) :]
    return _framed(answer[4:8] + HOST.join(parts))


def _cut(rng: Random, answer: bytes) -> bytes:
    """Truncate the message in a complete frame."""
    return _framed(answer[4 : rng.randrange(4, len(answer) + 1)])


def _cut_stream(rng: Random, answer: bytes) -> bytes:
    """Truncate the frame itself."""
    return answer[: rng.randrange(len(answer))]


def _more(rng: Random, answer: bytes) -> bytes:
    """Append surplus bytes."""
    return _framed(answer[4:] + rng.randbytes(rng.choice((1, 4, 1000))))


def _length(rng: Random, answer: bytes) -> bytes:
    """Announce another length of the frame."""
    return (
        struct.pack(">i", rng.choice((-1, 0, 3, len(answer) + 1, 2**20 + 1, 2**27, 2**31 - 1, -(2**31)))) + answer[4:]
    )


def _other_id(rng: Random, answer: bytes) -> bytes:
    """Answer another request."""
    return answer[:4] + struct.pack(">i", rng.choice((-1, 0, 1, 2**31 - 1, rng.randrange(50)))) + answer[8:]


def _twice(rng: Random, answer: bytes) -> bytes:
    return answer * rng.choice((2, 2, 50))


def _unasked(rng: Random, answer: bytes) -> bytes:
    return answer + _framed(struct.pack(">i", rng.randrange(1000)) + rng.randbytes(rng.randrange(64)))


def _noise(rng: Random, answer: bytes) -> bytes:
    return rng.choice((rng.randbytes(40), b"HTTP/1.1 200 OK\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x46", b"\0" * 5000))


_BENDINGS: tuple[Callable[[Random, bytes], bytes], ...] = (
    _flip, _flip, _flip, _large_number, _large_number, _cut, _cut_stream, _more, _length, _other_id, _twice, _unasked,
    _noise,
)  # fmt: skip


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


# --- fields ----------------------------------------------------------------------------------------------------------


def changed(record: RequestRecord, answer: bytes, change: Callable[[Any], None]) -> bytes:
    """Return the answer after a change of its message; raises the errors of decoding and encoding."""
    _, message = decode_response(record.request.RESPONSE, record.version, answer[4:])
    change(message)
    response: Response = message
    return b"".join(bytes(chunk) for chunk in encode_response(response, record.version, record.correlation_id))


def with_other_fields(rng: Random, record: RequestRecord, answer: bytes) -> bytes | None:
    """Change one or two fields to values that no honest broker sends; return None if these cannot be encoded."""

    def change(message: Struct) -> None:
        for _ in range(rng.choice((1, 1, 2))):
            owner, name = rng.choice(_fields(message))
            if name not in ("host", "port"):
                setattr(owner, name, _another(rng, getattr(owner, name)))

    try:
        return changed(record, answer, change)
    except (EncodeError, MalformedMessageError, UnsupportedVersionError):
        return None


def _fields(message: Struct) -> list[tuple[Struct, str]]:
    """Yield all fields of a message and of the structs within it."""
    found = [(message, name) for name in message.__slots__]
    for name in message.__slots__:
        value = getattr(message, name)
        for nested in value if isinstance(value, list) else [value]:
            if isinstance(nested, Struct):
                found += _fields(nested)
    return found


def _another(rng: Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice(INTEGERS)
    if isinstance(value, str):
        return rng.choice(TEXTS)
    if isinstance(value, (bytes, memoryview)):
        return rng.choice((b"", bytes(value) * 2, rng.randbytes(100), bytes(value)[: len(value) // 2]))
    if isinstance(value, list):
        return rng.choice(([], value[:1], value * 2, value[::-1], value[:1] * LARGE))
    return None
