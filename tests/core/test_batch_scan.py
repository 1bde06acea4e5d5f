"""Finding the end of a fetch answer without decoding it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.consumer.fetch_answer import scan_batches
from aiokafka_lead._records import read_batches
from aiokafka_lead.errors import CorruptRecordError

from .fetch_world import batch, batches


def test_the_end_is_behind_the_last_whole_batch() -> None:
    records = batches(batch(5, [b"a", b"b"], epoch=2), batch(7, [b"c"], epoch=4))
    assert scan_batches(records) == (8, 4)
    assert scan_batches(records[:-1]) == (7, 2)
    assert scan_batches(records[:30]) == (-1, -1)
    assert scan_batches(memoryview(b"")) == (-1, -1)


def test_an_emptied_batch_keeps_its_last_offset() -> None:
    assert scan_batches(batches(batch(5, [], last_offset_delta=9))) == (15, 3)


def test_an_offset_that_no_log_can_have_is_no_end() -> None:
    assert scan_batches(batches(batch(2**63 - 2))) == (2**63 - 1, 3)
    assert scan_batches(batches(batch(2**63 - 1))) == (-1, -1)


def test_old_formats_end_at_their_own_offset() -> None:
    # offset 41, size 14 + 4 + 4, crc, magic 1, attributes, timestamp, key -1, value -1
    message = bytes.fromhex("0000000000000029000000160000000001000000000000000000ffffffffffffffff")
    assert scan_batches(memoryview(message)) == (42, -1)


@given(st.binary(max_size=300))
def test_garbage_never_raises(garbage: bytes) -> None:
    scan_batches(memoryview(garbage))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 2**40), st.data())
def test_it_agrees_with_reading(sizes: list[int], first: int, choice: st.DataObject) -> None:
    parts, offset = [], first
    for size in sizes:
        parts.append(batch(offset, [b"v"] * size))
        offset += size
    whole = b"".join(parts)
    cut = choice.draw(st.integers(0, len(whole)))
    records = memoryview(whole)[:cut]
    try:
        read = list(read_batches(records))
    except CorruptRecordError:
        return
    assert scan_batches(records).next_offset == (read[-1].next_offset if read else -1)
