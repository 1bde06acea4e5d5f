"""Bytes that no broker should send: each gives a message or `MalformedMessageError`, in bounded time and memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.schema.index import api_key_map
from kio.static.constants import EntityType

from aiokafka_lead._wire import (
    ApiKey,
    Message,
    Request,
    decode,
    decode_request,
    decode_request_header,
    decode_response,
    encode,
    peek_correlation_id,
    request_class,
)
from aiokafka_lead._wire.codec import decode_from
from aiokafka_lead._wire.compiler import make_decoder
from aiokafka_lead._wire.compiler.source import fields_of, minimum_size, struct_class
from aiokafka_lead._wire.messages.api_versions import ApiVersionsResponse
from aiokafka_lead._wire.messages.describe_log_dirs import DescribeLogDirsResponse
from aiokafka_lead._wire.messages.fetch import FetchResponse, NodeEndpoint
from aiokafka_lead._wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokafka_lead._wire.primitives import uvarint
from aiokafka_lead.errors import MalformedMessageError, UnsupportedVersionError

from .apis import all_versions
from .kio_values import instances, kio_bytes, versions_of_kio

ALL = all_versions()


def harmless(message: type[Message], version: int, data: bytes) -> Message | None:
    """Return the message, or None if the bytes were properly refused."""
    try:
        return decode(message, version, data)
    except MalformedMessageError as error:
        caught = error
    assert caught.message.startswith(f"{message.__name__} version {version}: ")
    return None


@given(data=st.binary(max_size=120))
def test_random_bytes(data: bytes) -> None:
    for message, version in ALL:
        harmless(message, version, data)


@given(data=st.binary(max_size=60), filler=st.sampled_from([b"\0", b"\1", b"\x7f", b"\x80", b"\xff"]))
def test_endless_repetition(data: bytes, filler: bytes) -> None:
    for message, version in ALL:
        harmless(message, version, data + filler * 200)


def valid_bytes(data: st.DataObject, message: type[Message], version: int) -> bytes:
    """Return a message in kio's encoding."""
    name = api_key_map[message.API_KEY]
    if issubclass(message, Request):
        kio_class: Any = load_entity_schema(name, version, EntityType.request)
    else:
        kio_class = load_entity_schema(name, version, EntityType.response)
    return kio_bytes(data.draw(instances(kio_class)))


