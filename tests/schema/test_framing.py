"""Schema ids in keys and values: byte by byte, and in confluent-kafka's form."""

from __future__ import annotations

import io
import uuid

import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead.errors import InvalidSchemaError, SchemaContentError
from aiokafka_lead.schema.framing import (
    KEY_HEADER,
    VALUE_HEADER,
    header_of,
    id_of,
    indexes_bytes,
    key_of,
    prefix_of,
    read_indexes,
)
from aiokafka_lead.schema.proto_file import message_names

from . import messages

IDS = st.integers(0, 2**32 - 1)
PATHS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=6)


@given(IDS, PATHS, st.binary())
def test_an_id_and_indexes_are_those_of_confluent_kafka(schema_id: int, path: list[int], rest: bytes) -> None:
    theirs = SchemaId("PROTOBUF", schema_id, None, path)
    ours = prefix_of(schema_id) + indexes_bytes(path)
    assert ours == theirs.id_to_bytes()
    key, indexes = key_of(ours + rest, (), False)
    assert (id_of(key), indexes) == (schema_id, None)
    assert read_indexes(ours + rest, len(key)) == (tuple(path), len(ours))


@given(st.uuids(), PATHS, st.booleans(), st.binary())
def test_a_header_is_that_of_confluent_kafka(guid: uuid.UUID, path: list[int], is_key: bool, content: bytes) -> None:
    theirs = SchemaId("PROTOBUF", None, str(guid), path)
    ours = header_of(str(guid)) + indexes_bytes(path)
    assert ours == theirs.guid_to_bytes()
    names = (KEY_HEADER, VALUE_HEADER) if is_key else (VALUE_HEADER, KEY_HEADER)
    headers = ((names[0], header_of(str(uuid.UUID(int=1)))), (names[1], b"other"), (names[0], ours))
    key, indexes = key_of(content, headers, is_key)
    assert id_of(key) == str(guid)
    assert indexes is not None
    assert read_indexes(indexes, 0)[0] == tuple(path)
    back = SchemaId("PROTOBUF")
    back.from_bytes(io.BytesIO(ours))
    assert str(back.guid) == str(guid)


@given(st.binary(max_size=40))
def test_bytes_without_a_name_are_refused_and_nothing_else_is_raised(content: bytes) -> None:
    try:
        key, _ = key_of(content, (), False)
        read_indexes(content, len(key))
    except SchemaContentError:
        return
    assert content[0] in (0, 1)


@pytest.mark.parametrize("value", [b"", b"\x01short", b"\x00" + bytes(16)])
def test_a_header_that_holds_no_guid(value: bytes) -> None:
    with pytest.raises(SchemaContentError, match="__value_schema_id"):
        key_of(b"content", ((VALUE_HEADER, value),), False)


def test_the_names_of_message_types_by_their_places() -> None:
    expected = {
        (0,): "shop.Customer",
        (0, 0): "shop.Customer.Address",
        (0, 0, 0): "shop.Customer.Address.Zip",
        (1,): "shop.Order",
        (1, 0): "shop.Order.Line",
    }
    assert message_names(messages.PROTO) == expected
    assert message_names("message A { }") == {(0,): "A"}
    for wrong in ("message A {", "message A { } }", "abcd"):
        with pytest.raises(InvalidSchemaError):
            message_names(wrong)
