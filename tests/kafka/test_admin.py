"""The admin client against real Kafka, on every release."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from aiokafka_lead import AdminClient, TopicPartition
from aiokafka_lead.admin import (
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)
from aiokafka_lead.errors import (
    BrokerIdNotRegisteredError,
    InvalidReplicationFactorError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from .harness import KafkaCluster
from .support import make_producer

pytestmark = pytest.mark.anyio

TopicName = Callable[[], str]


async def eventually(met: Callable[[], Awaitable[bool]], timeout_s: float = 60) -> None:
    """Ask until the condition holds: brokers learn of changes in turn, without an event."""
    with anyio.fail_after(timeout_s):
        while not await met():  # noqa: ASYNC110
            await anyio.sleep(0.05)


async def described(admin: AdminClient, topic: str, met: Callable[[TopicDescription], bool]) -> TopicDescription:
    """Return the topic once the condition holds."""
    found: list[TopicDescription] = []

    async def seen() -> bool:
        found.append((await admin.describe_topics([topic]))[topic])
        return met(found[-1])

    await eventually(seen)
    return found[-1]


async def test_topics(any_kafka: KafkaCluster, topic_name: TopicName) -> None:
    brokers = len(any_kafka.broker_ids)
    topic = topic_name()
    async with AdminClient(any_kafka.bootstrap()) as admin:
        created = await admin.create_topics([NewTopic(topic, 2, brokers, topic_configs={"retention.ms": "3600000"})])
        # The first releases with KRaft do not return configurations here.
        assert created[topic].configs.get("retention.ms", "3600000") == "3600000"
        with pytest.raises(TopicAlreadyExistsError, match=topic):
            await admin.create_topics([NewTopic(topic)])
        with pytest.raises(InvalidReplicationFactorError):
            await admin.create_topics([NewTopic(topic_name(), 1, brokers + 1)])
        found = await described(admin, topic, lambda found: len(found.partitions) == 2)
        assert {len(partition.replicas) for partition in found.partitions} == {brokers}
        if any_kafka.release.producer_ids:  # the very first release with KRaft cannot do this
            await admin.create_partitions({topic: 3})
            await described(admin, topic, lambda found: len(found.partitions) == 3)

        async def listed() -> bool:
            return topic in await admin.list_topics()

        await eventually(listed)

        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        await admin.incremental_alter_configs({resource: [ConfigChange("retention.ms", "7200000")]})

        async def altered() -> bool:
            return (await admin.describe_configs([resource]))[resource]["retention.ms"].value == "7200000"

        await eventually(altered)

        await admin.delete_topics([topic])
        with pytest.raises(UnknownTopicOrPartitionError):
            await described(admin, topic, lambda _: False)


async def test_the_configurations_of_brokers(any_kafka: KafkaCluster) -> None:
    """The error names a missing one long before the call's timeout."""
    own, unknown = (ConfigResource(ConfigResourceType.BROKER, name) for name in ("1", "99"))
    async with AdminClient(any_kafka.bootstrap()) as admin:
        with anyio.fail_after(120), pytest.raises(BrokerIdNotRegisteredError, match="no broker 99"):
            await admin.describe_configs([own, unknown], timeout_ms=10_000_000)
        with anyio.fail_after(120), pytest.raises(BrokerIdNotRegisteredError, match="no broker 99"):
            await admin.incremental_alter_configs(
                {unknown: [ConfigChange("log.cleaner.threads", "2")]}, timeout_ms=10_000_000
            )
        assert (await admin.describe_configs([own]))[own]


async def test_offsets_and_deleted_records(any_kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = topic_name()
    where = TopicPartition(topic, 0)
    async with AdminClient(any_kafka.bootstrap()) as admin:
        await admin.create_topics([NewTopic(topic, 1, len(any_kafka.broker_ids))])
        async with make_producer(any_kafka) as producer:
            for number in range(10):
                await producer.send_and_wait(topic, b"%d" % number, partition=0, timestamp_ms=1000 + number)

        async def offset(at: int) -> int | None:
            found = (await admin.list_offsets({where: at}))[where]
            return None if found is None else found.offset

        assert await offset(OffsetSpec.LATEST) == 10
        assert await offset(1007) == 7
        assert await offset(5000) is None
        if any_kafka.release.version >= "3":
            assert await offset(OffsetSpec.MAX_TIMESTAMP) == 9
        assert await admin.delete_records({where: 4}) == {where: 4}
        assert await offset(OffsetSpec.EARLIEST) == 4


async def test_leaders_are_moved_by_reassignment_and_election(kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = topic_name()
    where = TopicPartition(topic, 0)
    async with AdminClient(kafka.bootstrap()) as admin:
        await admin.create_topics([NewTopic(topic, replica_assignments={0: [1, 2, 3]})])
        await described(admin, topic, lambda found: found.partitions[0].leader_id == 1)
        await admin.alter_partition_reassignments({where: [3, 1, 2]})

        async def reassigned() -> bool:
            return not await admin.list_partition_reassignments()

        await eventually(reassigned)
        assert await admin.elect_leaders([where]) == {where: True}
        await described(admin, topic, lambda found: found.partitions[0].leader_id == 3)
        assert await admin.elect_leaders([where]) == {where: False}


async def test_the_cluster(any_kafka: KafkaCluster) -> None:
    async with AdminClient(any_kafka.bootstrap()) as admin:
        cluster = await admin.describe_cluster()
    assert [broker.node_id for broker in cluster.brokers] == any_kafka.broker_ids
    assert f"{cluster.brokers[0].host}:{cluster.brokers[0].port}" == any_kafka.address(cluster.brokers[0].node_id)
    assert cluster.cluster_id
