"""An embedded broker's answers to Fetch: records, sessions, long polls, epochs, other replicas."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from aiokafka_lead import errors
from aiokafka_lead._records import read_batches
from aiokafka_lead._wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from aiokafka_lead._wire.messages.metadata import MetadataRequest
from aiokafka_lead.testing import EmbeddedCluster

from .raw import RawClient, batch, connected
from .test_produce import produce

pytestmark = pytest.mark.anyio

BY_NAME = 12


def wanted(
    *offsets: int, topic: str = "t", max_bytes: int = 1_000_000, epoch: int = -1, last_epoch: int = -1, first: int = 0
) -> FetchTopic:
    """Return partitions 0, 1, ... from their offsets."""
    return FetchTopic(
        topic=topic,
        partitions=[
            FetchPartition(
                partition=first + index,
                fetch_offset=offset,
                partition_max_bytes=max_bytes,
                current_leader_epoch=epoch,
                last_fetched_epoch=last_epoch,
            )
            for index, offset in enumerate(offsets)
        ],
    )


def fetch_request(*topics: FetchTopic, **fields: Any) -> FetchRequest:
    return FetchRequest(topics=list(topics), **{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 10_000_000, **fields})


def values(data: PartitionData) -> list[bytes | None]:
    assert data.records is not None
    return [record.value for view in read_batches(data.records) for record in view.records("t", 0)]


def partitions_of(response: FetchResponse) -> dict[int, PartitionData]:
    return {part.partition_index: part for topic in response.responses for part in topic.partitions}


@asynccontextmanager
async def one_broker(partitions: int = 1) -> AsyncIterator[tuple[EmbeddedCluster, RawClient]]:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t", partitions)
        yield cluster, client


async def test_whole_batches_from_the_one_that_holds_the_offset() -> None:
    async with one_broker() as (_, client):
        await produce(client, batch(b"a", b"b"))
        await produce(client, batch(b"c"))
        data = partitions_of(await client.call(fetch_request(wanted(1)), BY_NAME))[0]
        assert values(data) == [b"a", b"b", b"c"]
        assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (3, 3, 0)
        data = partitions_of(await client.call(fetch_request(wanted(3)), BY_NAME))[0]
        assert data.error_code == 0
        assert not data.records


async def test_limits_let_at_least_one_batch_through() -> None:
    async with one_broker(2) as (_, client):
        for partition in (0, 1):
            for _ in range(3):
                await produce(client, batch(b"x" * 1000), partition=partition)
        both = partitions_of(await client.call(fetch_request(wanted(0, 0, max_bytes=10)), BY_NAME))
        assert len(values(both[0])) == 1
        assert not both[1].records
        some = partitions_of(await client.call(fetch_request(wanted(0, 0), max_bytes=2500), BY_NAME))
        assert (len(values(some[0])), len(some[1].records or b"")) == (2, 0)
        all_of_it = partitions_of(await client.call(fetch_request(wanted(0, 0, max_bytes=2500)), BY_NAME))
        assert [len(values(all_of_it[p])) for p in (0, 1)] == [2, 2]


async def test_offsets_outside_the_log() -> None:
    async with one_broker() as (cluster, client):
        await produce(client, batch(b"a", b"b", b"c"))
        await produce(client, batch(b"d"))
        cluster.delete_records("t", 0, 3)
        for offset in (2, 5):
            # An error is answered at once, despite the client's maximum wait.
            data = partitions_of(await client.call(fetch_request(wanted(offset), max_wait_ms=60_000), BY_NAME))[0]
            assert data.error_code == errors.OffsetOutOfRangeError.code
        assert values(partitions_of(await client.call(fetch_request(wanted(3)), BY_NAME))[0]) == [b"d"]


async def test_a_long_poll_ends_with_records() -> None:
    async with one_broker() as (cluster, client), connected(cluster.address(1)) as producer:
        await client.send(fetch_request(wanted(0), max_wait_ms=30_000), BY_NAME)
        await cluster.wait_for_requests("Fetch")
        await produce(producer, batch(b"a"))
        _, response = await client.receive(FetchResponse, BY_NAME)
        assert values(partitions_of(response)[0]) == [b"a"]


async def test_a_long_poll_ends_with_its_time() -> None:
    async with one_broker() as (_, client):
        began = time.monotonic()
        data = partitions_of(await client.call(fetch_request(wanted(0), max_wait_ms=100), BY_NAME))[0]
        assert 0.09 < time.monotonic() - began < 20
        assert not data.records


async def test_min_bytes_are_waited_for() -> None:
    async with one_broker() as (cluster, client), connected(cluster.address(1)) as producer:
        await client.send(fetch_request(wanted(0), max_wait_ms=30_000, min_bytes=1000), BY_NAME)
        await cluster.wait_for_requests("Fetch")
        for _ in range(3):
            await produce(producer, batch(b"x" * 300))
        _, response = await client.receive(FetchResponse, BY_NAME)
        assert len(values(partitions_of(response)[0])) == 3


async def test_a_long_poll_holds_back_what_is_behind_it() -> None:
    """A broker serves a connection's requests one after another."""
    async with one_broker() as (cluster, client), connected(cluster.address(1)) as other:
        await client.send(fetch_request(wanted(0), max_wait_ms=300), BY_NAME)
        await client.send(MetadataRequest(topics=None), 12)
        assert (await other.call(MetadataRequest(topics=None), 12)).brokers
        await cluster.wait_for_requests("Fetch")
        assert cluster.requests.count("Metadata") == 1
        assert (await client.receive(FetchResponse, BY_NAME))[0] == 1
        assert (await client.receive(MetadataRequest.RESPONSE, 12))[0] == 2


