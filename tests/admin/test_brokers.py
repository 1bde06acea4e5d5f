"""Configurations, log directories and descriptions of brokers and of the cluster, on the embedded cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import Producer
from aiokafka_lead._core.admin import BRIEF_TRIES
from aiokafka_lead.admin import (
    AdminClient,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    outcomes_of,
)
from aiokafka_lead.errors import (
    BrokerIdNotRegisteredError,
    ClusterAuthorizationFailedError,
    InvalidRequestError,
    KafkaError,
    LogDirNotFoundError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.types import TopicPartition

from ..patience import again_if_late
from .support import make_admin

pytestmark = pytest.mark.anyio


async def test_configurations() -> None:
    async with EmbeddedCluster(2) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t", configs={"retention.ms": "1000"})
        resource = ConfigResource(ConfigResourceType.TOPIC, "t")
        configs = (await admin.describe_configs([resource]))[resource]
        assert configs["retention.ms"].value == "1000"
        assert configs["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
        assert not configs["retention.ms"].is_default
        await admin.incremental_alter_configs(
            {
                resource: [
                    ConfigChange("cleanup.policy", "compact"),
                    ConfigChange("retention.ms", None, ConfigOperation.DELETE),
                ]
            }
        )
        configs = (await admin.describe_configs([resource], names=["cleanup.policy", "retention.ms"]))[resource]
        assert configs["cleanup.policy"].value == "compact"
        assert "retention.ms" not in configs or configs["retention.ms"].is_default
        with pytest.raises(UnknownTopicOrPartitionError):
            await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "nowhere")])


OLD_AND_NEW: list[dict[Any, int]] = [{}, {"DescribeCluster": 1}, {"DescribeCluster": -1}]


@pytest.mark.parametrize("max_versions", OLD_AND_NEW)
@pytest.mark.parametrize("kind", [ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER])
async def test_the_configurations_of_a_broker_that_does_not_exist(
    kind: ConfigResourceType, max_versions: dict[Any, int]
) -> None:
    """The error names it long before the call's timeout, which exceeds the test's."""
    unknown = ConfigResource(kind, "99")
    async with EmbeddedCluster(2, max_versions=max_versions) as cluster, make_admin(cluster) as admin:
        with anyio.fail_after(120), pytest.raises(BrokerIdNotRegisteredError, match=r"no broker 99.* 1, 2"):
            await admin.describe_configs([unknown], timeout_ms=10_000_000)
        change = ConfigChange("log.cleaner.threads", "2")
        with anyio.fail_after(120), pytest.raises(BrokerIdNotRegisteredError, match="no broker 99"):
            await admin.incremental_alter_configs({unknown: [change]}, timeout_ms=10_000_000)


async def test_a_name_that_is_no_broker_id_is_left_to_the_cluster() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        for name in ("\N{SUPERSCRIPT TWO}", "\N{ARABIC-INDIC DIGIT ONE}", "-1"):
            with pytest.raises(InvalidRequestError, match=name):
                await admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, name)])


async def test_log_directories() -> None:
    here, there = TopicPartition("t", 0), TopicPartition("t", 1)
    async with EmbeddedCluster(2) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t", assignments=[[1], [2]])
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("t", b"v", partition=0)
        found = await admin.describe_log_dirs([1, 2])
        ((path, first),) = found[1].items()
        assert not isinstance(first, KafkaError)
        assert list(first.replicas) == [here]
        assert first.replicas[here].size > 0
        none = (await admin.describe_log_dirs([2], partitions=[here]))[2][path]
        assert not isinstance(none, KafkaError)
        assert none.replicas == {}
        await admin.alter_replica_log_dirs({(here, 1): path, (there, 2): path})
        with pytest.raises(LogDirNotFoundError, match="t-0 on broker 1") as caught:
            await admin.alter_replica_log_dirs({(here, 1): "/elsewhere", (there, 2): path})
        assert caught.value.outcomes is not None
        assert caught.value.outcomes[there, 2] is None


async def test_brokers_before_3_2_show_no_directories_to_a_user_without_rights() -> None:
    async with EmbeddedCluster(1, max_versions={"DescribeLogDirs": 2}) as cluster, make_admin(cluster) as admin:
        cluster.faults.add("DescribeLogDirs", error_code=ClusterAuthorizationFailedError)
        with pytest.raises(ClusterAuthorizationFailedError, match="broker 1"):
            await admin.describe_log_dirs([1])


OF_A_BROKER: dict[str, tuple[str, Callable[[AdminClient, int], Awaitable[Any]]]] = {
    "configurations": (
        "DescribeConfigs",
        lambda admin, broker: admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, str(broker))]),
    ),
    "directories": ("DescribeLogDirs", lambda admin, broker: admin.describe_log_dirs([broker])),
    "moves": (
        "AlterReplicaLogDirs",
        lambda admin, broker: admin.alter_replica_log_dirs({(TopicPartition("t", 0), broker): "/var/lib/kafka"}),
    ),
    "features": ("ApiVersions", lambda admin, broker: admin.describe_features(broker_id=broker)),
}


@pytest.mark.parametrize("what", OF_A_BROKER)
async def test_a_broker_that_is_new_or_moved_or_lost_once_is_asked_again(what: str) -> None:
    api, ask = OF_A_BROKER[what]
    async with EmbeddedCluster(2) as cluster, make_admin(cluster) as admin:
        await admin.describe_cluster()
        new = await cluster.add_broker()
        await cluster.create_topic("t", assignments=[[1, 2, new]])
        await ask(admin, new)
        await cluster.change_address(2)
        await ask(admin, 2)
        cluster.faults.add(api, broker=1, disconnect=True, count=1)
        await ask(admin, 1)


@pytest.mark.parametrize("what", OF_A_BROKER)
async def test_a_broker_is_asked_before_the_client_knows_any(what: str) -> None:
    _, ask = OF_A_BROKER[what]
    async with EmbeddedCluster(2) as cluster:
        await cluster.create_topic("t", assignments=[[1, 2]])
        admin = make_admin(cluster)
        await admin.start(wait=False)
        try:
            await ask(admin, 2)
        finally:
            await admin.stop()


@again_if_late(500, 5_000)
async def test_a_broker_of_a_cluster_that_cannot_be_reached(timeout_ms: int) -> None:
    async with EmbeddedCluster(1) as cluster:
        await cluster.stop_broker(1)
        admin = make_admin(cluster)
        await admin.start(wait=False)
        try:
            with pytest.raises(RequestTimedOutError, match=f"{cluster.bootstrap_servers}: cannot connect"):
                await admin.describe_log_dirs([1], timeout_ms=timeout_ms)
        finally:
            await admin.stop()


@again_if_late(1_500, 8_000)
async def test_brokers_that_are_down_have_errors_of_their_own(timeout_ms: int) -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        await admin.describe_cluster()
        for broker in (1, 2):
            cluster.faults.add("DescribeLogDirs", broker=broker, disconnect=True)
        found = await outcomes_of(admin.describe_log_dirs([1, 2, 3], timeout_ms=timeout_ms))
        for broker in (1, 2):
            assert f"[broker {broker} (" in str(found[broker])
        assert not isinstance(found[3], KafkaError)


@pytest.mark.parametrize("max_versions", OLD_AND_NEW)
async def test_the_directories_of_a_broker_that_does_not_exist(max_versions: dict[Any, int]) -> None:
    async with EmbeddedCluster(2, max_versions=max_versions) as cluster, make_admin(cluster) as admin:
        with anyio.fail_after(120), pytest.raises(BrokerIdNotRegisteredError, match=r"no broker 99.* 1, 2"):
            await admin.describe_log_dirs([99], timeout_ms=10_000_000)
        with anyio.fail_after(120), pytest.raises(BrokerIdNotRegisteredError, match="no broker 99"):
            await admin.alter_replica_log_dirs({(TopicPartition("events", 0), 99): "/logs"}, timeout_ms=10_000_000)


async def test_a_user_that_may_not_describe_the_cluster_hears_of_a_broker_that_does_not_exist() -> None:
    async with EmbeddedCluster(2) as cluster, make_admin(cluster) as admin:
        cluster.faults.add("DescribeCluster", error_code=ClusterAuthorizationFailedError)
        with pytest.raises(BrokerIdNotRegisteredError):
            await admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "99")])


@pytest.mark.parametrize("max_versions", OLD_AND_NEW)
async def test_the_configurations_of_a_broker_that_restarts(max_versions: dict[Any, int]) -> None:
    """It is down for longer than the client looks for a missing broker, so the call waits."""
    own = ConfigResource(ConfigResourceType.BROKER, "2")
    async with EmbeddedCluster(2, max_versions=max_versions) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t", assignments=[[2]])
        await cluster.stop_broker(2)
        assert list(await admin.list_topics()) == ["t"]
        cluster.requests.clear()

        async def restart() -> None:
            """Restart the broker once the admin client has looked for it more often than for a missing broker."""
            await cluster.requests.wait_for("Metadata", count=2 * BRIEF_TRIES, timeout_ms=120_000)
            await cluster.start_broker(2)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(restart)
            assert own in await admin.describe_configs([own], timeout_ms=300_000)


async def test_the_cluster() -> None:
    async with EmbeddedCluster(3, racks=["x", "y", None]) as cluster, make_admin(cluster) as admin:
        described = await admin.describe_cluster()
        assert described.cluster_id == cluster.cluster_id
        assert [(b.node_id, f"{b.host}:{b.port}", b.rack) for b in described.brokers] == [
            (1, cluster.address(1), "x"),
            (2, cluster.address(2), "y"),
            (3, cluster.address(3), None),
        ]


async def test_the_cluster_as_old_brokers_describe_it() -> None:
    async with EmbeddedCluster(2, max_versions={"DescribeCluster": -1}) as cluster, make_admin(cluster) as admin:
        described = await admin.describe_cluster()
        assert (described.cluster_id, [b.node_id for b in described.brokers]) == (cluster.cluster_id, [1, 2])
        with pytest.raises(UnsupportedVersionError):
            await admin.describe_cluster(include_fenced_brokers=True)