@pytest.mark.parametrize("key", [key for key in ApiKey if versions_of_kio(key)])
@settings(max_examples=settings().max_examples // 33)
@given(data=st.data())
def test_truncated_anywhere(key: int, data: st.DataObject) -> None:
    for message in (request_class(key), request_class(key).RESPONSE):
        version = data.draw(st.sampled_from(versions_of_kio(key)))
        wire = valid_bytes(data, message, version)
        whole = decode(message, version, wire)
        ends = range(len(wire)) if len(wire) < 300 else [*range(100), *range(len(wire) - 100, len(wire))]
        for end in ends:
            # The missing bytes mattered: each byte of a message belongs to it.
            assert harmless(message, version, wire[:end]) is None
        assert decode(message, version, wire) == whole


@pytest.mark.parametrize("key", [key for key in ApiKey if versions_of_kio(key)])
@settings(max_examples=settings().max_examples // 33)
@given(data=st.data())
def test_flipped_bits(key: int, data: st.DataObject) -> None:
    for message in (request_class(key), request_class(key).RESPONSE):
        version = data.draw(st.sampled_from(versions_of_kio(key)))
        wire = valid_bytes(data, message, version)
        mask = data.draw(st.integers(1, 255))
        for position in range(min(len(wire), 300)):
            flipped = bytearray(wire)
            flipped[position] ^= mask
            harmless(message, version, bytes(flipped))


@given(data=st.binary(max_size=80), version=st.integers(-1, 20), key=st.sampled_from([*ApiKey, 4, 999, -1]))
def test_frames_of_random_bytes(data: bytes, version: int, key: int) -> None:
    def accepted(read: Any, *arguments: Any) -> None:
        try:
            read(*arguments)
        except (MalformedMessageError, UnsupportedVersionError):
            pass

    accepted(peek_correlation_id, data)
    accepted(decode_request_header, data)
    accepted(decode_request, data)
    header = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    accepted(decode_request, header + data)
    if key in list(ApiKey):
        accepted(decode_response, request_class(key).RESPONSE, version, data)


HUGE = {
    "an array of structs": (MetadataResponse, 9, b"\0\0\0\0" + b"\xff\xff\xff\xff\x0f"),
    "an old array of structs": (MetadataResponse, 8, b"\0\0\0\0" + b"\x7f\xff\xff\xff"),
    "a negative count": (MetadataResponse, 8, b"\0\0\0\0" + b"\xff\xff\xff\xfe"),
    "a null array": (MetadataResponse, 9, b"\0\0\0\0" + b"\0"),
    "an array of numbers": (
        MetadataResponse,
        9,
        b"\0\0\0\0" + b"\1\0\0\0\0\0" + b"\2" + b"\0\0\2a\0" + b"\2" + bytes(14) + b"\xff\xff\xff\xff\x0f" + bytes(60),
    ),
    "a varint of six bytes": (MetadataResponse, 9, b"\0\0\0\0" + b"\xff\xff\xff\xff\xff\x01"),
    "a varint of 33 bits": (MetadataResponse, 9, b"\0\0\0\0" + b"\xff\xff\xff\xff\x1f"),
    "tagged fields without end": (ApiVersionsResponse, 3, b"\0\0" + b"\1" + b"\0\0\0\0" + b"\xff\xff\xff\xff\x0f"),
    "a tagged field past the end": (ApiVersionsResponse, 3, b"\0\0\1\0\0\0\0" + b"\1" + b"\1\x09" + bytes(8)),
    "a tagged field shorter than its value": (ApiVersionsResponse, 3, b"\0\0\1\0\0\0\0" + b"\1" + b"\1\x07" + bytes(8)),
    "a tagged field longer than its value": (ApiVersionsResponse, 3, b"\0\0\1\0\0\0\0" + b"\1" + b"\1\x09" + bytes(9)),
    "text that is not UTF-8": (DescribeLogDirsResponse, 2, b"\0\0\0\0" + b"\2" + b"\0\0" + b"\3\xc3\x28" + bytes(9)),
}


@pytest.mark.parametrize("name", HUGE)
def test_refused(name: str) -> None:
    message, version, data = HUGE[name]
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessageError):
            decode(message, version, data)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_elements_that_fit_the_frame_and_not_the_memory_are_refused_before_any_is_made() -> None:
    """Six million times an API of seven bytes: 42 MB that would take more than a gigabyte."""
    count = 6_000_000
    data = b"\0\0" + uvarint(count + 1) + bytes(7 * count)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessageError, match="1024 MiB of memory"):
            decode(ApiVersionsResponse, 3, data)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("version", [8, 9, 12])
def test_all_arrays_of_a_message_share_what_they_may_take(version: int) -> None:
    partition = MetadataResponsePartition(replica_nodes=[1] * 20)
    topics = [MetadataResponseTopic(name="a", partitions=[partition] * 10) for _ in range(10)]
    brokers = [MetadataResponseBroker(host="h")] * 10
    data = encode(MetadataResponse(brokers=brokers, topics=topics), version)
    flexible = MetadataResponse.is_flexible(version)
    view = memoryview(data)
    make_decoder(MetadataResponse, version, flexible, 200_000)(data, 0, len(data), view)
    for room in (1000, 5000, 20_000, 60_000):  # too little for the brokers, the topics, partitions, numbers
        with pytest.raises(MalformedMessageError, match="of memory"):
            make_decoder(MetadataResponse, version, flexible, room)(data, 0, len(data), view)


def test_tagged_arrays_are_among_them() -> None:
    """For example, the endpoints of an answer's brokers (KIP-951)."""
    data = encode(FetchResponse(node_endpoints=[NodeEndpoint(host="h")] * 50), 16)
    make_decoder(FetchResponse, 16, True, 50_000)(data, 0, len(data), memoryview(data))
    with pytest.raises(MalformedMessageError, match="of memory"):
        make_decoder(FetchResponse, 16, True, 5000)(data, 0, len(data), memoryview(data))


def test_a_struct_that_takes_no_bytes_cannot_repeat_for_ever() -> None:
    """Each element of an array takes at least one byte, so that a frame limits the number of elements."""

    def check(owner: Any, message: type[Message], version: int) -> None:
        for field in fields_of(owner):
            if version in field.versions and field.is_array:
                assert minimum_size(owner, field, version, message.is_flexible(version)) > 0
            if version in field.versions and field.is_struct:
                check(struct_class(owner, field.element), message, version)

    for message, version in ALL:
        check(message, message, version)


def test_the_position_after_a_message() -> None:
    """A message is read from within a buffer, which may continue after it."""
    for message, version in ALL:
        body = encode(message(), version)
        view = memoryview(b"\xee" * 5 + body + b"\xee" * 7)
        decoded, position = decode_from(message, version, view, 5)
        assert decoded == message()
        assert position == 5 + len(body)