async def test_a_long_poll_ends_when_the_leader_moves() -> None:
    async with EmbeddedCluster(brokers=2) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        topic = wanted(0, epoch=0)
        topic.topic, topic.topic_id = "", cluster.topic_id("t")
        await client.send(fetch_request(topic, max_wait_ms=30_000), 17)
        await cluster.wait_for_requests("Fetch")
        cluster.move_leader("t", 0, to=2)
        _, response = await client.receive(FetchResponse, 17)
        data = partitions_of(response)[0]
        assert data.error_code == errors.FencedLeaderEpochError.code
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 1)
        [endpoint] = response.node_endpoints
        assert f"{endpoint.host}:{endpoint.port}" == cluster.address(2)


async def test_a_topic_that_is_deleted_ends_a_long_poll() -> None:
    async with one_broker() as (cluster, client):
        topic = wanted(0)
        topic.topic, topic.topic_id = "", cluster.topic_id("t")
        await client.send(fetch_request(topic, max_wait_ms=30_000), 13)
        await cluster.wait_for_requests("Fetch")
        cluster.delete_topic("t")
        _, response = await client.receive(FetchResponse, 13)
        assert partitions_of(response)[0].error_code == errors.UnknownTopicIdError.code


async def test_a_client_that_goes_leaves_nothing_behind() -> None:
    async with one_broker() as (cluster, client):
        async with connected(cluster.address(1)) as leaving:
            await leaving.send(fetch_request(wanted(0), max_wait_ms=30_000), BY_NAME)
            await cluster.wait_for_requests("Fetch")
        with anyio.fail_after(20):
            while cluster.connection_count(1) > 1:
                await client.call(MetadataRequest(topics=[]), 12)
        assert (await produce(client, batch(b"a"))).error_code == 0


async def test_leader_epochs_are_compared() -> None:
    async with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("t", assignments=[[1, 2]])
        cluster.move_leader("t", 0, to=2)

        async def code(broker: int, epoch: int, version: int = 10) -> int:
            async with connected(cluster.address(broker)) as client:
                return partitions_of(await client.call(fetch_request(wanted(0, epoch=epoch)), version))[0].error_code

        assert await code(2, 1) == 0
        assert await code(2, -1) == 0
        assert await code(2, 0) == errors.FencedLeaderEpochError.code
        assert await code(2, 2) == errors.UnknownLeaderEpochError.code
        # A follower knows the epoch too; a broker without a replica does not.
        assert await code(1, 0) == errors.FencedLeaderEpochError.code
        assert await code(1, 1) == errors.NotLeaderOrFollowerError.code
        assert await code(3, 0) == errors.NotLeaderOrFollowerError.code
        # Since version 11 consumers may read from followers.
        assert await code(1, 1, version=11) == 0


async def test_a_truncated_log_diverges() -> None:
    async with one_broker() as (cluster, client):
        await produce(client, batch(b"a"))
        await produce(client, batch(b"b"))
        cluster.truncate("t", 0, 1)
        await produce(client, batch(b"c"))
        request = fetch_request(wanted(2, epoch=1, last_epoch=0), max_wait_ms=30_000)
        data = partitions_of(await client.call(request, BY_NAME))[0]
        assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 1)
        assert not data.records
        request = fetch_request(wanted(1, epoch=1, last_epoch=0))
        assert values(partitions_of(await client.call(request, BY_NAME))[0]) == [b"c"]


async def test_the_nearest_replica_is_named() -> None:
    async with EmbeddedCluster(brokers=3, racks=["a", "b", "c"]) as cluster:
        cluster.create_topic("t")

        async def nearest(broker: int, rack: str) -> int:
            async with connected(cluster.address(broker)) as client:
                request = fetch_request(wanted(0), rack_id=rack, max_wait_ms=10)
                return partitions_of(await client.call(request, BY_NAME))[0].preferred_read_replica

        assert await nearest(1, "b") == 2
        assert await nearest(1, "a") == -1
        assert await nearest(1, "elsewhere") == -1
        assert await nearest(1, "") == -1
        assert await nearest(2, "b") == -1
        await cluster.stop_broker(2)
        assert await nearest(1, "b") == -1


