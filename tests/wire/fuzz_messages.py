"""Fuzz the decoders of messages and frames: ``python -m tests.wire.fuzz_messages [--seconds 60] [--seed N]``.

Random messages of every class and version are encoded and damaged. The installed decoders and the decoders from the
sources must return the same message, or the same error. The seed of a difference replays it.
"""

from __future__ import annotations

import argparse
import struct
import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from aiokafka_lead import _wire as installed
from aiokafka_lead._core.connection import framing
from aiokafka_lead._core.producer import produce
from aiokafka_lead._wire.message import FIXED_FORMATS, Field, Message, Struct
from aiokafka_lead._wire.messages.produce import ProduceResponse
from aiokafka_lead.errors import KafkaError
from tests.records.variants import pure_module

from .apis import all_versions

LARGEST = 3
"""Number of elements of an array."""

ALL = all_versions()
VARIANTS = [installed, pure_module("_wire")]
READERS = [framing.FrameReader, pure_module("_core.connection.framing").FrameReader]
READ_PLAIN = [produce.read_plain, pure_module("_core.producer.produce").read_plain]

_INTEGERS = {"b": 8, "h": 16, "H": 16, "i": 32, "I": 32, "q": 64}
_NUMBERS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80", b"\x7f", b"\0")
"""Lengths and counts as they stand in frames, too large or invalid."""


# --- random messages -------------------------------------------------------------------------------------------------


def filled(rng: Random, kind: type[Struct], version: int) -> Any:
    """Return a struct with random values in the fields that this version has."""
    made = kind()
    module = sys.modules[kind.__module__]
    for line in kind.FIELDS:
        field = Field.parse(line)
        if version not in field.versions:
            continue
        if version in field.nullable and rng.random() < 0.2:
            setattr(made, field.name, None)
        elif field.is_array:
            elements = [_value(rng, field, module, version) for _ in range(rng.randrange(LARGEST))]
            setattr(made, field.name, elements)
        else:
            setattr(made, field.name, _value(rng, field, module, version))
    return made


def _value(rng: Random, field: Field, module: Any, version: int) -> Any:
    kind = field.element
    if field.is_struct:
        return filled(rng, getattr(module, kind), version)
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "uuid":
        return UUID(bytes=rng.randbytes(16))
    if kind == "float64":
        return rng.random()
    if kind == "string":
        return "x" * rng.choice((0, 1, 9, 130)) + rng.choice(("", "é", "\0"))
    if kind in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 1, 61, 130)))
    letter = FIXED_FORMATS[kind]
    bits = rng.randrange(_INTEGERS[letter])
    number = rng.getrandbits(bits) if bits else 0
    return number if letter.isupper() or rng.random() < 0.7 else -number


