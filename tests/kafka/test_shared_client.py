"""One set of connections for many clients, at real brokers: their fetch sessions, groups and leader moves."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from aiokafka_lead import Client

from .harness import KafkaCluster
from .support import in_thread, read

pytestmark = pytest.mark.anyio

PARTITIONS = 6


async def test_consumers_of_a_shared_client_get_every_record_through_leader_moves(
    kafka: KafkaCluster, topic_name: Callable[[], str]
) -> None:
    """Two of one group, one of another, two without, one of which returns to the beginning now and then."""
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=PARTITIONS)
    async with Client(kafka.bootstrap()) as client, client.producer() as producer:
        halves = [
            client.consumer(topic, group_id=f"{topic}-1", auto_offset_reset="earliest", heartbeat_interval_ms=100)
            for _ in range(2)
        ]
        other = client.consumer(topic, group_id=f"{topic}-2", auto_offset_reset="earliest")
        plain, back = (client.consumer(topic, auto_offset_reset="earliest") for _ in range(2))
        seen: set[tuple[int, int]] = set()
        all_seen = anyio.Event()

        async def read_half(number: int) -> None:
            async for record in halves[number]:
                assert (record.partition, record.offset) not in seen
                seen.add((record.partition, record.offset))
                if len(seen) == 1200:
                    all_seen.set()

        async with other, plain, back, anyio.create_task_group() as reading:
            for number, half in enumerate(halves):
                await half.start()
                reading.start_soon(read_half, number)
            for moves in range(4):
                for outcome in await (await producer.send_many(topic, [b"%d" % n for n in range(300)])):
                    assert not isinstance(outcome, BaseException), outcome
                for reader in (other, plain):
                    assert len(await read(reader, 300)) == 300
                await back.seek_to_beginning()
                assert len(await read(back, 300 * (moves + 1))) == 300 * (moves + 1)
                await in_thread(kafka.move_leader, topic, moves)
            with anyio.fail_after(60):
                await all_seen.wait()
            for half in halves:
                await half.stop()
        assert client.metrics().hints_accepted > 0