async def test_a_session_tells_only_what_is_new() -> None:
    async with one_broker(3) as (_, client):
        response = await client.call(fetch_request(wanted(0, 0, 0), session_epoch=0), BY_NAME)
        session = response.session_id
        assert session > 0
        assert sorted(partitions_of(response)) == [0, 1, 2]
        # Without news the answer is empty.
        response = await client.call(fetch_request(session_id=session, session_epoch=1), BY_NAME)
        assert response.session_id == session
        assert not response.responses
        await produce(client, batch(b"a"), partition=1)
        response = await client.call(fetch_request(session_id=session, session_epoch=2), BY_NAME)
        assert sorted(partitions_of(response)) == [1]
        # Records come again until the client asks for later ones; after that the answer is empty.
        response = await client.call(fetch_request(session_id=session, session_epoch=3), BY_NAME)
        assert sorted(partitions_of(response)) == [1]
        response = await client.call(fetch_request(wanted(1, first=1), session_id=session, session_epoch=4), BY_NAME)
        assert not response.responses


async def test_a_session_forgets_partitions_and_ends_with_the_last() -> None:
    async with one_broker(2) as (_, client):
        await produce(client, batch(b"a"), partition=0)
        await produce(client, batch(b"a"), partition=1)
        session = (await client.call(fetch_request(wanted(0, 0), session_epoch=0), BY_NAME)).session_id
        forget = [ForgottenTopic(topic="t", partitions=[0])]
        request = fetch_request(session_id=session, session_epoch=1, forgotten_topics_data=forget)
        assert sorted(partitions_of(await client.call(request, BY_NAME))) == [1]
        forget = [ForgottenTopic(topic="t", partitions=[1])]
        request = fetch_request(session_id=session, session_epoch=2, forgotten_topics_data=forget)
        response = await client.call(request, BY_NAME)
        assert (response.session_id, response.error_code, response.responses) == (0, 0, [])
        response = await client.call(fetch_request(session_id=session, session_epoch=3), BY_NAME)
        assert response.error_code == errors.FetchSessionIdNotFoundError.code


async def test_session_errors() -> None:
    async with one_broker() as (cluster, client):
        assert (
            await client.call(fetch_request(session_id=77, session_epoch=1), BY_NAME)
        ).error_code == errors.FetchSessionIdNotFoundError.code
        session = (await client.call(fetch_request(wanted(0), session_epoch=0), BY_NAME)).session_id
        assert (
            await client.call(fetch_request(session_id=session, session_epoch=5), BY_NAME)
        ).error_code == errors.InvalidFetchSessionEpochError.code
        assert (
            await client.call(fetch_request(session_id=session, session_epoch=1), 13)
        ).error_code == errors.FetchSessionTopicIdError.code
        # A full request with the old id closes it and opens another.
        following = await client.call(fetch_request(wanted(0), session_id=session, session_epoch=0), BY_NAME)
        assert following.session_id not in (0, session)
        assert (
            await client.call(fetch_request(session_id=session, session_epoch=1), BY_NAME)
        ).error_code == errors.FetchSessionIdNotFoundError.code
        # A restarted broker has no sessions.
        await cluster.stop_broker(1)
        await cluster.start_broker(1)
        async with connected(cluster.address(1)) as again:
            request = fetch_request(session_id=following.session_id, session_epoch=1)
            assert (await again.call(request, BY_NAME)).error_code == errors.FetchSessionIdNotFoundError.code


async def test_sessions_that_were_idle_longest_make_room() -> None:
    async with EmbeddedCluster(brokers=1, fetch_session_slots=2) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        first, second, third = [
            (await client.call(fetch_request(wanted(0), session_epoch=0), BY_NAME)).session_id for _ in range(3)
        ]
        answers = [
            (await client.call(fetch_request(session_id=session, session_epoch=1), BY_NAME)).error_code
            for session in (first, second, third)
        ]
        assert answers == [errors.FetchSessionIdNotFoundError.code, 0, 0]


async def test_a_session_rotates_its_partitions() -> None:
    """Partitions with records come last next time, so that full answers starve none."""
    async with one_broker(2) as (_, client):
        for partition in (0, 1):
            for _ in range(2):
                await produce(client, batch(b"x" * 1000), partition=partition)
        response = await client.call(fetch_request(wanted(0, 0), session_epoch=0, max_bytes=10), BY_NAME)
        session = response.session_id
        assert [p for p, data in partitions_of(response).items() if data.records] == [0]
        response = await client.call(fetch_request(session_id=session, session_epoch=1, max_bytes=10), BY_NAME)
        assert [p for p, data in partitions_of(response).items() if data.records] == [0]
        response = await client.call(fetch_request(session_id=session, session_epoch=2, max_bytes=10), BY_NAME)
        assert [p for p, data in partitions_of(response).items() if data.records] == [1]
