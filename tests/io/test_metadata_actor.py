"""The metadata actor against embedded brokers: topics, refreshes, hints."""

from __future__ import annotations

import time

import anyio
import pytest

from aiokafka_lead._core.metadata.types import ClusterSnapshot, Moved, TopicMetadata
from aiokafka_lead._io.connection.settings import Lane
from aiokafka_lead._wire import decode_response, encode_response
from aiokafka_lead._wire.messages.metadata import MetadataResponse
from aiokafka_lead.errors import (
    ClientClosedError,
    InvalidTopicError,
    KafkaError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .metadata_support import make_client, running, true_hint, until

pytestmark = pytest.mark.anyio


async def test_bootstrap_knows_the_brokers_and_no_topic() -> None:
    async with EmbeddedCluster(3) as cluster, running(cluster) as client:
        await cluster.create_topic("other")
        snapshot = client.metadata.snapshot
        assert {f"{node.host}:{node.port}" for node in snapshot.brokers.values()} == set(
            cluster.bootstrap_servers.split(",")
        )
        assert set(snapshot.brokers) == set(cluster.broker_ids)
        assert snapshot.cluster_id == cluster.cluster_id
        assert snapshot.topics == {}


async def test_topics_wanted_before_the_start_are_known_after_it() -> None:
    async with EmbeddedCluster(1) as cluster:
        await cluster.create_topic("t", 3)
        client = make_client(cluster.bootstrap_servers)
        client.metadata.add_topics(["t"])
        await client.start()
        try:
            assert client.metadata.snapshot.partition_count("t") == 3
        finally:
            await client.stop()


# --- topics ----------------------------------------------------------------------------------------------------------


async def test_a_known_topic_needs_no_request() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        await cluster.create_topic("t", 2)
        first = await client.metadata.topic("t", 5000)
        cluster.requests.clear()
        assert await client.metadata.topic("t", 5000) is first
        assert cluster.requests.count("Metadata") == 0
        assert (first.name, len(first.partitions)) == ("t", 2)


@again_if_late(300, 4_000)
async def test_an_unknown_topic_is_named_after_the_timeout(timeout_ms: int) -> None:
    async with (
        EmbeddedCluster(1) as cluster,
        running(cluster, allow_auto_create_topics=False, retry_backoff_ms=100) as client,
    ):
        began = time.monotonic()
        with pytest.raises(UnknownTopicOrPartitionError, match=rf"'nowhere'.*within {timeout_ms} ms"):
            await client.metadata.topic("nowhere", timeout_ms)
        assert timeout_ms / 1000 <= time.monotonic() - began < 20
        assert "nowhere" not in cluster.topic_names()


async def test_no_stampede_for_an_unknown_topic() -> None:
    async with (
        EmbeddedCluster(1) as cluster,
        running(cluster, allow_auto_create_topics=False, retry_backoff_ms=100) as client,
    ):
        cluster.requests.clear()
        failures: list[KafkaError] = []

        async def ask() -> None:
            try:
                await client.metadata.topic("nowhere", 500)
            except KafkaError as error:
                failures.append(error)

        async with anyio.create_task_group() as callers:
            for _ in range(200):
                callers.start_soon(ask)
        assert len(failures) == 200
        # 10, 20, 40, ... milliseconds apart
        assert cluster.requests.count("Metadata") <= 10


async def test_a_topic_that_appears_wakes_all_who_wait() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster, allow_auto_create_topics=False) as client:
        found: list[TopicMetadata] = []

        async def ask() -> None:
            found.append(await client.metadata.topic("late", 10_000))

        async with anyio.create_task_group() as callers:
            for _ in range(20):
                callers.start_soon(ask)
            cluster.requests.clear()
            await cluster.requests.wait_for("Metadata")
            await cluster.create_topic("late", 4)
        assert [len(topic.partitions) for topic in found] == [4] * 20


async def test_an_unknown_topic_is_not_asked_for_once_nobody_waits() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster, allow_auto_create_topics=False) as client:
        with pytest.raises((UnknownTopicOrPartitionError, RequestTimedOutError)):
            await client.metadata.topic("nowhere", 100)
        for _ in range(2):  # the first may be a lookup already in flight
            generation = client.metadata.snapshot.generation
            client.metadata.request_update()
            await client.metadata.wait_newer(generation, 5000)
        assert cluster.requests.select("Metadata")[-1].request.topics == []


