"""Message formats 0 and 1, as aiokafka and kafka-python write them."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from aiokafka_lead.errors import BatchTooLargeError, CorruptRecordError
from aiokafka_lead.types import TimestampType

from .material import NOW, message
from .peers import LEGACY_BUILDERS

CONTENTS = [(b"key", b"value"), (None, b""), (b"", None), (b"k" * 100, b"v" * 70_000)]
NAMES = ("none", "gzip", "snappy", "lz4")


def theirs(peer: str, magic: int, compression: str) -> bytes:
    builder = LEGACY_BUILDERS[peer](magic, NAMES.index(compression), 1 << 20)
    for offset, (key, value) in enumerate(CONTENTS):
        builder.append(offset, timestamp=NOW + offset, key=key, value=value)
    return bytes(builder.build())


def wrapped(codec: Any, magic: int, offset: int, inner: list[bytes], compression: str = "gzip", **fields: Any) -> bytes:
    compressed = codec.compress(compression, b"".join(inner))
    attributes = NAMES.index(compression) | fields.pop("attributes", 0)
    return message(magic, offset, None, compressed, attributes=attributes, **fields)


def records(codec: Any, data: bytes) -> list[Any]:
    return [record for view in codec.read_batches(data) for record in view.records("t", 3)]


# aiokafka refuses lz4 with format 0; kafka-python needs additional libraries for lz4 and snappy.
COMBINATIONS = [
    (peer, magic, name)
    for peer in LEGACY_BUILDERS
    for magic in (0, 1)
    for name in NAMES
    if (peer, name) != ("kafka-python", "snappy") and (magic, name) != (0, "lz4")
]


@pytest.mark.parametrize(("peer", "magic", "compression"), COMBINATIONS)
def test_we_read_what_they_write(codec: Any, peer: str, magic: int, compression: str) -> None:
    data = theirs(peer, magic, compression)
    found = records(codec, data)
    assert [(r.key, r.value) for r in found] == CONTENTS
    assert all(r.topic == "t" and r.partition == 3 and r.headers == () and r.leader_epoch is None for r in found)
    if magic == 0:
        assert {(r.timestamp_ms, r.timestamp_type) for r in found} == {(-1, TimestampType.NO_TIMESTAMP)}
    else:
        assert [r.timestamp_ms for r in found] == [NOW + i for i in range(len(CONTENTS))]
        assert {r.timestamp_type for r in found} == {TimestampType.CREATE_TIME}
    views = list(codec.read_batches(data))
    assert sum(view.size_bytes for view in views) == len(data)
    assert {(view.magic, view.compression) for view in views} == {(magic, compression)}
    assert [len(list(codec.read_batches(data[:end]))) for end in (0, 11, 16, 17, 25)] == [0] * 5


def test_a_set_of_format_1_counts_back_from_its_wrapper(codec: Any) -> None:
    inner = [message(1, offset, b"k", b"%d" % offset) for offset in (0, 2, 3)]  # compaction removed one
    [view] = codec.read_batches(wrapped(codec, 1, 103, inner))
    assert (view.base_offset, view.last_offset, view.next_offset, view.record_count) == (100, 103, 104, 3)
    assert [(r.offset, r.value) for r in view.records("t", 0)] == [(100, b"0"), (102, b"2"), (103, b"3")]
    assert [r.offset for r in view.records("t", 0, 102)] == [102, 103]
    assert view.columns(103).values == [b"3"]


def test_a_set_of_format_0_has_absolute_offsets(codec: Any) -> None:
    inner = [message(0, offset, b"k", None) for offset in (100, 102)]
    assert [r.offset for r in records(codec, wrapped(codec, 0, 102, inner))] == [100, 102]


def test_a_wrapper_at_offset_zero_leaves_the_offsets_as_they_are(codec: Any) -> None:
    inner = [message(1, offset, b"k", None) for offset in (0, 1, 2)]
    assert [r.offset for r in records(codec, wrapped(codec, 1, 0, inner))] == [0, 1, 2]


def test_log_append_time_is_the_wrappers(codec: Any) -> None:
    inner = [message(1, offset, b"k", None, NOW - offset) for offset in (0, 1)]
    found = records(codec, wrapped(codec, 1, 1, inner, timestamp=NOW + 5, attributes=0x08))
    assert [r.timestamp_ms for r in found] == [NOW + 5] * 2
    assert {r.timestamp_type for r in found} == {TimestampType.LOG_APPEND_TIME}


def test_the_first_lz4_framing(codec: Any) -> None:
    """Kafka's first lz4 writer computed the header checksum wrongly (KIP-57); readers of old formats ignore it."""
    inner = b"".join(message(0, offset, b"k", b"v" * 100) for offset in (0, 1))
    frame = bytearray(codec.compress("lz4", inner))
    frame[6] ^= 0xFF
    assert len(records(codec, message(0, 1, None, bytes(frame), attributes=3))) == 2


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda codec: message(1, 5, b"k", b"v")[:-1] + b"w", "checksum"),
        (lambda codec: wrapped(codec, 1, 1, [message(1, 0, b"k", b"v")[:-1] + b"w"]), "checksum"),
        (lambda codec: wrapped(codec, 1, 1, []), "empty"),
        (
            lambda codec: wrapped(codec, 1, 1, [wrapped(codec, 1, 1, [message(1, 0, None, None)])]),
            "set contains another",
        ),
        (lambda codec: wrapped(codec, 1, 1, [message(1, 5, b"k", b"v")]), "invalid offsets"),
        (lambda codec: wrapped(codec, 0, 1, [message(0, -5, b"k", b"v")]), "invalid offsets"),
        (lambda codec: wrapped(codec, 0, 1, [message(0, i, b"k", b"v") for i in (3, 2)]), "impossible|do not increase"),
        (lambda codec: wrapped(codec, 0, 1, [message(0, i, b"k", b"v") for i in (3, 2, 4)]), "do not increase"),
        (lambda codec: wrapped(codec, 0, 1, [message(0, i, b"k", b"v") for i in (0, 2**40)]), "invalid offsets"),
        (lambda codec: wrapped(codec, 1, 1, [message(1, 0, b"k", b"v")[:-1]]), "field of"),
        (lambda codec: wrapped(codec, 1, 1, [message(1, 0, b"k", b"v"), bytes(5)]), "field of"),
        (lambda codec: wrapped(codec, 1, 1, [message(2, 0, b"k", b"v")]), "unknown format 2"),
        (lambda codec: message(1, 1, None, None, attributes=1), "compressed set, but is not"),
        (lambda codec: message(1, 1, None, b"", attributes=4), "compressed set, but is not"),
        (lambda codec: message(1, 1, None, b"", attributes=3), "no lz4 frame"),
        (lambda codec: message(1, 1, None, b"garbage", attributes=1), "gzip"),
        (lambda codec: message(0, -1, None, None), "invalid offsets"),
        (lambda codec: message(0, 2**63 - 1, None, None), "invalid offsets"),
    ],
)
def test_bent_messages(codec: Any, build: Any, text: str) -> None:
    with pytest.raises(CorruptRecordError, match=text):
        records(codec, build(codec))
    if text == "checksum":
        assert len([r for view in codec.read_batches(build(codec), check_crcs=False) for r in view.records("", 0)]) == 1


