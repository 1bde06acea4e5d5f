"""Choice of the broker for requests that any broker can answer, and repeated lookups of a coordinator."""

from __future__ import annotations

import pytest

from aiokafka_lead._core.inquiry import CoordinatorInquiry, Inquiry
from aiokafka_lead.errors import (
    BrokerError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    IllegalGenerationError,
    KafkaConnectionError,
    KafkaError,
    NotCoordinatorError,
    RequestTimedOutError,
    UnknownServerError,
)

NODES = (1, 2, 3)
PATIENCE_S = 2.0


def test_the_same_broker_may_be_asked_three_times() -> None:
    inquiry = Inquiry(PATIENCE_S)
    for number in range(3):
        assert not inquiry.avoid(NODES, number / 10)
        inquiry.asks(1)
        inquiry.failed(1, CoordinatorNotAvailableError(), number / 10, number / 10)
    assert set(inquiry.avoid(NODES, 0.3)) == {1}
    assert inquiry.doubted_since(0.3) == 0.0


def test_time_leads_to_doubt_as_well() -> None:
    inquiry = Inquiry(PATIENCE_S)
    inquiry.failed(1, RequestTimedOutError(), 0.0, 30.0)
    assert set(inquiry.avoid(NODES, 30.0)) == {1}


def test_each_broker_is_asked_once_before_any_is_asked_again() -> None:
    inquiry = Inquiry(PATIENCE_S)
    for _ in range(3):
        inquiry.failed(1, CoordinatorNotAvailableError(), 0.0, 0.0)
    asked = []
    for _ in range(6):
        avoid = inquiry.avoid(NODES, 0.0)
        node_id = next(node_id for node_id in NODES if node_id not in avoid)
        asked.append(node_id)
        inquiry.failed(node_id, CoordinatorNotAvailableError(), 0.0, 0.0)
    assert asked == [2, 3, 1, 2, 3, 1]


def test_an_answer_that_proves_right_ends_the_doubt() -> None:
    inquiry = CoordinatorInquiry(PATIENCE_S)
    for _ in range(3):
        inquiry.failed(1, CoordinatorNotAvailableError("not here"), 0.0, 0.0)
    inquiry.asks(2)
    inquiry.found(2, 3)
    assert inquiry.doubted_since(0.0) is not None, "it may be wrong"
    assert inquiry.said == {1: "not here", 2: "named broker 3"}
    assert not inquiry.answered(3, None, 0.0, 0.1)
    assert (inquiry.node_id, inquiry.doubted_since(0.1), dict(inquiry.said)) == (3, None, {})


@pytest.mark.parametrize("kind", [CoordinatorNotAvailableError, NotCoordinatorError, RequestTimedOutError])
def test_a_coordinator_that_has_moved_is_looked_up_at_once(kind: type[BrokerError]) -> None:
    inquiry = CoordinatorInquiry(PATIENCE_S)
    inquiry.found(1, 2)
    assert inquiry.answered(2, kind(), 0.0, 0.0)
    assert inquiry.node_id is None
    assert not inquiry.avoid(NODES, 0.0), "but anybody may know who it is now"


@pytest.mark.parametrize("kind", [CoordinatorLoadInProgressError, UnknownServerError])
def test_one_that_does_not_do_its_work_is_looked_up_from_others(kind: type[BrokerError]) -> None:
    inquiry = CoordinatorInquiry(PATIENCE_S)
    for number in range(3):
        inquiry.asks(1)
        inquiry.found(1, 2)
        assert inquiry.answered(2, kind(), 0.0, 0.0) == (number == 2), "it may do its work soon, until it is in doubt"
        assert inquiry.node_id is None
        assert set(inquiry.avoid(NODES, 0.0)) == {1, 2}


def test_each_round_ends_with_the_one_that_refused() -> None:
    """All other brokers may keep naming it, while it knows better, because it is the former coordinator."""
    inquiry = CoordinatorInquiry(PATIENCE_S)
    asked = []
    for _ in range(9):
        avoid = inquiry.avoid(NODES, 0.0)
        informant = next(node_id for node_id in (2, 1, 3) if node_id not in avoid)
        asked.append(informant)
        inquiry.asks(informant)
        inquiry.found(informant, 2)
        inquiry.answered(2, NotCoordinatorError(), 0.0, 0.0)
    assert asked == [2, 2, 2, 1, 3, 1, 3, 2, 1]


@pytest.mark.parametrize("kind", [ConcurrentTransactionsError, IllegalGenerationError])
def test_errors_about_its_work_show_that_it_does_it(kind: type[BrokerError]) -> None:
    inquiry = CoordinatorInquiry(PATIENCE_S)
    inquiry.found(1, 2)
    for _ in range(2):
        inquiry.answered(2, CoordinatorLoadInProgressError(), 0.0, 0.0)
    assert not inquiry.answered(2, kind(), 0.0, 0.0)
    assert not inquiry.answered(2, CoordinatorLoadInProgressError(), 0.0, 0.0)


def test_errors_of_this_client_say_nothing() -> None:
    inquiry = CoordinatorInquiry(PATIENCE_S)
    inquiry.found(1, 2)
    for _ in range(2):
        inquiry.answered(2, CoordinatorLoadInProgressError(), 0.0, 0.0)
    assert not inquiry.answered(2, KafkaError("stopped"), 0.0, 0.0)
    assert inquiry.answered(2, CoordinatorLoadInProgressError(), 0.0, 0.0)


def test_a_caller_in_a_hurry_has_learnt_nothing() -> None:
    inquiry = CoordinatorInquiry(PATIENCE_S)
    inquiry.found(1, 2)
    late = RequestTimedOutError()
    late.api = "OffsetCommit"
    assert not inquiry.answered(2, late, 0.0, 0.5)
    assert inquiry.answered(2, late, 0.0, 1.5)


def test_the_refusals_of_a_later_coordinator_count_as_well() -> None:
    """Otherwise a broker that names a different wrong coordinator each time would be believed indefinitely."""
    inquiry = CoordinatorInquiry(PATIENCE_S)
    for named in (2, 3, 2):
        inquiry.asks(1)
        inquiry.found(1, named)
        inquiry.answered(named, KafkaConnectionError(), 0.0, 0.0)
    assert 1 in inquiry.avoid((1, 2, 3, 4), 0.0)


def test_a_silent_one_is_asked_last_and_not_in_doubt() -> None:
    """Other brokers are asked first, since it may only be waiting for a group's members."""
    inquiry = CoordinatorInquiry(PATIENCE_S)
    inquiry.asks(1)
    inquiry.found(1, 2)
    inquiry.silent(2)
    assert set(inquiry.avoid(NODES, 5.0)) == {1, 2}
    assert inquiry.doubted_since(5.0) is None
    inquiry.answered(2, None, 0.0, 60.0)
    assert not inquiry.avoid(NODES, 60.0)