async def test_topics_are_created_only_where_that_is_allowed() -> None:
    async with EmbeddedCluster(1, num_partitions=2) as cluster:
        async with running(cluster, allow_auto_create_topics=False) as client:
            with pytest.raises((UnknownTopicOrPartitionError, RequestTimedOutError)):
                await client.metadata.topic("new", 1000)
            assert "new" not in cluster.topic_names()
        async with running(cluster) as client:
            assert len((await client.metadata.topic("new", 5000)).partitions) == 2


async def test_a_refresh_does_not_create_a_deleted_topic_again() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        await client.metadata.topic("t", 5000)
        await cluster.delete_topic("t")
        client.metadata.request_update()
        await until(client, lambda snapshot: snapshot.topics["t"].error_code == UnknownTopicOrPartitionError.code)
        full = [r.request for r in cluster.requests.select("Metadata") if not r.request.allow_auto_topic_creation]
        assert full
        assert "t" not in cluster.topic_names()


async def test_topics_that_this_user_may_not_see_fail_at_once() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        await cluster.create_topic("secret")
        cluster.faults.add("Metadata", topic="secret", error_code=TopicAuthorizationFailedError)
        began = time.monotonic()
        with pytest.raises(TopicAuthorizationFailedError, match="secret"):
            await client.metadata.topic("secret", 30_000)
        assert time.monotonic() - began < 20
        cluster.faults.clear()
        assert (await client.metadata.topic("secret", 5000)).name == "secret"


async def test_an_invalid_topic_name_fails_at_once() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        with pytest.raises(InvalidTopicError, match="no good name"):
            await client.metadata.topic("no good name", 30_000)


async def test_all_topics_and_back() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        for name in ("a", "b", "c"):
            await cluster.create_topic(name)
        client.metadata.add_topics(["b"])
        client.metadata.set_all_topics(True)
        await until(client, lambda snapshot: set(snapshot.topics) >= {"a", "b", "c"})
        await cluster.delete_topic("c")
        client.metadata.request_update()
        await until(client, lambda snapshot: "c" not in snapshot.topics)
        client.metadata.set_all_topics(False)
        assert set(client.metadata.snapshot.topics) == {"b"}


async def test_removed_topics_are_forgotten() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        await cluster.create_topic("t")
        client.metadata.add_topics(["t"])
        await until(client, lambda snapshot: snapshot.partition_count("t") == 1)
        client.metadata.remove_topics(["t"])
        assert client.metadata.snapshot.topics == {}


# --- refreshes -------------------------------------------------------------------------------------------------------


async def test_rule_21_many_requests_during_a_refresh_are_one_more() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        slow = cluster.faults.add("Metadata", hold=True, count=1)
        cluster.requests.clear()
        client.metadata.request_update()
        await cluster.requests.wait_for("Metadata")
        for _ in range(1000):
            client.metadata.request_update()
        slow.release()
        await cluster.requests.wait_for("Metadata", count=2)
        generation = client.metadata.snapshot.generation
        with pytest.raises(RequestTimedOutError):
            await client.metadata.wait_newer(generation + 1, 300)
        assert cluster.requests.count("Metadata") == 2


async def test_periodic_refresh() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster, metadata_max_age_ms=100) as client:
        await cluster.create_topic("t")
        client.metadata.add_topics(["t"])
        await until(client, lambda snapshot: snapshot.partition_count("t") == 1)
        await cluster.add_partitions("t", 5)
        await until(client, lambda snapshot: snapshot.partition_count("t") == 5)


async def test_a_broker_that_never_answers_does_not_hold_a_refresh_up() -> None:
    async with EmbeddedCluster(3) as cluster, running(cluster, request_timeout_ms=30_000) as client:
        await cluster.create_topic("t", 1)
        await client.metadata.topic("t", 5000)
        for silent in (1, 2):
            cluster.faults.add("Metadata", broker=silent, drop=True)
        await cluster.add_partitions("t", 2)
        began = time.monotonic()
        client.metadata.request_update()
        await until(client, lambda snapshot: snapshot.partition_count("t") == 2)
        assert time.monotonic() - began < 20


