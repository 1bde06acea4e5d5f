"""aiokafka's error classes catch the errors of native clients."""

from __future__ import annotations

import inspect
from typing import Any

import aiokafka.errors as theirs
import pytest

import aiokafka_lead.errors as native
from aiokafka_lead.compat import errors

NAMES = sorted(name for name, found in vars(theirs).items() if inspect.isclass(found) and issubclass(found, Exception))


@pytest.mark.parametrize("name", NAMES)
def test_every_error_is_there(name: str) -> None:
    found: Any = getattr(errors, name)
    expected: Any = getattr(theirs, name)
    assert issubclass(found, errors.KafkaError) == issubclass(expected, theirs.KafkaError)
    assert issubclass(found, errors.BrokerResponseError) or not issubclass(expected, theirs.BrokerResponseError)
    if hasattr(expected, "errno"):
        broker: Any = getattr(errors, name)
        assert broker.description
        assert broker.message == broker.message.upper()
        assert broker.errno == expected.errno
        assert broker().errno == expected.errno
        assert errors.for_code(expected.errno) is broker
        assert errors.kafka_errors[expected.errno] is broker


def test_codes_that_aiokafka_does_not_know() -> None:
    assert errors.for_code(0) is errors.NoError
    assert errors.for_code(82) is native.FencedInstanceIdError
    assert issubclass(errors.for_code(31_000), errors.UnknownError)


@pytest.mark.parametrize(
    ("name", "raised"),
    [
        ("KafkaError", native.ClientClosedError),
        ("KafkaTimeoutError", native.RequestTimedOutError),
        ("KafkaTimeoutError", native.DeliveryTimeoutError),
        ("KafkaTimeoutError", native.BufferFull),
        ("ProducerClosed", native.ClientClosedError),
        ("NotLeaderForPartitionError", native.NotLeaderOrFollowerError),
        ("OffsetOutOfRangeError", native.FetchOffsetOutOfRangeError),
        ("KafkaConnectionError", native.RebootstrapError),
        ("ProducerFenced", native.ProducerFencedError),
    ],
)
def test_native_errors_are_caught(name: str, raised: type[native.KafkaError]) -> None:
    assert issubclass(raised, getattr(errors, name))


def test_what_aiokafkas_errors_have_besides() -> None:
    error = errors.UnknownTopicOrPartitionError("which?")
    assert (error.errno, error.retriable, error.invalid_metadata) == (3, True, True)  # type: ignore[attr-defined]
    assert str(error) == "which?"
    assert not errors.TopicAuthorizationFailedError.invalid_metadata  # type: ignore[attr-defined]
