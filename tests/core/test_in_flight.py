"""Ledger of requests that wait for their answers."""

from __future__ import annotations

import math

import pytest

from aiokafka_lead._core.connection.in_flight import InFlightLedger
from aiokafka_lead.errors import KafkaError, MalformedMessageError


class FetchLike:
    NAME = "Fetch"


def nothing(response: object, error: KafkaError | None) -> None:
    """Called when a request ends, which these tests never expect."""


def send(ledger: InFlightLedger, deadline: float = 10.0) -> int:
    correlation_id = ledger.next_id
    ledger.add(FetchLike, 12, deadline, nothing)
    return correlation_id


def matched(ledger: InFlightLedger, correlation_id: int) -> int:
    entry = ledger.match(correlation_id)
    assert entry is not None
    return entry.correlation_id


def test_answers_match_in_order() -> None:
    ledger = InFlightLedger()
    ids = [send(ledger) for _ in range(3)]
    assert ids == [0, 1, 2]
    assert len(ledger) == 3
    for correlation_id in ids:
        assert matched(ledger, correlation_id) == correlation_id
        ledger.pop()
    assert ledger.oldest() is None


def test_an_answer_out_of_order_is_a_protocol_error_that_keeps_the_ledger() -> None:
    ledger = InFlightLedger()
    first, second = send(ledger), send(ledger)
    with pytest.raises(MalformedMessageError, match=r"id 1 instead of 0 \(Fetch\)"):
        ledger.match(second)
    assert matched(ledger, first) == first


def test_an_answer_to_nothing_is_a_protocol_error() -> None:
    with pytest.raises(MalformedMessageError, match="no request is in flight"):
        InFlightLedger().match(0)


def test_ids_of_requests_without_answer_are_skipped() -> None:
    ledger = InFlightLedger()
    first = send(ledger)
    ledger.skip()
    second = send(ledger)
    assert matched(ledger, first) == 0
    ledger.pop()
    assert matched(ledger, second) == 2


def test_the_earliest_deadline_counts_whatever_the_order() -> None:
    ledger = InFlightLedger()
    assert ledger.next_deadline() == math.inf
    send(ledger, 30.0)
    quick = send(ledger, 5.0)
    assert ledger.next_deadline() == 5.0
    assert ledger.expired(4.9) is None
    expired = ledger.expired(5.0)
    assert expired is not None
    assert expired.correlation_id == quick


def test_drain_hands_out_everything_in_order_once() -> None:
    ledger = InFlightLedger()
    ids = [send(ledger) for _ in range(3)]
    assert [entry.correlation_id for entry in ledger.drain()] == ids
    assert ledger.drain() == []
    assert len(ledger) == 0


def test_correlation_ids_wrap_within_int32() -> None:
    ledger = InFlightLedger()
    ledger.next_id = 2**31 - 2
    assert [send(ledger) for _ in range(3)] == [2**31 - 2, 2**31 - 1, 0]


def test_answers_to_requests_that_expect_none_are_ignored() -> None:
    ledger = InFlightLedger()
    ledger.next_id = 2**31 - 2
    first = send(ledger)
    ledger.skip()  # 2**31 - 1
    ledger.skip()  # 0
    last = send(ledger)
    ledger.skip()
    ledger.skip()
    assert ledger.match(first) is ledger.oldest()
    for other in (2**31 - 1, 0, last, -1, -(2**31)):
        with pytest.raises(MalformedMessageError, match=r"correlation id -?\d+ instead of"):
            ledger.match(other)
    ledger.pop()
    assert [ledger.match(2**31 - 1), ledger.match(0)] == [None, None]
    assert ledger.match(last) is ledger.oldest()
    for other in (first, 2, 3, -1, -(2**31)):
        with pytest.raises(MalformedMessageError, match=r"correlation id -?\d+ instead of"):
            ledger.match(other)
    ledger.pop()
    assert [ledger.match(2), ledger.match(3)] == [None, None]
    for other in (0, last, 4, -1, 2 - 2**31):
        with pytest.raises(MalformedMessageError, match="no request is in flight"):
            ledger.match(other)
