"""Every API that the embedded brokers announce, in every version: requests are answered, and answers can be read."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafka_lead._wire import ApiKey, Request, request_class
from aiokafka_lead._wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokafka_lead._wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from aiokafka_lead._wire.messages.find_coordinator import FindCoordinatorRequest
from aiokafka_lead._wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokafka_lead._wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokafka_lead._wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokafka_lead._wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from aiokafka_lead._wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokafka_lead.errors import UnsupportedVersionError
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.testing._handlers import all_handlers
from aiokafka_lead.testing._state.configs import DEFAULT_LEVELS

from .raw import batch, connected

pytestmark = pytest.mark.anyio

SERVED = sorted(all_handlers())

NAMES = [request_class(api_key).NAME for api_key in SERVED]


def a_request(api_key: int, version: int, cluster: EmbeddedCluster) -> Request[Any]:
    """Return a request with contents, or an empty one if that is answered too."""
    topic, topic_id = "t", cluster.topic_id("t")
    match api_key:
        case ApiKey.API_VERSIONS if version >= 3:
            return ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        case ApiKey.PRODUCE:
            data = PartitionProduceData(index=0, records=batch(b"v"))
            return ProduceRequest(
                acks=-1, topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])]
            )
        case ApiKey.FETCH:
            part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            request = FetchRequest(
                topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[part])], max_wait_ms=1
            )
            if version >= 7:
                request.session_epoch = 0
                request.forgotten_topics_data = [ForgottenTopic(topic=topic, topic_id=topic_id, partitions=[1])]
            return request
        case ApiKey.METADATA:
            return MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        case ApiKey.LIST_OFFSETS:
            wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
            return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
        case ApiKey.FIND_COORDINATOR:
            return FindCoordinatorRequest(coordinator_keys=["g"]) if version >= 4 else FindCoordinatorRequest(key="g")
        case ApiKey.OFFSET_COMMIT:
            position = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
            wanted_topic = OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[position])
            return OffsetCommitRequest(group_id="g", topics=[wanted_topic])
        case ApiKey.OFFSET_FETCH if version >= 8:
            topics = [OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[0])]
            return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
        case ApiKey.OFFSET_FETCH:
            asked = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
            return OffsetFetchRequest(group_id="g", topics=asked)
        case _:
            return request_class(api_key)()


@pytest.mark.parametrize("api_key", SERVED, ids=NAMES)
async def test_each_version_is_answered(api_key: int) -> None:
    request = request_class(api_key)
    users = {"alice": "secret"} if api_key == ApiKey.SASL_AUTHENTICATE else None
    async with EmbeddedCluster(brokers=1, sasl_users=users, client_telemetry=True) as cluster:
        cluster.create_topic("t")
        for version in range(request.MIN_VERSION, request.MAX_VERSION + 1):
            async with connected(cluster.address(1)) as client:
                response = await client.call(a_request(api_key, version, cluster), version)
                assert isinstance(response, request.RESPONSE)
        assert not cluster.protocol_errors


async def test_the_versions_told_are_those_served() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        response = await client.call(ApiVersionsRequest(client_software_name="raw", client_software_version="1"))
    versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    expected = {key: (request_class(key).MIN_VERSION, request_class(key).MAX_VERSION) for key in SERVED}
    for absent in (ApiKey.SASL_AUTHENTICATE, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY):
        del expected[absent]
    # librdkafka expects Produce from version 0 on, which Kafka 4 announces for it (KAFKA-18659).
    expected[ApiKey.PRODUCE] = 0, expected[ApiKey.PRODUCE][1]
    assert versions == expected
    assert {feature.name for feature in response.finalized_features} == set(DEFAULT_LEVELS)


async def test_api_versions_of_an_unknown_version_is_answered_as_version_0() -> None:
    """KIP-511: the client learns the broker's versions even if its own was too high."""
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.max_versions = {"ApiVersions": 2}
        request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        await client.send(request, 4)
        _, response = await client.receive(ApiVersionsResponse, 4)
        assert response.error_code == UnsupportedVersionError.code
        assert any(api.api_key == ApiKey.API_VERSIONS and api.max_version == 2 for api in response.api_keys)
        # The connection stays open.
        assert (await client.call(ApiVersionsRequest(), 2)).error_code == 0


async def test_an_unknown_api_ends_the_connection() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        await client.stream.send(b"\0\0\0\x0a" + b"\x03\xe7\0\0\0\0\0\x01\xff\xff")
        assert await client.is_closed()
        assert len(cluster.protocol_errors) == 1


async def test_a_version_above_the_cap_ends_the_connection() -> None:
    async with (
        EmbeddedCluster(brokers=1, max_versions={"Metadata": 9}) as cluster,
        connected(cluster.address(1)) as client,
    ):
        assert (await client.call(MetadataRequest(topics=None), 9)).brokers
        await client.send(MetadataRequest(topics=None), 10)
        assert await client.is_closed()


@pytest.mark.both_loops
async def test_garbage_ends_the_connection() -> None:
    async with EmbeddedCluster(brokers=1) as cluster:
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x05hello", b"\x80\0\0\0", b"\0\0\0\0"):
            async with connected(cluster.address(1)) as client:
                await client.stream.send(garbage)
                assert await client.is_closed()
        async with connected(cluster.address(1)) as client:
            assert (await client.call(MetadataRequest(topics=None))).brokers
