"""Records in progress in a share consumer's run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from aiokafka_lead._core.backoff import Backoff
from aiokafka_lead._core.leadership.patience import RetryPolicy
from aiokafka_lead._core.share.acquired import Acquired, AcquiredRange
from aiokafka_lead._core.share.counters import ShareCounters
from aiokafka_lead._core.share.delivered import AtHand
from aiokafka_lead._core.share.exchange import Exchange
from aiokafka_lead._core.share.jobs import KEPT_BACK_AT_MOST, Jobs, JobSlot
from aiokafka_lead._core.share.record import ShareRecord
from aiokafka_lead._records import ConsumerRecord
from aiokafka_lead.errors import InvalidRecordStateError
from aiokafka_lead.types import AcknowledgeType, TimestampType, TopicPartition

TP = TopicPartition("jobs", 0)


def records(count: int, *, delivery_count: int = 1, expires_at: float = 30.0) -> Sequence[ShareRecord[Any, Any]]:
    exchange = Exchange(1, RetryPolicy(1, 1), lambda tp, error: None, ShareCounters())
    ranges = [AcquiredRange(0, count - 1, delivery_count)]
    acquired = Acquired(TP, UUID(int=1), ranges, expires_at=expires_at, gone_at=expires_at)
    exchange.add(acquired)
    found = [ConsumerRecord(*TP, at, 1, TimestampType.CREATE_TIME, None, None) for at in range(count)]
    return [ShareRecord(record, delivery_count, exchange, acquired, at) for at, record in enumerate(found)]


class Decided:
    """Decisions about records, by offset."""

    def __init__(self) -> None:
        self.all: list[tuple[int, AcknowledgeType]] = []

    def __call__(self, record: ShareRecord[Any, Any], kind: AcknowledgeType) -> None:
        self.all.append((record.offset, kind))


def jobs(concurrency: int = 2, retries: int = 3, decided: Decided | None = None) -> Jobs:
    return Jobs(concurrency, Backoff(100, 10_000, rng=lambda: 0.5), decided or Decided(), AtHand())


def in_slots(made: Jobs, taken: Sequence[ShareRecord[Any, Any]]) -> list[JobSlot]:
    """Give each of these records to a handler."""
    made.turns.extend(taken)
    slots = [made.slot() for _ in taken]
    for slot in slots:
        assert made.take(slot) is slot.record
        assert slot.busy
    return slots


def test_there_is_room_for_as_many_records_as_handlers() -> None:
    made = jobs(concurrency=2)
    made.turns.extend(records(1))
    assert made.room() == 1
    slot = made.slot()
    assert made.take(slot) is not None
    assert (made.room(), made.working) == (1, 1)
    made.finished(slot)
    assert (made.room(), made.working, slot.busy) == (2, 0, False)


def test_what_becomes_of_a_record_is_what_becomes_of_its_handler() -> None:
    decided = Decided()
    made = jobs(decided=decided)
    returned, cancelled, hopeless = in_slots(made, records(3))
    made.finished(returned)
    made.given_up(cancelled)
    made.rejected(hopeless)
    assert decided.all == [(0, AcknowledgeType.ACCEPT), (1, AcknowledgeType.RELEASE), (2, AcknowledgeType.REJECT)]
    assert made.working == 0


def test_a_record_whose_lock_was_lost_meanwhile_is_not_handled() -> None:
    made = jobs()
    first, second = records(2)
    made.turns.extend((first, second))
    assert made.take(made.slot()) is first
    first._exchange.lose(InvalidRecordStateError("moved"))
    assert made.take(made.slot()) is None


def test_a_record_is_kept_back_longer_with_each_delivery() -> None:
    decided = Decided()
    made = jobs(decided=decided)
    third, first = in_slots(made, [records(1, delivery_count=3)[0], records(2)[1]])
    made.keep_back(third, 10.0)
    made.keep_back(first, 10.0)
    assert made.next_due() == 10.1
    made.let_go_due(10.1)
    assert decided.all == [(1, AcknowledgeType.RELEASE)]
    assert made.next_due() == 10.4
    made.let_go_due(10.4)
    assert decided.all[1:] == [(0, AcknowledgeType.RELEASE)]
    assert made.next_due() is None


def test_not_too_many_are_kept_back() -> None:
    decided = Decided()
    made = jobs(decided=decided)
    for slot in in_slots(made, records(KEPT_BACK_AT_MOST + 3)):
        made.keep_back(slot, 0.0)
    made.let_go_due(0.0)
    assert len(decided.all) == 3


def test_locks_that_run_out_are_those_of_what_is_handled_or_kept_back() -> None:
    made = jobs()
    handled, kept_back, waiting = records(3)
    _, slot = in_slots(made, (handled, kept_back))
    made.turns.append(waiting)
    made.keep_back(slot, 0.0)
    assert made.running_out(10.0, 15.0) == []
    assert made.running_out(16.0, 15.0) == [handled, kept_back]
    handled._acquired.decide(handled._index, 1)
    assert made.running_out(16.0, 15.0) == [kept_back]


def test_what_nobody_works_on_is_released_at_the_end() -> None:
    decided = Decided()
    made = jobs(decided=decided)
    handled, kept_back, waiting = records(3)
    at_work, slot = in_slots(made, (handled, kept_back))
    made.turns.append(waiting)
    made.keep_back(slot, 0.0)
    made.release_waiting()
    assert decided.all == [(2, AcknowledgeType.RELEASE), (1, AcknowledgeType.RELEASE)]
    assert at_work.record is handled
