"""Consumers of topics and partitions that the cluster does not have."""

from __future__ import annotations

import logging
import time
from typing import Any

import anyio.lowlevel
import pytest

from aiokafka_lead import Client, TopicPartition
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.errors import UnknownTopicOrPartitionError
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import E0, consumer_of, fill, numbers, take, values

pytestmark = pytest.mark.anyio

E9 = TopicPartition("events", 9)
NOWHERE = TopicPartition("nowhere", 0)
SOON_S = 20
"""Much shorter than ``default_api_timeout_ms``."""


@pytest.fixture
async def consumer(cluster: EmbeddedCluster) -> Consumer[Any, Any]:
    return consumer_of(cluster, allow_auto_create_topics=False)


def _of_consumer(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return what consumers have logged, except that the machine was late."""
    found = [record for record in caplog.records if record.name == "aiokafka_lead.consumer"]
    return [record for record in found if "the event loop was blocked" not in record.getMessage()]


async def warning(caplog: pytest.LogCaptureFixture) -> str:
    """Wait for the warning that a consumer logs, and return it."""
    with anyio.fail_after(SOON_S):
        while not (found := _of_consumer(caplog)):  # noqa: ASYNC110 (no event)
            await anyio.sleep(0.01)
    (only,) = found
    assert only.levelname == "WARNING"
    return only.getMessage()


async def test_the_position_of_a_partition_that_does_not_exist(
    cluster: EmbeddedCluster, consumer: Consumer[Any, Any]
) -> None:
    async with consumer:
        consumer.assign([E0, E9])
        for _ in range(2):
            began = time.monotonic()
            with (
                anyio.fail_after(SOON_S),
                pytest.raises(UnknownTopicOrPartitionError, match="events-9: topic 'events' has partitions 0 to 2"),
            ):
                await consumer.position(E9)
            assert time.monotonic() - began >= 0.9, "a broker may not have heard of a new partition yet"
        assert await consumer.position(E0) == 0
        cluster.add_partitions("events", 10)
        assert await consumer.position(E9) == 0


@again_if_late(1_500, 8_000)
async def test_the_position_in_a_topic_that_does_not_exist(timeout_ms: int, cluster: EmbeddedCluster) -> None:
    """The topic may be about to be created, so the call waits until its timeout."""
    options: dict[str, Any] = {"default_api_timeout_ms": timeout_ms, "allow_auto_create_topics": False}
    async with consumer_of(cluster, **options) as consumer:
        consumer.assign([NOWHERE])
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere-0: the cluster has no such topic"):
            await consumer.position(NOWHERE)


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("partition", "getmany"),
        ("partition", "getone"),
        ("topic", "iteration"),
        ("topic of a partition", "batches"),
        ("topic of a group", "getmany"),
    ],
)
async def test_reading_says_in_the_log_what_is_not_there(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture, what: str, how: str
) -> None:
    group_id = "g" if what == "topic of a group" else None
    consumer = consumer_of(cluster, allow_auto_create_topics=False, group_id=group_id)
    match what:
        case "partition":
            consumer.assign([E0, E9])
        case "topic of a partition":
            consumer.assign([E0, NOWHERE])
        case _:
            consumer.subscribe(["events", "nowhere"])

    async def read() -> None:
        match how:
            case "getmany":
                while True:
                    assert await consumer.getmany(timeout_ms=10) == {}
            case "getone":
                await consumer.getone()
            case "iteration":
                async for _ in consumer:
                    pass
            case "batches":
                async for _ in consumer.batches():
                    pass

    async with consumer, anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        name = "events-9" if what == "partition" else "nowhere"
        assert f"cannot read {name}: the cluster does not have it" in await warning(caplog)
        assert consumer.health().absent == (name,)
        assert consumer.health().healthy
        tasks.cancel_scope.cancel()


async def test_a_topic_that_another_client_has_looked_for_in_vain(cluster: EmbeddedCluster) -> None:
    """Metadata that clients share already knows that the topic is missing."""
    async with (
        Client(cluster.bootstrap_servers, allow_auto_create_topics=False) as client,
        client.consumer("events", "nowhere") as other,
        client.consumer("events") as consumer,
    ):
        with anyio.fail_after(SOON_S):
            while not other.health().absent:  # noqa: ASYNC110 (no event)
                await anyio.sleep(0.01)
            consumer.subscribe(["nowhere"])
            while consumer.health().absent != ("nowhere",):  # noqa: ASYNC110 (no event)
                await anyio.sleep(0.01)


async def test_a_warning_of_many_partitions_names_some(
    consumer: Consumer[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    absent = [TopicPartition("events", number) for number in range(10, 100)]
    consumer.assign([E0, *absent])
    async with consumer:
        names = ", ".join(map(str, absent[:5]))
        expected = f"cannot read {names}, 85 more: the cluster does not have it; the client keeps looking for it"
        assert expected in await warning(caplog)
        assert len(consumer.health().absent) == len(absent)


async def test_a_partition_that_is_made_later_is_read(cluster: EmbeddedCluster, consumer: Consumer[Any, Any]) -> None:
    """It is found long before metadata is ``metadata_max_age_ms`` old."""
    consumer.assign([TopicPartition("events", 3)])
    async with consumer:
        cluster.add_partitions("events", 4)
        await fill(cluster, values(2), partition=3)
        with anyio.fail_after(SOON_S):
            assert numbers(await take(consumer, 2)) == [0, 1]
        assert consumer.health().absent == ()


@pytest.mark.parametrize("timeout_ms", [0, 50])
async def test_reads_raise_when_a_partition_stays_unknown(cluster: EmbeddedCluster, timeout_ms: float) -> None:
    options: dict[str, Any] = {"default_api_timeout_ms": 300, "allow_auto_create_topics": False}
    async with consumer_of(cluster, **options) as consumer:
        consumer.assign([E0, E9, NOWHERE])
        found: set[str] = set()
        with anyio.fail_after(SOON_S):
            while len(found) < 2:
                try:
                    await consumer.getmany(timeout_ms=timeout_ms)
                    await anyio.lowlevel.checkpoint()
                except UnknownTopicOrPartitionError as error:
                    found.add(str(error).split(" cannot be read")[0].split(" ", 1)[-1])
    assert len(found) == 2