def damaged(rng: Random, body: bytes) -> bytes:
    """Return other bytes: some flipped, a number put in, an end cut off or added, or the same."""
    chance, at = rng.random(), rng.randrange(len(body) + 1)
    if chance < 0.1:
        return body
    if chance < 0.3:
        return body[:at]
    if chance < 0.5:
        number = rng.choice(_NUMBERS)
        return body[:at] + number + body[at + rng.choice((0, len(number))) :]
    if chance < 0.6:
        return body + rng.randbytes(rng.randrange(9))
    changed = bytearray(body)
    for _ in range(rng.choice((1, 1, 4)) if body else 0):
        changed[rng.randrange(len(body))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(changed)


# --- what the variants say -------------------------------------------------------------------------------------------


def outcome(call: Callable[[], Any]) -> str:
    """Return the result as text, or the error that a decoder may raise."""
    try:
        found = call()
    except KafkaError as error:
        return f"{type(error).__name__}: {error}"
    return _text(found)


def _text(value: Any) -> str:
    if hasattr(value, "FIELDS"):
        return f"{type(value).__name__}({', '.join(f'{n}={_text(getattr(value, n))}' for n in value.__slots__)})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    return repr(bytes(value)) if isinstance(value, memoryview | bytearray) else repr(value)


def _body(rng: Random) -> tuple[list[str], str]:
    """Return what both variants make of a damaged message."""
    message, version = rng.choice(ALL)
    body = damaged(rng, installed.encode(filled(rng, message, version), version))
    kinds = [message, _counterpart(message)]
    found = [
        outcome(lambda v=variant, k=kind: v.decode(k, version, body))  # type: ignore[misc]
        for variant, kind in zip(VARIANTS, kinds, strict=True)
    ]
    return found, f"{message.__name__} version {version}, {body!r}"


def _counterpart(message: type[Message]) -> Any:
    name = message.__module__.removeprefix("aiokafka_lead.")
    return getattr(pure_module(name), message.__name__)


def _frame(rng: Random) -> tuple[list[str], str]:
    """Return what both variants make of a damaged response with its header."""
    message, version = rng.choice([(m, v) for m, v in ALL if issubclass(m, installed.Response)])
    chunks = installed.encode_response(filled(rng, message, version), version, 7)
    frame = damaged(rng, b"".join(map(bytes, chunks))[4:])
    kinds = [message, _counterpart(message)]
    found = [
        outcome(lambda v=variant, k=kind: v.decode_response(k, version, frame))  # type: ignore[misc]
        for variant, kind in zip(VARIANTS, kinds, strict=True)
    ]
    return found, f"frame of {message.__name__} version {version}, {frame!r}"


def _produced(rng: Random) -> tuple[list[str], str]:
    """Return what both variants make of a damaged answer to Produce, in the place of the schema's decoder."""
    version = rng.choice([9, 10, 11, 12, 13])
    answer = filled(rng, ProduceResponse, version)
    if rng.random() < 0.8:
        for topic in answer.responses or ():
            for row in topic.partition_responses:
                row.error_code, row.record_errors, row.error_message = 0, [], None
        answer.node_endpoints = []
    body = damaged(rng, installed.encode(answer, version))
    prefix = rng.randbytes(rng.randrange(3))
    view = memoryview(prefix + body)
    found = []
    for read in READ_PLAIN:
        plain = read(view, len(prefix), len(view), version >= produce.FIRST_WITH_IDS)
        found.append(repr(None if plain is None else (plain.acknowledged, plain.throttle_time_ms)))
    return found, f"Produce version {version}, {body!r}"


def _stream(rng: Random) -> tuple[list[str], str]:
    """Return what both variants make of frames that arrive in pieces."""
    stream = b"".join(
        struct.pack(">i", rng.choice((size, size, size, size, 2**31 - 1, -1))) + rng.randbytes(size)
        for size in rng.choices((0, 1, 4, 300, 33_000, 70_000), (2, 4, 8, 8, 1, 1), k=rng.randrange(1, 8))
    )
    pieces = []
    while stream:
        cut = rng.choice((1, 4, 100, 32 * 1024, 100_000))
        pieces.append(stream[:cut])
        stream = stream[cut:]
    found = []
    for make in READERS:
        reader: Any = make(100_000)
        frames = [bytes(frame) for piece in pieces for frame in reader.feed(piece)]
        found.append(repr((frames, str(reader.error), reader.incomplete, reader.missing_bytes)))
    return found, f"stream of {len(pieces)} pieces"


KINDS = (_body, _body, _frame, _produced, _stream)


def main() -> int:
    """Play one seed after another; return 1 at the first difference."""
    parser = argparse.ArgumentParser("tests.wire.fuzz_messages", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    seed, until = options.first if options.seed is None else options.seed, time.monotonic() + options.seconds
    while time.monotonic() < until:
        rng = Random(seed)
        found, what = rng.choice(KINDS)(rng)
        if any(one != found[0] for one in found):
            sys.stderr.write(f"seed {seed}: the variants differ about {what}:\n" + "\n".join(found) + "\n")
            return 1
        seed += 1
        if options.seed is not None:
            break
    sys.stdout.write(f"messages and frames: seeds {options.first} to {seed - 1} agree\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
