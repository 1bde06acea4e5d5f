"""A handler that blocks the event loop at Apache Kafka: the group survives, and the application is warned."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer, ConsumerRecord, Producer, TopicPartition
from aiokafka_lead.admin import ConfigChange, ConfigResource, ConfigResourceType

from .harness import KafkaCluster

TopicName = Callable[[], str]

pytestmark = pytest.mark.anyio

_BLOCKED_S = 8
_SESSION_MS = 20_000


class Moves:
    """A listener that records the rebalances of one member."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.assigned = anyio.Event()

    def on_partitions_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self.seen.append("assigned")
        self.assigned.set()

    def on_partitions_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self.seen.append("revoked")

    def on_partitions_lost(self, partitions: Iterable[TopicPartition]) -> None:
        self.seen.append("lost")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_survives_a_blocked_event_loop(
    kafka: KafkaCluster, topic_name: TopicName, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The session of 20 s permits it; in the new protocol that is the group's own setting."""
    topic = topic_name()
    group = f"{topic}-group"
    kafka.create_topic(topic, partitions=2)
    options: dict[str, Any] = {"group_id": group, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    if protocol == "classic":
        options["session_timeout_ms"] = _SESSION_MS
    else:
        async with AdminClient(kafka.bootstrap()) as admin:
            resource = ConfigResource(ConfigResourceType.GROUP, group)
            change = ConfigChange("consumer.session.timeout.ms", str(_SESSION_MS))
            await admin.incremental_alter_configs({resource: [change]})
    moves = Moves()
    consumer: Consumer[Any, Any] = Consumer(bootstrap_servers=kafka.bootstrap(), **options)
    consumer.subscribe([topic], listener=moves)
    handled: list[int] = []
    with anyio.fail_after(90), caplog.at_level(logging.WARNING, "aiokafka_lead.consumer"):
        async with consumer, Producer(kafka.bootstrap()) as producer, anyio.create_task_group() as tasks:

            async def handle(record: ConsumerRecord[Any, Any]) -> None:
                if not record.offset:
                    time.sleep(_BLOCKED_S)  # noqa: ASYNC251 - that is the matter
                handled.append(record.offset)
                if record.offset == 1:
                    tasks.start_soon(consumer.stop)

            tasks.start_soon(consumer.run, handle)
            await moves.assigned.wait()
            before = consumer.group_metadata()
            await producer.send_and_wait(topic, b"first", partition=0)
            while not handled:  # noqa: ASYNC110 - the event loop is blocked meanwhile
                await anyio.sleep(0.05)
            assert moves.seen == ["assigned"]
            await consumer.commit()  # which only a member may
            assert consumer.group_metadata().member_id == before.member_id
            while not consumer.health().blocked_ms:  # noqa: ASYNC110 - its task may run after this one
                await anyio.sleep(0.05)
            assert consumer.health().blocked_ms > (_BLOCKED_S - 1) * 1000
            await producer.send_and_wait(topic, b"second", partition=0)
    assert handled == [0, 1]
    assert moves.seen == ["assigned", "revoked"]
    warnings = [text for record in caplog.records if "event loop" in (text := record.getMessage())]
    expected = r"blocked for (.+) s; no fetch .* for (.+) s and no heartbeat .* for (.+) s \(session timeout: .* s\)"
    said = [match.groups() for text in warnings if (match := re.search(expected, text))]
    assert any(min(map(float, times)) > _BLOCKED_S - 1 for times in said), warnings
