"""Frames: lengths, headers by rule, and large records passed through."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer

from aiokafka_lead._wire import (
    ApiKey,
    Buffer,
    UnsupportedRequestError,
    decode_request,
    decode_request_header,
    decode_response,
    encode,
    encode_request,
    encode_response,
    peek_correlation_id,
    request_class,
)
from aiokafka_lead._wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from aiokafka_lead._wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from aiokafka_lead._wire.messages.metadata import MetadataRequest, MetadataResponse
from aiokafka_lead._wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokafka_lead.errors import MalformedMessageError

from .apis import versions_of


def unframed(chunks: list[Buffer]) -> bytes:
    """Return the frame in ``chunks``, after checking its length."""
    joined = b"".join(chunks)
    assert struct.unpack_from(">i", joined)[0] == len(joined) - 4
    return joined[4:]


def kio_header(name: str, version: int, **fields: Any) -> bytes:
    module = __import__(f"kio.schema.{name}_header.v{version}.header", fromlist=["*"])
    header = getattr(module, f"{name.capitalize()}Header")(**fields)
    out = BytesIO()
    entity_writer(type(header))(out, header)
    return out.getvalue()


@pytest.mark.parametrize("key", list(ApiKey))
def test_headers_of_each_api_and_version(key: int) -> None:
    """Equal to kio's: versions 2 and 1 for flexible messages, but version 0 for ApiVersions' response."""
    request = request_class(key)
    for version in versions_of(request):
        flexible = request.is_flexible(version)
        header = kio_header(
            "request",
            2 if flexible else 1,
            request_api_key=key,
            request_api_version=version,
            correlation_id=77,
            client_id="me",
        )
        frame = unframed(encode_request(request(), version, 77, "me"))
        assert frame == header + encode(request(), version)
        assert decode_request(frame) == (key, version, 77, "me", request())
        assert decode_request_header(frame) == (key, version, 77, "me")

        response = request.RESPONSE
        header = kio_header("response", 1 if flexible and key != ApiKey.API_VERSIONS else 0, correlation_id=77)
        frame = unframed(encode_response(response(), version, 77))
        assert frame == header + encode(response(), version)
        assert decode_response(response, version, memoryview(frame)) == (77, response())
        assert peek_correlation_id(frame) == 77


@given(client_id=st.none() | st.text(max_size=300), correlation_id=st.integers(-(2**31), 2**31 - 1))
def test_client_ids(client_id: str | None, correlation_id: int) -> None:
    frame = unframed(encode_request(MetadataRequest(), 12, correlation_id, client_id))
    assert decode_request(frame) == (3, 12, correlation_id, client_id, MetadataRequest())


def test_tagged_fields_in_headers_are_skipped() -> None:
    request = encode_request(MetadataRequest(), 12, 5, None)
    frame = unframed(request).replace(b"\xff\xff\0", b"\xff\xff\1\x10\2ab", 1)
    assert decode_request(frame).request == MetadataRequest()
    frame = struct.pack(">i", 5) + b"\1\x10\2ab" + encode(MetadataResponse(), 12)
    assert decode_response(MetadataResponse, 12, frame) == (5, MetadataResponse())
    with pytest.raises(MalformedMessageError):
        decode_response(MetadataResponse, 12, struct.pack(">i", 5) + b"\1\x10\x20ab")


def test_a_broker_that_does_not_know_the_version_of_api_versions() -> None:
    """It answers in version 0 with error 35, whatever the request's version (KIP-511)."""
    answer = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)])
    frame = unframed(encode_response(answer, 0, 9))
    for version in versions_of(ApiVersionsResponse):
        assert decode_response(ApiVersionsResponse, version, frame) == (9, answer)
    without_keys = struct.pack(">ihi", 9, 35, 0)  # brokers before 2.4
    assert decode_response(ApiVersionsResponse, 4, without_keys) == (9, ApiVersionsResponse(error_code=35))


@pytest.mark.parametrize("asked", versions_of(ApiVersionsResponse))
def test_a_refusal_in_the_layout_that_was_asked_for_tells_the_versions_too(asked: int) -> None:
    answer = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)])
    frame = struct.pack(">i", 9) + encode(answer, asked)
    assert decode_response(ApiVersionsResponse, asked, frame) == (9, answer)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0",
        b"\xff" * 9,
        b"\2\0\x12\0\0\0\3",
        b"\0\0\0\5\0\x12",
        b"\x7fELF",
        b"\1\x7f\xff\xff\xff\0",  # a throttle time of 24 days
    ],
)
def test_of_a_refusal_whose_body_cannot_be_read_the_code_counts(body: bytes) -> None:
    frame = struct.pack(">ih", 9, 35) + body
    for version in versions_of(ApiVersionsResponse):
        assert decode_response(ApiVersionsResponse, version, frame) == (9, ApiVersionsResponse(error_code=35))


def test_requests_that_a_broker_does_not_know() -> None:
    header = struct.pack(">hhih", 18, 77, 5, 2) + b"me"
    with pytest.raises(UnsupportedRequestError, match="ApiVersions has versions 0 to 5, not 77") as caught:
        decode_request(header + b"\0whatever")
    error = caught.value
    assert (error.api_key, error.version, error.correlation_id, error.client_id) == (18, 77, 5, "me")
    assert error.code == 35
    with pytest.raises(UnsupportedRequestError, match="no API with key 4711"):
        decode_request(struct.pack(">hhih", 4711, 0, 5, -1))


def produce(records: Any) -> ProduceRequest:
    return ProduceRequest(
        acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=records)])]
    )


@pytest.mark.parametrize("version", [8, 9])
def test_large_records_pass_through(version: int) -> None:
    large = bytearray(b"r" * 100_000)
    chunks = encode_request(produce(large), version, 1, None)
    assert any(chunk is large for chunk in chunks)
    assert unframed(chunks) == unframed(encode_request(produce(bytes(large)), version, 1, None))
    decoded = decode_request(unframed(chunks)).request
    assert isinstance(decoded, ProduceRequest)
    records = decoded.topic_data[0].partition_data[0].records
    assert records is not None
    assert bytes(records) == large


@pytest.mark.parametrize("version", [8, 9])
@given(parts=st.lists(st.binary(max_size=20) | st.sampled_from([bytes(4096), b"x" * 9000]), max_size=4))
def test_records_in_parts(version: int, parts: list[bytes]) -> None:
    whole = unframed(encode_request(produce(b"".join(parts)), version, 1, None))
    views = [memoryview(part) for part in parts]
    for given_parts in (parts, tuple(bytearray(part) for part in parts), views):
        assert unframed(encode_request(produce(given_parts), version, 1, None)) == whole


def test_small_records_are_copied() -> None:
    assert len(encode_request(produce(b"r" * 100), 9, 1, None)) == 1


def test_records_are_a_slice_of_the_frame() -> None:
    data = PartitionData(records=b"r" * 10_000)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
    frame = bytearray(unframed(encode_response(response, 12, 1)))
    records = decode_response(FetchResponse, 12, memoryview(frame))[1].responses[0].partitions[0].records
    assert records is not None
    assert records.obj is frame
    frame[frame.index(b"r")] = 0
    assert records[0] == 0