def test_a_field_longer_than_its_message(codec: Any) -> None:
    for size in (-2, 2, 2**31 - 1, -(2**31)):
        data = bytearray(message(0, 0, b"k", b""))
        data[18:22] = struct.pack(">i", size)
        with pytest.raises(CorruptRecordError, match=r"a field of|longer than its fields"):
            list(codec.read_batches(bytes(data), check_crcs=False))


def test_decompression_is_bounded(codec: Any) -> None:
    data = wrapped(codec, 1, 0, [message(1, 0, None, bytes(200_000))])
    with pytest.raises(BatchTooLargeError, match="larger than 100000 bytes") as caught:
        list(codec.read_batches(data, max_decompressed_bytes=100_000))
    assert caught.value.next_offset == 1


def test_messages_are_bounded_by_their_number_too(codec: Any) -> None:
    data = wrapped(codec, 1, 3999, [message(1, offset, None, None) for offset in range(4000)])
    with pytest.raises(BatchTooLargeError, match="records, is larger than 150000 bytes in memory") as caught:
        list(codec.read_batches(data, max_decompressed_bytes=150_000))
    assert caught.value.next_offset == 4000
    assert len(records(codec, data)) == 4000


def test_formats_may_follow_one_another(codec: Any) -> None:
    data = message(0, 0, b"a", None) + message(1, 1, b"b", None)
    data += codec.build_batch([codec.StoredRecord(NOW, b"c")], base_offset=2)
    assert [(r.offset, r.key) for r in records(codec, data)] == [(0, b"a"), (1, b"b"), (2, b"c")]
