"""The protocol's error codes and their classes, compared with kio's list."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from aiokafka_lead import ConsumerRecord, TimestampType, errors
from aiokafka_lead.errors import (
    BrokerError,
    InvalidMetadataError,
    KafkaError,
    RetriableBrokerError,
    UnknownServerError,
    error_for_code,
    raise_for_code,
)

CODES = [code for code in ErrorCode if code is not ErrorCode.none]


@pytest.mark.parametrize("code", CODES)
def test_each_code_has_a_class(code: ErrorCode) -> None:
    found = error_for_code(code.value)
    assert found.code == code.value
    assert issubclass(found, BrokerError)
    assert found.__module__ == "aiokafka_lead.errors"
    assert getattr(errors, found.__name__) is found
    assert found.__doc__
    assert found.retriable == code.retriable
    assert found.retriable == issubclass(found, RetriableBrokerError)
    assert found.refreshes_metadata == issubclass(found, InvalidMetadataError)


def test_names_are_kafkas() -> None:
    for number, name in {
        1: "OffsetOutOfRangeError",
        2: "CorruptRecordError",
        3: "UnknownTopicOrPartitionError",
        6: "NotLeaderOrFollowerError",
        7: "RequestTimedOutError",
        10: "MessageTooLargeError",
        29: "TopicAuthorizationFailedError",
        35: "UnsupportedVersionError",
        45: "OutOfOrderSequenceNumberError",
        46: "DuplicateSequenceNumberError",
        47: "InvalidProducerEpochError",
        58: "SaslAuthenticationFailedError",
        59: "UnknownProducerIdError",
        74: "FencedLeaderEpochError",
        75: "UnknownLeaderEpochError",
        90: "ProducerFencedError",
        129: "RebootstrapRequiredError",
    }.items():
        assert error_for_code(number).__name__ == name


def test_stale_metadata() -> None:
    """Java's InvalidMetadataException and its subclasses."""
    stale = {code for code in range(-1, 200) if error_for_code(code).refreshes_metadata}
    assert stale == {3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103}


def test_a_code_of_the_future() -> None:
    unknown = error_for_code(4711)
    assert issubclass(unknown, UnknownServerError)
    assert unknown is error_for_code(4711)
    assert (unknown.code, unknown.retriable) == (4711, False)
    assert "4711" in str(unknown())


def test_raise_for_code() -> None:
    raise_for_code(0)
    with pytest.raises(errors.MessageTooLargeError, match=r"^too big for us \[broker 1 \(host:9092\)\]$") as caught:
        raise_for_code(10, "too big for us", broker="1 (host:9092)")
    assert caught.value.broker == "1 (host:9092)"
    with pytest.raises(errors.NotLeaderOrFollowerError, match="not the leader"):
        raise_for_code(6)


def test_a_class_of_a_users_own_changes_nothing() -> None:
    class Mine(errors.NotLeaderOrFollowerError):
        code = 6

    assert error_for_code(6) is errors.NotLeaderOrFollowerError
    assert Mine.__module__ == __name__
    assert issubclass(Mine, KafkaError)


RECORD: Any = ConsumerRecord("events", 1, 7, 1_700_000_000_000, TimestampType.CREATE_TIME, b"k", b"v", ())
GIVEN = {"record": RECORD, "topic": "events", "part": "key", "reasons": ("no such field",)}
"""Arguments of the errors' constructors after the text, if a number does not suffice."""


@pytest.mark.parametrize("name", [name for name in errors.__all__ if inspect.isclass(getattr(errors, name))])
def test_errors_cross_processes_and_can_be_copied(name: str) -> None:
    kind = getattr(errors, name)
    if not issubclass(kind, KafkaError):
        return
    wanted = inspect.signature(kind).parameters.values()
    given = {each.name: GIVEN.get(each.name, 3) for each in wanted if each.kind is each.KEYWORD_ONLY}
    error = kind("what has happened", **given)
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(same) is kind
        assert (str(same), vars(same)) == (str(error), vars(error))


def test_an_error_of_an_unknown_code_crosses_processes() -> None:
    error = error_for_code(9999)("what the broker said", broker="1")
    same = pickle.loads(pickle.dumps(error))
    assert (type(same).code, type(same).__mro__[1], str(same)) == (9999, UnknownServerError, str(error))
