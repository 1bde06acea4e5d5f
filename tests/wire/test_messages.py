"""Promises of every message: defaults, equality, a representation, and limits of each version."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from uuid import UUID

import pytest

from aiokafka_lead._wire import ZERO_UUID, Message, decode, encode
from aiokafka_lead._wire.compiler.source import fields_of, struct_class
from aiokafka_lead._wire.messages.api_versions import ApiVersionsResponse
from aiokafka_lead._wire.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse
from aiokafka_lead._wire.messages.fetch import FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from aiokafka_lead._wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from aiokafka_lead._wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from aiokafka_lead._wire.messages.update_features import UpdateFeaturesRequest
from aiokafka_lead.errors import EncodeError, UnsupportedVersionError

from .apis import all_versions, messages


def test_defaults_survive_each_version() -> None:
    for message, version in all_versions():
        assert decode(message, version, encode(message(), version)) == message()


def test_defaults_are_the_schemas() -> None:
    request = FetchRequest()
    assert request.max_bytes == 0x7FFFFFFF
    assert request.cluster_id is None
    assert request.rack_id == ""
    assert request.topics == []
    assert request.replica_state.replica_id == -1
    assert FetchTopic().topic_id == ZERO_UUID
    assert UpdateFeaturesRequest().timeout_ms == 60000
    assert MetadataRequest().topics == []
    assert MetadataResponse().cluster_authorized_operations == -(2**31)
    assert ConsumerGroupHeartbeatResponse().assignment is None


def test_lists_and_structs_are_not_shared() -> None:
    one, two = FetchRequest(), FetchRequest()
    one.topics.append(FetchTopic())
    one.replica_state.replica_id = 5
    assert two == FetchRequest()
    decoded = decode(ProduceResponse, 3, encode(ProduceResponse(), 3))
    decoded.node_endpoints.append(NodeEndpoint())
    assert decode(ProduceResponse, 3, encode(ProduceResponse(), 3)) == ProduceResponse()


def test_equality_and_repr() -> None:
    assert NodeEndpoint(node_id=1) == NodeEndpoint(node_id=1)
    assert NodeEndpoint(node_id=1) != NodeEndpoint(node_id=2)
    assert NodeEndpoint() != LeaderIdAndEpoch()
    assert repr(LeaderIdAndEpoch(leader_epoch=4)) == "LeaderIdAndEpoch(leader_id=-1, leader_epoch=4)"
    with pytest.raises(TypeError):
        hash(NodeEndpoint())


def test_attributes_are_those_of_the_schema() -> None:
    with pytest.raises(AttributeError):
        NodeEndpoint().nodeid = 1  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    for message in messages():
        todo = [message]
        while todo:
            kind = todo.pop()
            assert list(kind.__slots__) == [field.name for field in fields_of(kind)]
            todo += [struct_class(kind, f.element) for f in fields_of(kind) if f.is_struct]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (FetchRequest(forgotten_topics_data=[ForgottenTopic()]), 6, "forgotten_topics_data"),
        (FetchRequest(replica_id=3), 15, "replica_id"),
        (ProduceResponse(node_endpoints=[NodeEndpoint()]), 9, "node_endpoints"),
        (MetadataRequest(topics=[], allow_auto_topic_creation=False), 3, "allow_auto_topic_creation"),
        (MetadataRequest(topics=None), 0, "topics"),
        (MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9, "name"),
    ],
)
def test_a_version_that_lacks_a_field(message: Message, version: int, field: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=rf"version {version} .*\b{field}$"):
        encode(message, version)


def test_what_may_be_ignored_is() -> None:
    request = FetchRequest(rack_id="here", session_id=5, cluster_id="there")
    assert encode(request, 4) == encode(FetchRequest(), 4)


def test_a_hint_in_a_nested_struct_that_the_version_lacks() -> None:
    hint = PartitionProduceResponse(current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=3))
    response = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[hint])])
    assert decode(ProduceResponse, 10, encode(response, 10)) == response
    with pytest.raises(UnsupportedVersionError, match="PartitionProduceResponse version 9 has no field current_leader"):
        encode(response, 9)


@pytest.mark.parametrize("version", [-1, 99])
def test_a_version_out_of_the_schema(version: int) -> None:
    expected = re.escape(f"MetadataRequest has versions 0 to 13, not {version}")
    with pytest.raises(UnsupportedVersionError, match=expected):
        encode(MetadataRequest(), version)
    with pytest.raises(UnsupportedVersionError, match=expected):
        decode(MetadataRequest, version, b"")


@pytest.mark.parametrize(
    "message",
    [
        ProduceRequest(timeout_ms=2**31),
        ProduceRequest(acks="all"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        ProduceRequest(transactional_id="x" * 32768),
        ProduceRequest(transactional_id="\ud800"),
        ProduceRequest(transactional_id=b"x"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        ProduceRequest(topic_data=None),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ],
)
@pytest.mark.parametrize("version", [3, 9, 13])
def test_values_that_do_not_fit(message: ProduceRequest, version: int) -> None:
    with pytest.raises(EncodeError, match=f"^ProduceRequest version {version}: "):
        encode(message, version)


def test_the_longest_string() -> None:
    request = ProduceRequest(transactional_id="x" * 32767)
    for version in (3, 9):
        assert decode(ProduceRequest, version, encode(request, version)) == request


def test_unknown_tagged_fields_are_skipped() -> None:
    body = encode(ApiVersionsResponse(throttle_time_ms=7), 3)
    assert body.endswith(b"\0")
    newer = body[:-1] + b"\3" + b"\x32\2ab" + b"\1\x08" + struct.pack(">q", 12) + b"\xff\x7f\0"
    assert decode(ApiVersionsResponse, 3, newer) == ApiVersionsResponse(throttle_time_ms=7, finalized_features_epoch=12)


def test_unknown_tagged_fields_of_a_nested_struct_are_skipped() -> None:
    mark = b"nothing to see"
    partition = PartitionProduceResponse(error_message=mark.decode())
    response = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])
    plain = encode(response, 10)
    with_tags = plain.replace(mark + b"\0", mark + b"\2" + b"\4\3abc" + b"\x90\1\0", 1)
    assert with_tags != plain
    assert decode(ProduceResponse, 10, with_tags) == response


def test_a_newer_consumer_protocol_is_read_as_the_newest_known() -> None:
    from aiokafka_lead._wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition

    assignment = ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic="t", partitions=[1, 2])])
    assert decode(ConsumerProtocolAssignment, 3, encode(assignment, 3) + b"what version 4 may add") == assignment


def test_nullable_structs() -> None:
    for assignment in (None, Assignment()):
        response = ConsumerGroupHeartbeatResponse(member_id="m", assignment=assignment)
        assert decode(ConsumerGroupHeartbeatResponse, 0, encode(response, 0)) == response


def test_uuids_and_records() -> None:
    topic = TopicProduceData(
        topic_id=UUID(int=7),
        partition_data=[PartitionProduceData(index=1, records=b"abc"), PartitionProduceData(index=2, records=None)],
    )
    request = ProduceRequest(topic_data=[topic])
    decoded = decode(ProduceRequest, 13, encode(request, 13))
    assert decoded == request
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)


def test_a_large_frame_leaves_the_garbage_collector_as_it_was() -> None:
    import gc

    body = encode(FetchResponse(), 12) + bytes(1 << 17)
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            decode(FetchResponse, 12, body)
            assert gc.isenabled() == enabled
        finally:
            gc.enable()


def test_importing_the_protocol_imports_no_api() -> None:
    program = """
import sys
import aiokafka_lead._wire
lazy = ("aiokafka_lead._wire.messages.", "aiokafka_lead._wire.api_key", "aiokafka_lead._wire.server")
print([name for name in sys.modules if name.startswith(lazy)])
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert result.stdout.strip() == "[]"
