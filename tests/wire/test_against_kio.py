"""Every API and version, byte for byte against kio's codec, in both directions."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from aiokafka_lead._wire import ApiKey, Message, decode, encode, request_class

from .kio_values import instances, kio_bytes, kio_value, to_ours, versions_of_kio

DATA = {
    "consumer_protocol_assignment": "ConsumerProtocolAssignment",
    "consumer_protocol_subscription": "ConsumerProtocolSubscription",
    "control_record_type_schema": "ControlRecordTypeSchema",
    "end_txn_marker": "EndTxnMarker",
}

# 270 pairs of API and version, each with a few values here; HYPOTHESIS_PROFILE=deep draws fifty times more.
few = settings(max_examples=settings().max_examples // 12)


def agree(message: type[Message], version: int, kio_class: Any, data: st.DataObject) -> None:
    theirs = data.draw(instances(kio_class))
    ours = to_ours(theirs, message, version)
    assert isinstance(ours, Message)
    wire = kio_bytes(theirs)
    assert encode(ours, version) == wire
    decoded = decode(message, version, wire)
    assert decoded == ours
    assert encode(decoded, version) == wire
    assert kio_value(kio_class, encode(ours, version)) == theirs


PAIRS = [
    pytest.param(key, version, id=f"{api_key_map[key]}-{version}") for key in ApiKey for version in versions_of_kio(key)
]

OF_KAFKA_4_4 = {(18, 5), (28, 6), (42, 3), (88, 1), (89, 1), (93, 0), (94, 0)}
"""APIs and versions that kio does not know yet."""


@pytest.mark.parametrize(("key", "version"), PAIRS)
@few
@given(data=st.data())
def test_request_and_response(key: int, version: int, data: st.DataObject) -> None:
    name, request = api_key_map[key], request_class(key)
    agree(request, version, load_entity_schema(name, version, EntityType.request), data)
    agree(request.RESPONSE, version, load_entity_schema(name, version, EntityType.response), data)


@pytest.mark.parametrize(("module", "name"), DATA.items())
@settings(max_examples=30)
@given(data=st.data())
def test_data_schemas(module: str, name: str, data: st.DataObject) -> None:
    message = getattr(import_module(f"aiokafka_lead._wire.messages.{module}"), name)
    assert list(schema_name_map[module]) == list(range(message.MIN_VERSION, message.MAX_VERSION + 1))
    for version in schema_name_map[module]:
        agree(message, version, load_entity_schema(module, version, EntityType.data), data)


def test_kio_knows_each_version() -> None:
    """The comparison above is complete."""
    ours = {
        (key, v) for key in ApiKey for v in range(request_class(key).MIN_VERSION, request_class(key).MAX_VERSION + 1)
    }
    assert ours - OF_KAFKA_4_4 == {(parameters.values[0], parameters.values[1]) for parameters in PAIRS}
