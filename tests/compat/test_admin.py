"""Answers of the admin client in aiokafka's form."""

from __future__ import annotations

from io import BytesIO

import pytest

from aiokafka_lead.admin import ConfigResource as NativeResource
from aiokafka_lead.admin import ConfigResourceType as NativeType
from aiokafka_lead.compat import AIOKafkaConsumer, TopicPartition
from aiokafka_lead.compat.admin import AIOKafkaAdminClient, NewTopic
from aiokafka_lead.compat.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka_lead.compat.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from aiokafka_lead.compat.errors import KafkaProtocolError
from aiokafka_lead.testing import EmbeddedCluster

pytestmark = pytest.mark.anyio


async def test_the_members_of_a_group(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    async with (
        AIOKafkaAdminClient(bootstrap_servers=servers) as admin,
        AIOKafkaConsumer("events", bootstrap_servers=servers, group_id="g"),
    ):
        for asked in (False, True):
            (answer,) = await admin.describe_consumer_groups(["g"], include_authorized_operations=asked)
            error, group, state, protocol_type, protocol, members = answer.groups[0]
            assert (error, group, state, protocol_type, protocol) == (0, "g", "Stable", "consumer", "roundrobin")
        ((_, _, _, metadata, assignment),) = members
    subscribed = ConsumerProtocolMemberMetadata.decode(metadata)
    assert subscribed.subscription == ["events"]
    assigned = ConsumerProtocolMemberAssignment.decode(BytesIO(assignment))
    assert assigned.assignment == [("events", [0, 1])]
    assert assigned.partitions() == [TopicPartition("events", 0), TopicPartition("events", 1)]


async def test_a_group_that_does_not_exist_is_dead_without_an_error(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        (answer,) = await admin.describe_consumer_groups(["unknown"])
        assert answer.groups == [(0, "unknown", "Dead", "", "", [])]


def test_members_messages_are_encoded_and_decoded() -> None:
    subscribed = ConsumerProtocolMemberMetadata(0, ["a", "b"], b"data")
    assert subscribed.encode() == bytes.fromhex("0000000000020001610001620000000464617461")
    assert ConsumerProtocolMemberMetadata.decode(subscribed.encode()) == subscribed
    assigned = ConsumerProtocolMemberAssignment(0, [("a", [0, 2])], b"")
    assert assigned.encode() == bytes.fromhex("000000000001000161000000020000000000000002 00000000")
    assert ConsumerProtocolMemberAssignment.decode(assigned.encode()) == assigned
    for kind in (ConsumerProtocolMemberMetadata, ConsumerProtocolMemberAssignment):
        with pytest.raises(KafkaProtocolError):
            kind.decode(b"\0\0\0")


async def test_configs_may_be_numbers_and_a_time_limit_of_0_is_none(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:

        async def retention() -> str | None:
            found = await admin._native.describe_configs([NativeResource(NativeType.TOPIC, "t")])
            return found[NativeResource(NativeType.TOPIC, "t")]["retention.ms"].value

        configs = {"retention.ms": 60_000, "preallocate": None}
        answer = await admin.create_topics([NewTopic("t", 1, 1, topic_configs=configs)], timeout_ms=0)  # type: ignore[arg-type]
        assert answer.topic_errors == [("t", 0, None)]
        assert await retention() == "60000"
        resource = ConfigResource(ConfigResourceType.TOPIC, "t", {"retention.ms": 70_000})  # type: ignore[dict-item]
        (altered,) = await admin.alter_configs([resource])
        assert altered.resources[0][0] == 0
        assert await retention() == "70000"


async def test_the_first_response_of_alter_configs_is_for_topics(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        broker_id = str((await admin.describe_cluster())["brokers"][0]["node_id"])
        of_topics, of_broker = await admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, broker_id, {})])
        assert of_topics.resources == []
        assert [name for _, _, _, name in of_broker.resources] == [broker_id]


async def test_configs_are_not_all_reset_by_mistake(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        with pytest.raises(TypeError, match="pass the configs to set for 'events'"):
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "events")])