async def test_bootstrap_goes_on_to_the_next_server_while_one_is_silent() -> None:
    async with EmbeddedCluster(2) as cluster:
        cluster.faults.add("ApiVersions", broker=1, drop=True)
        began = time.monotonic()
        async with running(cluster, request_timeout_ms=30_000):
            assert time.monotonic() - began < 20


async def test_rule_28_start_waits_until_the_cluster_names_a_broker() -> None:
    async with EmbeddedCluster(1) as cluster:

        def without_brokers(whole: bytes) -> bytes:
            correlation_id, response = decode_response(MetadataResponse, 12, memoryview(whole)[4:])
            response.brokers = []
            return b"".join(encode_response(response, 12, correlation_id))

        cluster.max_versions["Metadata"] = 12
        cluster.faults.add("Metadata", garbage=without_brokers, count=1)
        async with running(cluster) as client:
            assert set(client.metadata.snapshot.brokers) == {1}
            assert client.metadata.metrics().refresh_failures == 1


async def test_rule_20_a_leaderless_partition_is_refreshed_until_it_has_a_leader() -> None:
    async with EmbeddedCluster(2) as cluster, running(cluster) as client:
        await cluster.create_topic("t", assignments=[[2]])
        await client.metadata.topic("t", 5000)
        await cluster.stop_broker(2)
        client.metadata.request_update()
        await until(client, lambda snapshot: snapshot.leader("t", 0)[0] == -1)
        await cluster.start_broker(2)
        await until(client, lambda snapshot: snapshot.leader("t", 0) == (2, cluster.leader_epoch("t")))
        assert cluster.requests.count("Metadata") < 30


async def test_losing_a_broker_refreshes() -> None:
    async with EmbeddedCluster(2) as cluster, running(cluster) as client:
        await cluster.create_topic("t", replication_factor=2)
        await client.metadata.topic("t", 5000)
        await client.brokers.get(1)
        await cluster.stop_broker(1)
        await until(client, lambda snapshot: snapshot.leader("t", 0)[0] == 2 and set(snapshot.brokers) == {2})


async def test_a_changed_address_is_followed() -> None:
    async with EmbeddedCluster(2) as cluster, running(cluster) as client:
        await cluster.change_address(2)
        client.metadata.request_update()
        await until(
            client,
            lambda snapshot: (
                2 in snapshot.brokers and f"{snapshot.brokers[2].host}:{snapshot.brokers[2].port}" == cluster.address(2)
            ),
        )
        connection = await client.brokers.get(2)
        assert connection.endpoint[1] == client.metadata.snapshot.brokers[2].port


async def test_listeners_see_each_snapshot_after_it_took_effect() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        seen: list[ClusterSnapshot] = []

        def listener(snapshot: ClusterSnapshot, moved: Moved) -> None:
            assert client.metadata.snapshot is snapshot
            seen.append(snapshot)

        client.metadata.add_listener(listener)
        await client.metadata.topic("t", 5000)
        assert seen[-1] is client.metadata.snapshot
        client.metadata.remove_listener(listener)
        count = len(seen)
        client.metadata.request_update()
        await client.metadata.wait_newer(seen[-1].generation, 5000)
        assert len(seen) == count


async def test_listeners_are_called_once_for_each_snapshot_with_what_differs_from_the_one_before() -> None:
    """A listener may cause another snapshot: later listeners are then called only with the new snapshot."""
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        await cluster.create_topic("t")
        await client.metadata.topic("t", 5000)
        before = client.metadata.snapshot
        seen: list[tuple[int, ClusterSnapshot, Moved]] = []

        def offer(epoch: int) -> None:
            hint = true_hint(cluster, "t")._replace(leader_epoch=epoch)
            assert client.metadata.offer_hints([hint]) == [True]

        def first(snapshot: ClusterSnapshot, moved: Moved) -> None:
            seen.append((1, snapshot, moved))
            if snapshot.leader("t", 0)[1] == 7:
                offer(8)

        client.metadata.add_listener(first)
        client.metadata.add_listener(lambda snapshot, moved: seen.append((2, snapshot, moved)))
        offer(7)
        middle, last = seen[0][1], client.metadata.snapshot
        assert [(number, snapshot, moved.before, moved.after) for number, snapshot, moved in seen] == [
            (1, middle, before, middle),
            (1, last, middle, last),
            (2, last, before, last),
        ]
        assert [moved.partitions for _, _, moved in seen] == [{("t", 0)}] * 3


