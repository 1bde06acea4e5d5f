"""States of acquired records, mark by mark."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.share.acquired import (
    GAP,
    LOST,
    OPEN,
    RENEW,
    SENT,
    SETTLED,
    TABLES,
    AckBatch,
    Acquired,
    AcquiredRange,
    Span,
)
from aiokafka_lead.errors import InvalidRecordStateError, KafkaError
from aiokafka_lead.types import AcknowledgeType, TopicPartition

TP = TopicPartition("jobs", 0)
ACCEPT, RELEASE, REJECT = (int(AcknowledgeType.ACCEPT), int(AcknowledgeType.RELEASE), int(AcknowledgeType.REJECT))
DECIDED = (ACCEPT, RELEASE, REJECT, GAP)
ALL = NO_LIMIT = 1_000


def acquired(*ranges: tuple[int, int]) -> Acquired:
    found = [AcquiredRange(first, last, 1) for first, last in ranges]
    return Acquired(TP, UUID(int=1), found, expires_at=30.0, gone_at=31.0)


def test_every_state_and_every_event_is_in_the_table() -> None:
    """The table in the docstring, cell by cell."""
    waiting = (*DECIDED, RENEW)
    under_way = tuple(mark | SENT for mark in waiting)
    states = (OPEN, *waiting, *under_way, SETTLED, LOST)
    expected = {
        "sent": {mark: mark | SENT for mark in waiting},
        "answered": {**{mark | SENT: SETTLED for mark in DECIDED}, RENEW | SENT: OPEN},
        "again": {mark | SENT: mark for mark in waiting},
        "refused": dict.fromkeys(under_way, LOST),
        "lost": dict.fromkeys((OPEN, *waiting, *under_way), LOST),
    }
    assert TABLES.keys() == expected.keys()
    for event, changes in expected.items():
        assert {state: TABLES[event][state] for state in states} == {s: changes.get(s, s) for s in states}, event


def test_runs_go_out_as_they_lie_in_the_log() -> None:
    records = acquired((10, 14), (20, 21))
    for index, kind in enumerate((ACCEPT, ACCEPT, GAP, OPEN, REJECT, REJECT, REJECT)):
        if kind != OPEN:
            records.decide(index, kind)
    assert [batch for _, batch in records.unsent(ALL, renewals=True)] == [
        AckBatch(10, 12, [ACCEPT, ACCEPT, 0]),
        AckBatch(14, 14, [REJECT]),
        AckBatch(20, 21, [REJECT]),
    ]


def test_renewals_wait_where_a_request_cannot_carry_them() -> None:
    records = acquired((0, 4))
    records.decide_all(ACCEPT)
    records.marks[2] = RENEW
    assert [batch for _, batch in records.unsent(ALL, renewals=False)] == [
        AckBatch(0, 1, [ACCEPT]),
        AckBatch(3, 4, [ACCEPT]),
    ]
    assert [batch for _, batch in records.unsent(ALL, renewals=True)] == [
        AckBatch(0, 4, [ACCEPT, ACCEPT, RENEW, ACCEPT, ACCEPT])
    ]


def test_a_renewed_lock_lasts_longer_and_its_record_is_still_to_be_decided() -> None:
    records = acquired((0, 2))
    records.decide(1, RENEW)
    ((span, _),) = records.unsent(ALL, renewals=True)
    records.sent(span)
    records.answered(span, 60.0, 61.0)
    assert [records.lock_expires_at(index) for index in range(3)] == [30.0, 60.0, 30.0]
    assert records.may_decide(1)
    records.decide_all(ACCEPT)
    error = InvalidRecordStateError("late")
    assert records.lose_expired(40.0, error)
    assert list(records.marks) == [LOST, ACCEPT, LOST]
    assert isinstance(records.failure(0), InvalidRecordStateError)
    assert records.failure(1) is None


def test_a_decision_made_while_a_renewal_is_under_way_stands() -> None:
    records = acquired((0, 0))
    records.decide(0, RENEW)
    records.sent(Span(0, 1))
    records.decide(0, ACCEPT)
    records.answered(Span(0, 1), 60.0, 61.0)
    assert list(records.marks) == [ACCEPT]


def test_a_decision_stands_against_later_ones() -> None:
    records = acquired((0, 0))
    records.decide(0, REJECT)
    records.decide(0, ACCEPT)
    assert not records.decide_all(ACCEPT)
    assert list(records.marks) == [REJECT]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), min_size=1, max_size=6), st.data())
def test_every_offset_is_sent_once_whatever_is_decided_lost_or_tried_again(
    shape: list[tuple[int, int]], data: st.DataObject
) -> None:
    ranges, at = [], 0
    for gap, length in shape:
        ranges.append((at + gap, at + gap + length - 1))
        at += gap + length
    records = acquired(*ranges)
    offsets = [offset for first, last in ranges for offset in range(first, last + 1)]
    assert [records.offset_of(index) for index in range(len(records))] == offsets
    assert [records.index_of(offset) for offset in offsets] == list(range(len(offsets)))
    taken: dict[int, int] = {}
    for _ in range(200):
        if records.over:
            break
        index = data.draw(st.integers(0, len(records) - 1))
        records.decide(index, data.draw(st.sampled_from(DECIDED)))
        sent = records.unsent(data.draw(st.integers(1, 4)), renewals=True)
        for span, batch in sent:
            assert batch.last - batch.first == span.end - span.start - 1
            records.sent(span)
        for span, batch in sent:
            if data.draw(st.booleans()):
                records.send_again(span)
                continue
            records.answered(span, 0.0, 0.0)
            types = batch.types * (span.end - span.start) if len(batch.types) == 1 else batch.types
            for offset, kind in zip(range(batch.first, batch.last + 1), types, strict=True):
                assert offset in offsets
                assert offset not in taken
                taken[offset] = kind
    lost = records.lose(KafkaError("gone"))
    assert lost == (len(taken) < len(offsets))
    assert records.over
