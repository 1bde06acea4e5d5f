"""Frames from a byte stream."""

from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.connection.foreign import HANDSHAKE_MAX_BYTES, recognise
from aiokafka_lead._core.connection.framing import FIRST_SCRATCH_BYTES, SCRATCH_BYTES, FrameReader
from aiokafka_lead.errors import FrameTooLargeError, MalformedMessageError, NotKafkaError

LIMIT = 100 * 1024 * 1024


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def read_in_pieces(reader: FrameReader, stream: bytes, sizes: list[int]) -> list[bytes]:
    """Fill the reader's own buffers, at most this many bytes at a time, cycling through the sizes."""
    frames: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        room = reader.get_buffer()
        assert len(room) > 0
        piece = stream[position : position + min(len(room), sizes[turn % len(sizes)])]
        room[: len(piece)] = piece
        frames += [bytes(frame) for frame in reader.received(len(piece))]
        position += len(piece)
        turn += 1
    return frames


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=64),
            st.integers(FIRST_SCRATCH_BYTES - 16, FIRST_SCRATCH_BYTES + 16).map(lambda size: b"\x05" * size),
            st.integers(SCRATCH_BYTES - 16, SCRATCH_BYTES + 16).map(lambda size: b"\x07" * size),
            st.integers(0, 200_000).map(lambda size: b"\x09" * size),
        ),
        max_size=8,
    ),
    st.lists(st.integers(1, 70_000), min_size=1, max_size=5),
)
def test_frames_survive_any_split(bodies: list[bytes], sizes: list[int]) -> None:
    reader = FrameReader(LIMIT)
    assert read_in_pieces(reader, framed(*bodies), sizes) == bodies
    assert not reader.incomplete
    assert reader.error is None


def test_a_connection_that_fills_the_small_buffer_gets_a_large_one() -> None:
    reader = FrameReader(LIMIT)
    reader.feed(framed(b"small"))
    assert len(reader.get_buffer()) == FIRST_SCRATCH_BYTES
    bodies = [b"x" * 1000] * 6
    assert [bytes(frame) for frame in reader.feed(framed(*bodies))] == bodies
    assert len(reader.get_buffer()) == SCRATCH_BYTES


def test_byte_by_byte_and_all_at_once() -> None:
    bodies = [b"", b"a", b"bc" * 40, b"x" * 5000]
    assert read_in_pieces(FrameReader(LIMIT), framed(*bodies), [1]) == bodies
    assert [bytes(frame) for frame in FrameReader(LIMIT).feed(framed(*bodies))] == bodies


def test_earlier_frames_stay_as_they_were() -> None:
    reader = FrameReader(LIMIT)
    first = reader.feed(framed(b"first", b"1" * 70_000))
    reader.feed(framed(b"other", b"2" * 70_000))
    assert [bytes(frame) for frame in first] == [b"first", b"1" * 70_000]


