"""Records of an answer that are handed out, and the fate of the other acquired offsets."""

from __future__ import annotations

from uuid import UUID

from aiokafka_lead._core.leadership.patience import RetryPolicy
from aiokafka_lead._core.share.acquired import GAP, OPEN, Acquired, AcquiredRange
from aiokafka_lead._core.share.buffer import AcquiredData, Allowance, ShareBuffer
from aiokafka_lead._core.share.counters import ShareCounters
from aiokafka_lead._core.share.exchange import Exchange
from aiokafka_lead._records import ControlType, StoredRecord, build_batch, control_batch
from aiokafka_lead.errors import InvalidRecordStateError
from aiokafka_lead.types import AcknowledgeType, TopicPartition

TP = TopicPartition("jobs", 0)
RELEASE = int(AcknowledgeType.RELEASE)


def batch(*offsets: int, compression: str = "none", last: int | None = None) -> bytes:
    records = [StoredRecord(1, None, b"%d" % offset, offset=offset) for offset in offsets]
    delta = None if last is None else last - offsets[0]
    return build_batch(records, base_offset=offsets[0], compression=compression, last_offset_delta=delta)


def data(content: bytes, *ranges: tuple[int, int]) -> AcquiredData:
    exchange = Exchange(1, RetryPolicy(1, 1), lambda tp, error: None, ShareCounters())
    found = [AcquiredRange(first, last, at + 1) for at, (first, last) in enumerate(ranges)]
    acquired = Acquired(TP, UUID(int=1), found, expires_at=30.0, gone_at=30.0)
    exchange.add(acquired)
    return AcquiredData(exchange, acquired, memoryview(content), check_crcs=True)


def buffer(*answers: AcquiredData, most: int = 500) -> ShareBuffer:
    failed: list[AcquiredData] = []
    made = ShareBuffer(Allowance(most), failed.append, ShareCounters())
    for answer in answers:
        made.add(answer, 0.0)
    return made


def values(found: ShareBuffer, now: float = 0.0) -> list[bytes | None]:
    taken = []
    while records := found.take(100, now):
        taken += [record.value for record in records]
    return taken


def test_only_what_was_acquired_is_handed_out() -> None:
    answer = data(batch(0, 1, 2, 3, 4) + batch(5, 6, 7), (1, 2), (4, 6))
    found = buffer(answer)
    records = found.take(100, 0.0) + found.take(100, 0.0)
    assert [(record.offset, record.delivery_count) for record in records] == [(1, 1), (2, 1), (4, 2), (5, 2), (6, 2)]
    assert set(answer.acquired.marks) == {OPEN}


def test_offsets_that_compaction_left_empty_are_acknowledged_as_gaps() -> None:
    answer = data(batch(0, 3, last=5) + batch(6), (0, 6))
    assert values(buffer(answer)) == [b"0", b"3", b"6"]
    assert list(answer.acquired.marks) == [OPEN, GAP, GAP, OPEN, GAP, GAP, OPEN]


def test_control_records_are_gaps() -> None:
    marker = control_batch(ControlType.COMMIT, base_offset=2, timestamp_ms=1, producer_id=1, producer_epoch=0)
    answer = data(batch(0, 1) + marker + batch(3), (0, 3))
    assert values(buffer(answer)) == [b"0", b"1", b"3"]
    assert list(answer.acquired.marks) == [OPEN, OPEN, GAP, OPEN]


def test_what_the_answer_has_no_bytes_of_is_released_and_no_gap() -> None:
    whole = batch(0, 1) + batch(2, 3)
    answer = data(whole[:-1], (0, 3))
    assert values(buffer(answer)) == [b"0", b"1"]
    assert list(answer.acquired.marks) == [OPEN, OPEN, RELEASE, RELEASE]


def test_a_damaged_batch_is_released_and_reported() -> None:
    second = bytearray(batch(2, 3))
    second[-1] ^= 1
    answer = data(batch(0, 1) + bytes(second), (0, 3))
    assert values(buffer(answer)) == [b"0", b"1"]
    assert list(answer.acquired.marks) == [OPEN, OPEN, RELEASE, RELEASE]
    assert "checksum" in str(answer.failure)


def test_compressed_batches_are_read() -> None:
    assert values(buffer(data(batch(0, 1, 2, compression="gzip"), (0, 2)))) == [b"0", b"1", b"2"]


def test_records_whose_lock_hardly_lasts_are_released() -> None:
    answer = data(batch(0, 1), (0, 1))
    assert values(buffer(answer), now=25.0) == []
    assert list(answer.acquired.marks) == [RELEASE, RELEASE]
    assert answer.exchange.has_unsent


def test_records_whose_lock_was_lost_are_not_handed_out() -> None:
    answer = data(batch(0, 1), (0, 1))
    found = buffer(answer)
    assert [record.value for record in found.take(1, 0.0)] == [b"0"]
    answer.exchange.lose(InvalidRecordStateError("moved"))
    assert values(found) == []


def test_everything_is_given_back_decoded_or_not() -> None:
    first, second = data(batch(0, 1), (0, 1)), data(batch(0, 1), (0, 1))
    found = buffer(first, second)
    (record,) = found.take(1, 0.0)
    found.hold_only((), 0.0)
    assert list(first.acquired.marks) == [OPEN, RELEASE]
    assert list(second.acquired.marks) == [RELEASE, RELEASE]
    assert found.take(1, 0.0) == []
    assert record.lock_expires_at == 30.0


def test_records_of_topics_that_are_left_are_given_back_and_those_that_arrive_later() -> None:
    first, second, late = (data(batch(0, 1), (0, 1)) for _ in range(3))
    found = buffer(first, second)
    taken = found.take(2, 0.0)
    found.hold_only(("others",), 0.0)
    found.put_back(taken)
    found.add(late, 0.0)
    assert found.take(1, 0.0) == []
    for answer in (first, second, late):
        assert list(answer.acquired.marks) == [RELEASE, RELEASE]
        assert answer.exchange.has_unsent
    found.hold_only(("jobs",), 0.0)
    again = data(batch(0, 1), (0, 1))
    found.add(again, 0.0)
    found.hold_only(("jobs", "others"), 0.0)
    assert values(found) == [b"0", b"1"]


def test_what_is_acquired_ahead_follows_the_application() -> None:
    allowance = Allowance(500)
    first = allowance.limit
    for _ in range(10):
        allowance.starved()
    assert allowance.limit == 500
    allowance.waited(29.0)
    assert allowance.limit == 500
    for _ in range(4):
        allowance.waited(20.0)
    assert allowance.limit < first
    for _ in range(10):
        allowance.waited(20.0)
    assert allowance.limit == 1


def test_each_broker_s_records_are_acquired_ahead_where_whole_batches_are() -> None:
    allowance = Allowance(500, of_each_broker=True)
    allowance.brokers = 3
    for _ in range(10):
        allowance.starved()
    assert (allowance.limit, allowance.share) == (1500, 500)
    allowance.brokers = 1
    assert allowance.share == 500
    allowance.starved()
    assert allowance.limit == 500
