"""Produce messages without intermediate objects: the same bytes and meaning as with the schema's own codec."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.producer.produce import BatchesRequest, BatchesResponse
from aiokafka_lead._wire import Message, decode, decode_response, encode, encode_request, encode_response
from aiokafka_lead._wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from aiokafka_lead.errors import MalformedMessageError

FLEXIBLE = [9, 10, 11, 12, 13]
IDS = {"t": UUID(int=7), "a topic with a longer name " * 4: UUID(int=2**127 + 1)}
SIZES = [0, 61, 126, 127, 4095, 4096, 16383, 16384, 3_000_000]


def topics(count: int) -> dict[str, list[tuple[int, memoryview]]]:
    return {
        name: [(index, memoryview(bytes([index & 255]) * SIZES[index % len(SIZES)])) for index in range(count)]
        for name in IDS
    }


@pytest.mark.parametrize("version", FLEXIBLE)
@pytest.mark.parametrize("count", [1, 20, 140])
def test_request_is_that_of_the_schema(version: int, count: int) -> None:
    content = topics(count)
    short = BatchesRequest(acks=-1, timeout_ms=30_000)
    short.topics = [(IDS[name].bytes if version == 13 else name.encode(), parts) for name, parts in content.items()]
    full = ProduceRequest(acks=-1, timeout_ms=30_000)
    for name, parts in content.items():
        data = [PartitionProduceData(index=index, records=records) for index, records in parts]
        full.topic_data.append(TopicProduceData(name=name, topic_id=IDS[name], partition_data=data))
    expected = b"".join(encode_request(full, version, 5, "me"))
    assert b"".join(encode_request(short, version, 5, "me")) == expected


def response(count: int) -> ProduceResponse:
    parts = [
        PartitionProduceResponse(
            index=index, base_offset=index * 2**40, log_append_time_ms=index - 1, log_start_offset=index
        )
        for index in range(count)
    ]
    made = [TopicProduceResponse(name=name, topic_id=IDS[name], partition_responses=parts) for name in IDS]
    return ProduceResponse(responses=made, throttle_time_ms=17)


@pytest.mark.parametrize("version", FLEXIBLE)
@pytest.mark.parametrize("count", [0, 1, 126, 127, 16_000, 16_500])
def test_answer_without_errors(version: int, count: int) -> None:
    frame = b"".join(encode_response(response(count), version, 5))[4:]
    _, read = decode_response(BatchesResponse, version, frame)
    assert read.throttle_time_ms == 17
    if count > 0x3FFE:  # the count takes more than two bytes
        assert read == decode_response(ProduceResponse, version, frame)[1]
        return
    assert type(read) is BatchesResponse
    expected = {index: (index * 2**40, index - 1) for index in range(count)}
    assert list(read.acknowledged.items()) == [
        (IDS[name].bytes if version == 13 else name.encode(), expected) for name in IDS
    ]


def _error(answer: ProduceResponse) -> None:
    answer.responses[1].partition_responses[2].error_code = 6


def _text(answer: ProduceResponse) -> None:
    answer.responses[1].partition_responses[2].error_message = ""


def _record_error(answer: ProduceResponse) -> None:
    answer.responses[1].partition_responses[2].record_errors = [BatchIndexAndErrorMessage(batch_index=1)]


def _leader(answer: ProduceResponse) -> None:
    answer.responses[1].partition_responses[2].current_leader = LeaderIdAndEpoch(leader_id=3, leader_epoch=4)


def _endpoint(answer: ProduceResponse) -> None:
    answer.node_endpoints = [NodeEndpoint(node_id=3, host="h", port=1)]


@pytest.mark.parametrize("version", [10, 13])
@pytest.mark.parametrize("change", [_error, _text, _record_error, _leader, _endpoint])
def test_anything_else_is_read_by_the_schema(version: int, change) -> None:  # type: ignore[no-untyped-def]
    answer = response(4)
    change(answer)
    body = encode(answer, version)
    read: Message = decode(BatchesResponse, version, body)
    assert type(read) is ProduceResponse
    assert read == decode(ProduceResponse, version, body)


@pytest.mark.parametrize("version", [9, 13])
def test_answer_that_ends_too_early(version: int) -> None:
    body = encode(response(3), version)
    for length in range(len(body)):
        with pytest.raises(MalformedMessageError):
            decode(BatchesResponse, version, body[:length])


@given(data=st.data(), version=st.sampled_from([9, 13]))
def test_answer_with_other_bytes_in_it(data: st.DataObject, version: int) -> None:
    body = bytearray(encode(response(3), version))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        expected = decode(ProduceResponse, version, bytes(body))
    except MalformedMessageError:
        expected = None
    try:
        read: Message = decode(BatchesResponse, version, bytes(body))
    except MalformedMessageError:
        assert expected is None
        return
    if type(read) is not BatchesResponse:
        assert read == expected
        return
    if expected is None:
        # Only a name that is not UTF-8 makes a difference, and such a topic is never requested.
        assert version == 9
        return
    assert read.throttle_time_ms == expected.throttle_time_ms
    meant: dict[bytes, dict[int, tuple[int, int]]] = {}
    for topic in expected.responses:
        name = topic.topic_id.bytes if version == 13 else topic.name.encode()
        found = {p.index: (p.base_offset, p.log_append_time_ms) for p in topic.partition_responses}
        meant[name] = found
    assert read.acknowledged == meant