@given(st.lists(st.tuples(st.integers(SCRATCH_BYTES, 150_000), st.integers(0, 3), st.booleans()), max_size=30))
def test_what_is_held_stays_as_it_was(frames: list[tuple[int, int, bool]]) -> None:
    """Whole frames and slices, each held for the time of a few more frames."""
    reader = FrameReader(LIMIT)
    held: list[tuple[memoryview, bytes]] = []
    for number, (size, keep, sliced) in enumerate(frames):
        body = bytes([number]) * size
        [frame] = reader.feed(framed(body))
        assert frame == body
        assert isinstance(frame, memoryview)
        held = held[-keep:] if keep else []
        held.append((frame[size // 2 :], body[size // 2 :]) if sliced else (frame, body))
        del frame
        assert all(part == content for part, content in held)


FAULTS = """
import resource
from aiokafka_lead._core.connection.framing import FrameReader

SIZE = 1_000_000
reader, stream = FrameReader(SIZE), SIZE.to_bytes(4, "big") + bytes(SIZE)
faults = []
for _ in range(25):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    [frame] = reader.feed(stream)
    content = bytes(frame)
    del frame, content
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(max(faults[5:]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators keep memory by rules of their own")
def test_the_memory_of_frames_that_are_gone_is_not_mapped_again() -> None:
    # In a separate process, in which no other code has freed a large block.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    said = subprocess.run([sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, check=True)
    assert int(said.stdout) < 50  # of the 250 pages of a frame


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
def test_no_memory_of_large_frames_is_kept() -> None:
    reader = FrameReader(LIMIT)
    streams = [framed(b"x" * size) for size in (2_000_000, 2_001_000, 1_999_000, 5, 2_100_000, 24_000_000)]
    before, _ = tracemalloc.get_traced_memory()
    for stream in streams:
        assert len(reader.feed(stream)) == 1
        assert tracemalloc.get_traced_memory()[0] - before < 100_000


def test_a_large_frame_is_read_in_place() -> None:
    reader = FrameReader(LIMIT)
    assert reader.feed(framed(b"z" * 1_000_000)[:100]) == []
    assert reader.incomplete
    assert reader.missing_bytes == 1_000_000 - 96
    assert len(reader.get_buffer()) == reader.missing_bytes


def test_the_length_is_checked_before_memory_is_taken() -> None:
    reader = FrameReader(LIMIT)
    assert reader.feed(struct.pack(">i", LIMIT + 1)) == []
    assert isinstance(reader.error, FrameTooLargeError)
    assert str(LIMIT) in str(reader.error)
    assert "receive_max_bytes" in str(reader.error)
    assert reader.missing_bytes == 0


def test_a_frame_of_exactly_the_limit_is_fine() -> None:
    reader = FrameReader(1024)
    assert reader.feed(framed(b"y" * 1024)) == [b"y" * 1024]
    reader.max_bytes = 1023
    assert reader.feed(framed(b"y" * 1024)) == []
    assert reader.error is not None


def test_frames_before_garbage_are_delivered() -> None:
    reader = FrameReader(LIMIT)
    assert reader.feed(framed(b"good", b"also") + b"\xff\xff\xff\xfb rest") == [b"good", b"also"]
    assert type(reader.error) is MalformedMessageError
    assert "-5" in str(reader.error)


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        (bytes.fromhex("15030300020228"), ("TLS alert", "security_protocol")),
        (bytes.fromhex("1603030040") + b"\x02" * 40, ("TLS handshake", "SASL_SSL")),
        (b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n", ("HTTP/1.1 400 Bad Request", "bootstrap_servers")),
        (b"SSH-2.0-OpenSSH_9.6\r\n", ("SSH",)),
        (b"220 mail.example ESMTP\r\n", ("mail",)),
        (b"-ERR unknown command\r\n", ("Redis",)),
        (b"<!doctype html>", ("HTML",)),
        (b"hello, who are you?\n", ("text", "hello")),
    ],
)
@pytest.mark.parametrize("limit", [HANDSHAKE_MAX_BYTES, LIMIT])
def test_foreign_servers_are_named(stream: bytes, says: tuple[str, ...], limit: int) -> None:
    reader = FrameReader(limit)
    assert reader.feed(stream) == []
    assert type(reader.error) is NotKafkaError
    for part in says:
        assert part in str(reader.error)


def test_an_absurd_first_answer_is_not_kafka() -> None:
    reader = FrameReader(HANDSHAKE_MAX_BYTES)
    reader.feed(bytes.fromhex("4a0000000a382e30"))  # MySQL's greeting
    assert type(reader.error) is NotKafkaError
    assert "4a 00 00 00" in str(reader.error)


@given(st.binary(max_size=200))
def test_what_is_shown_of_a_stranger_is_printable_and_short(tail: bytes) -> None:
    text = recognise(b"HTTP/1.1 " + tail)
    assert text is not None
    assert text.isprintable()
    assert len(text) < 200


@given(st.binary(max_size=4000), st.integers(1, 700))
def test_any_bytes_end_in_frames_or_one_typed_error(stream: bytes, size: int) -> None:
    reader = FrameReader(1 << 20)
    for start in range(0, len(stream), size):
        reader.feed(stream[start : start + size])
    assert reader.error is None or isinstance(reader.error, (NotKafkaError, MalformedMessageError))
