"""Incremental fetch sessions (KIP-227), by the table in the module."""

from __future__ import annotations

from uuid import UUID

import pytest

from aiokafka_lead._core.consumer.fetch_session import FetchSession, TopicUse
from aiokafka_lead._core.consumer.position import PartitionFetch
from aiokafka_lead.types import TopicPartition

A = TopicPartition("a", 0)
B = TopicPartition("b", 0)
ID_A = UUID(int=1)
ID_B = UUID(int=2)
NEW_ID_A = UUID(int=3)


def at(offset: int, topic_id: UUID = ID_A) -> PartitionFetch:
    return PartitionFetch(topic_id, offset, -1, 0)


def opened(session_id: int = 9) -> FetchSession:
    session = FetchSession()
    session.full({A: at(0), B: at(0, ID_B)}, True)
    assert session.answered(0, session_id)
    return session


def test_the_first_request_is_full_and_asks_for_a_session() -> None:
    session = FetchSession()
    request = session.full({A: at(0)}, True)
    assert (request.session_id, request.epoch) == (0, 0)
    assert request.send == {A: at(0)}


def test_later_requests_name_only_what_changed() -> None:
    session = opened()
    request = session.incremental({A: at(5), B: at(0, ID_B)}, [])
    assert (request.session_id, request.epoch) == (9, 1)
    assert request.send == {A: at(5)}
    assert request.forget == []
    assert session.known[A] == at(5)


def test_dropped_partitions_are_forgotten_once() -> None:
    session = opened()
    request = session.incremental({}, [B, B, TopicPartition("never", 0)])
    assert request.forget == [TopicUse(ID_B, B)]
    assert B not in session.known


def test_a_topic_made_anew_is_forgotten_under_its_old_id() -> None:
    session = opened()
    request = session.incremental({A: at(0, NEW_ID_A)}, [])
    assert request.forget == [TopicUse(ID_A, A)]
    assert request.send == {A: at(0, NEW_ID_A)}


def test_epochs_count_and_wrap_to_one() -> None:
    session = opened()
    assert session.epoch == 1
    session.epoch = 2**31 - 1
    assert session.answered(0, 9)
    assert session.epoch == 1


@pytest.mark.parametrize(("error", "kept_id"), [(70, 0), (71, 9), (106, 9)])
def test_a_session_error_leads_to_a_full_request(error: int, kept_id: int) -> None:
    """FETCH_SESSION_ID_NOT_FOUND leaves no session to close; INVALID_FETCH_SESSION_EPOCH and topic id errors do."""
    session = opened()
    session.incremental({A: at(5)}, [])
    assert not session.answered(error, 0)
    assert session.is_full
    assert session.resets == 1
    request = session.full({A: at(5)}, True)
    assert (request.session_id, request.epoch) == (kept_id, 0)


def test_a_lost_answer_leads_to_a_full_request_that_replaces_the_session() -> None:
    session = opened()
    session.incremental({A: at(5)}, [])
    session.failed()
    assert session.is_full
    request = session.full({A: at(5)}, True)
    assert (request.session_id, request.epoch) == (9, 0)


def test_a_broker_without_room_for_sessions_gets_full_requests() -> None:
    session = FetchSession()
    session.full({A: at(0)}, True)
    assert session.answered(0, 0)
    assert session.is_full
    assert session.full({A: at(1)}, True).session_id == 0


def test_a_session_that_the_broker_closed_is_opened_anew() -> None:
    session = opened()
    session.incremental({A: at(5)}, [])
    assert session.answered(0, 0)
    assert session.is_full
    assert session.session_id == 0


def test_an_answer_from_another_session_is_read_but_ends_this_one() -> None:
    session = opened()
    session.incremental({A: at(5)}, [])
    assert session.answered(0, 1234)
    assert session.is_full


def test_closing_names_the_session_and_no_partition() -> None:
    session = opened()
    request = session.close()
    assert request is not None
    assert (request.session_id, request.epoch, dict(request.send)) == (9, -1, {})
    assert session.close() is None
