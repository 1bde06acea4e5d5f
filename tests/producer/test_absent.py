"""Producers to topics that the cluster does not have."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from aiokafka_lead import Client, Producer
from aiokafka_lead.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from aiokafka_lead.testing import EmbeddedCluster

pytestmark = pytest.mark.anyio

SOON_S = 20
"""Much shorter than ``max_block_ms``."""

OPTIONS: dict[str, Any] = {"allow_auto_create_topics": False, "max_block_ms": 60_000, "close_timeout_ms": 100}


async def send_nowait(producer: Producer[Any, Any]) -> None:
    await producer.send_nowait("nowhere", b"v")


WAYS: dict[str, Callable[[Producer[Any, Any]], Coroutine[Any, Any, Any]]] = {
    "send": lambda producer: producer.send("nowhere", b"v"),
    "send_nowait": send_nowait,
    "send_many": lambda producer: producer.send_many("nowhere", [b"v"] * 3),
    "send_and_wait": lambda producer: producer.send_and_wait("nowhere", b"v"),
}


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log's warnings of that topic."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and "nowhere" in record.getMessage()
    ]


async def one_warning(caplog: pytest.LogCaptureFixture) -> str:
    with anyio.fail_after(SOON_S):
        while not (found := warnings_of(caplog)):  # noqa: ASYNC110 (no event)
            await anyio.sleep(0.01)
    (only,) = found
    return only


@pytest.mark.parametrize("transactional_id", [None, "t"])
@pytest.mark.parametrize("way", WAYS)
async def test_the_log_says_soon_that_a_topic_is_not_there(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture, way: str, transactional_id: str | None
) -> None:
    async with Producer(cluster.bootstrap_servers, transactional_id=transactional_id, **OPTIONS) as producer:
        if transactional_id is not None:
            await producer.begin_transaction()
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(WAYS[way], producer)
            said = await one_warning(caplog)
            assert "cannot find nowhere: the cluster does not have it; the client keeps looking for it" in said
            tasks.cancel_scope.cancel()


async def test_a_topic_is_named_once_whoever_sends_to_it(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(cluster.bootstrap_servers, allow_auto_create_topics=False) as client:
        for name in "a", "b":
            async with client.producer(client_id=name, max_block_ms=2500) as producer:
                with pytest.raises(UnknownTopicOrPartitionError):
                    await producer.send("nowhere", b"v")
        assert len(warnings_of(caplog)) == 1


async def test_nothing_is_said_of_a_topic_that_is_created(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("nowhere", b"v")
    assert warnings_of(caplog) == []


async def test_a_refusal_reaches_a_call_that_asks_again_at_once(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("secret")
    cluster.faults.add("Metadata", topic="secret", error_code=TopicAuthorizationFailedError)

    async def ask(times: int) -> None:
        for _ in range(times):
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.partitions_for("secret")

    async with Producer(cluster.bootstrap_servers, **OPTIONS) as producer:
        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, 2)
                tasks.start_soon(ask, 1)


@pytest.mark.parametrize("way", ["send", "send_many"])
async def test_a_partition_that_some_brokers_do_not_know_yet(cluster: EmbeddedCluster, way: str) -> None:
    async with Producer(cluster.bootstrap_servers, **OPTIONS) as producer:
        await producer.send_and_wait("events", b"v")
        cluster.freeze_metadata(2)
        cluster.add_partitions("events", 4)
        if way == "send":
            await producer.send_and_wait("events", b"v", partition=3)
        else:
            await (await producer.send_many("events", [b"v"], partition=3))
    assert len(cluster.records("events", 3)) == 1
