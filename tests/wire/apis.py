"""All message classes and versions, for tests that iterate over them."""

from __future__ import annotations

from aiokafka_lead._wire import ApiKey, Message, request_class
from aiokafka_lead._wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from aiokafka_lead._wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from aiokafka_lead._wire.messages.control_record_type_schema import ControlRecordTypeSchema
from aiokafka_lead._wire.messages.end_txn_marker import EndTxnMarker

DATA_SCHEMAS: list[type[Message]] = [
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ControlRecordTypeSchema,
    EndTxnMarker,
]


def messages() -> list[type[Message]]:
    """Return every request, response and data schema."""
    found: list[type[Message]] = []
    for key in ApiKey:
        found += [request_class(key), request_class(key).RESPONSE]
    return found + DATA_SCHEMAS


def versions_of(message: type[Message]) -> range:
    return range(message.MIN_VERSION, message.MAX_VERSION + 1)


def all_versions() -> list[tuple[type[Message], int]]:
    """Return each message with each of its versions."""
    return [(message, version) for message in messages() for version in versions_of(message)]