# --- hints -----------------------------------------------------------------------------------------------------------


async def test_rule_8_a_hint_moves_the_leader_at_once_and_refreshes_too() -> None:
    async with EmbeddedCluster(3) as cluster, running(cluster) as client:
        await cluster.create_topic("t", 2, replication_factor=3)
        await client.metadata.topic("t", 5000)
        cluster.move_all_leaders("t")
        cluster.requests.clear()
        assert client.metadata.offer_hints([true_hint(cluster, "t", 0)]) == [True]
        leader = cluster.leader("t", 0)
        assert client.metadata.snapshot.leader("t", 0) == (leader, cluster.leader_epoch("t", 0))
        # The connection to the new leader is being opened; the refresh reports the other partition.
        assert (await client.brokers.get(leader, Lane.DATA)).ready
        await until(client, lambda snapshot: snapshot.leader("t", 1)[0] == cluster.leader("t", 1))
        assert cluster.requests.count("Metadata") >= 1


async def test_rule_8_rejected_hints_refresh_as_well() -> None:
    async with EmbeddedCluster(3) as cluster, running(cluster) as client:
        await cluster.create_topic("t", replication_factor=3)
        await client.metadata.topic("t", 5000)
        stale = true_hint(cluster, "t")
        cluster.move_leader("t")
        assert client.metadata.offer_hints([stale]) == [False]
        await until(client, lambda snapshot: snapshot.leader("t", 0)[0] == cluster.leader("t"))
        assert client.metadata.metrics().hints_rejected_stale == 1


async def test_rule_10_six_stale_answers_after_a_hint() -> None:
    async with EmbeddedCluster(3) as cluster, running(cluster) as client:
        await cluster.create_topic("t", replication_factor=3)
        await client.metadata.topic("t", 5000)
        cluster.freeze_metadata(6)
        cluster.move_leader("t")
        hinted = (cluster.leader("t"), cluster.leader_epoch("t"))
        cluster.requests.clear()
        leaders: set[tuple[int, int]] = set()
        client.metadata.add_listener(lambda snapshot, moved: leaders.add(snapshot.leader("t", 0)))
        assert client.metadata.offer_hints([true_hint(cluster, "t")]) == [True]
        # Seven answers: six are stale, and each of them makes the client ask again.
        refreshes = client.metadata.metrics().refreshes
        await until(client, lambda _: client.metadata.metrics().refreshes >= refreshes + 7)
        assert leaders == {hinted}
        assert client.metadata.metrics().stale_partitions == 6


async def test_rule_10_stale_answers_make_it_ask_another_broker() -> None:
    async with EmbeddedCluster(3) as cluster, running(cluster) as client:
        await cluster.create_topic("t", replication_factor=3)
        await client.metadata.topic("t", 5000)
        cluster.move_leader("t")
        for lagging in (1, 2):
            cluster.freeze_metadata(1000, broker=lagging)
        cluster.move_leader("t")
        client.metadata.offer_hints([true_hint(cluster, "t")])
        cluster.requests.clear()
        await cluster.requests.wait_for("Metadata", broker=3)


# --- closing ---------------------------------------------------------------------------------------------------------


async def test_stopping_ends_every_wait() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster, allow_auto_create_topics=False) as client:
        errors: list[Exception] = []

        async def wait_for_topic() -> None:
            try:
                await client.metadata.topic("nowhere", 60_000)
            except KafkaError as error:
                errors.append(error)

        async def wait_for_snapshot() -> None:
            try:
                await client.metadata.wait_newer(10**9, 60_000)
            except KafkaError as error:
                errors.append(error)

        async with anyio.create_task_group() as callers:
            callers.start_soon(wait_for_topic)
            callers.start_soon(wait_for_snapshot)
            cluster.requests.clear()
            await cluster.requests.wait_for("Metadata")
            await client.stop()
        assert [type(error) for error in errors] == [ClientClosedError, ClientClosedError]
        with pytest.raises(ClientClosedError):
            await client.metadata.topic("t", 1000)
