"""``group_protocol="auto"`` at Apache Kafka: live groups change their protocol, and old brokers support only one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer, Producer, TopicPartition

from .harness import KafkaCluster

TopicName = Callable[[], str]

_PARTITIONS = 4
_WITHIN_S = 180


class Members:
    """Consumers of one group, which read all the time."""

    def __init__(self, servers: str, topic: str, tasks: anyio.abc.TaskGroup) -> None:
        self.servers = servers
        self.topic = topic
        self.got: set[bytes] = set()
        self._tasks = tasks
        self._scopes: dict[Consumer[Any, Any], anyio.CancelScope] = {}
        self._ended: dict[Consumer[Any, Any], anyio.Event] = {}

    async def start(self, protocol: Literal["classic", "auto"]) -> Consumer[Any, Any]:
        consumer: Consumer[Any, Any] = Consumer(
            self.topic,
            bootstrap_servers=self.servers,
            group_id=f"{self.topic}-group",
            group_protocol=protocol,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
        )
        await consumer.start()
        self._scopes[consumer], self._ended[consumer] = anyio.CancelScope(), anyio.Event()
        self._tasks.start_soon(self._read, consumer)
        return consumer

    async def _read(self, consumer: Consumer[Any, Any]) -> None:
        with self._scopes[consumer]:
            while True:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    self.got.update(record.value for record in records)
        self._ended[consumer].set()

    async def stop(self, consumer: Consumer[Any, Any]) -> None:
        self._scopes.pop(consumer).cancel()
        await self._ended[consumer].wait()  # a consumer that reads on before the notice would find itself stopped
        await consumer.stop()

    async def shared(self) -> None:
        """Wait until each partition has one owner, and every member has some."""
        every = {TopicPartition(self.topic, index) for index in range(_PARTITIONS)}
        while True:
            owned = [consumer.assignment() for consumer in self._scopes]
            if all(owned) and set().union(*owned) == every and sum(map(len, owned)) == _PARTITIONS:
                return
            await anyio.sleep(0.05)

    async def read(self, *values: bytes) -> None:
        """Write values, and wait until members have read them."""
        async with Producer(self.servers) as producer:
            for value in values:
                await producer.send_and_wait(self.topic, value)
        while not self.got >= set(values):  # noqa: ASYNC110 (no event for reads)
            await anyio.sleep(0.05)

    async def type(self) -> str:
        async with AdminClient(self.servers) as admin:
            (found,) = [each.type async for each in admin.list_groups() if each.group_id == f"{self.topic}-group"]
            return found


def test_a_live_group_goes_to_the_new_protocol_and_back(kafka: KafkaCluster, topic_name: TopicName) -> None:
    async def convert() -> None:
        topic = topic_name()
        kafka.create_topic(topic, partitions=_PARTITIONS)
        with anyio.fail_after(_WITHIN_S):
            async with anyio.create_task_group() as tasks:
                members = Members(kafka.bootstrap(), topic, tasks)
                old = [await members.start("classic"), await members.start("classic")]
                await members.shared()
                await members.read(b"classic")
                ways: list[tuple[Literal["classic", "auto"], str]] = [("auto", "consumer"), ("classic", "classic")]
                for after, kind in ways:
                    following = []
                    for leaving in old:
                        following.append(await members.start(after))
                        await members.shared()
                        await members.stop(leaving)
                        await members.shared()
                        await members.read(f"{after} {len(following)}".encode())
                    assert await members.type() == kind
                    old = following
                for consumer in old:
                    await members.stop(consumer)

    anyio.run(convert)


@pytest.mark.parametrize("any_kafka", ["kafka_old"], indirect=True)
def test_old_brokers_have_the_classic_protocol(any_kafka: KafkaCluster, topic_name: TopicName) -> None:
    async def share() -> None:
        topic = topic_name()
        any_kafka.create_topic(topic, partitions=_PARTITIONS)
        with anyio.fail_after(_WITHIN_S):
            async with anyio.create_task_group() as tasks:
                members = Members(any_kafka.bootstrap(), topic, tasks)
                consumers = [await members.start("auto"), await members.start("auto")]
                await members.shared()
                await members.read(b"one", b"two")
                for consumer in consumers:
                    await consumer.commit()
                    await members.stop(consumer)

    anyio.run(share)
