"""Under load, leaders move and brokers go: each record is written once, in order, and read once, in order.

``LEADERSHIP_SECONDS`` is the duration of each test; ``python -m benchmarks moves storm`` runs for a minute.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead import Delivery
from aiokafka_lead._wire import decode_response
from aiokafka_lead._wire.messages.produce import ProduceResponse
from aiokafka_lead.testing import EmbeddedCluster

from .support import all_of, consumer_of, next_number, producer_of, values

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

SECONDS = float(os.environ.get("LEADERSHIP_SECONDS", "3"))


def watch_produce_codes(cluster: EmbeddedCluster) -> Counter[int]:
    """Collect the error codes of Produce answers from now on."""
    seen: Counter[int] = Counter()

    def look(frame: bytes) -> bytes:
        if frame:
            _, response = decode_response(ProduceResponse, ProduceResponse.MAX_VERSION, frame[4:])
            seen.update(answer.error_code for topic in response.responses for answer in topic.partition_responses)
        return frame

    cluster.faults.add("Produce", garbage=look, after=True)
    return seen


async def disturbed(
    cluster: EmbeddedCluster,
    servers: str,
    disturb: Callable[[], Awaitable[None]],
    *,
    seconds: float = SECONDS,
    **options: Any,
) -> tuple[int, Any, Any]:
    """Write and read numbers while faults recur; return the number of records, and the counters."""
    deliveries: list[Delivery] = []
    read: list[int] = []
    done = anyio.Event()
    total: int | None = None
    async with (
        producer_of(servers, batch_size=200, **options) as producer,
        consumer_of(servers, "t", **options) as consumer,
    ):

        async def write() -> None:
            nonlocal total
            while not done.is_set():
                for _ in range(5):
                    deliveries.append(await producer.send("t", b"%d" % len(deliveries), partition=0))
                await anyio.sleep(0.003)
            total = len(deliveries) + 1
            deliveries.append(await producer.send("t", b"%d" % len(deliveries), partition=0))
            await producer.flush()

        async def follow() -> None:
            while total is None or len(read) < total:
                read.append(await next_number(consumer))

        with anyio.fail_after(seconds + 40):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write)
                tasks.start_soon(follow)
                with anyio.move_on_after(seconds):
                    while True:
                        await anyio.lowlevel.checkpoint()
                        await disturb()
                done.set()
        count = len(deliveries)
        assert await all_of(deliveries) == list(range(count))
        assert read == list(range(count))
        metrics = producer.metrics(), consumer.metrics()
    assert values(cluster) == list(range(count))
    assert not cluster.protocol_errors
    return count, *metrics


async def test_five_in_flight_and_a_move_every_50_ms(cluster: EmbeddedCluster) -> None:
    """Rules 14 and 15: idempotence holds without any broker having to refuse a sequence."""
    codes = watch_produce_codes(cluster)

    async def move() -> None:
        await anyio.sleep(0.05)
        cluster.move_leader("t")

    _, producer, consumer = await disturbed(cluster, cluster.bootstrap_servers, move)
    assert set(codes) <= {0, 6}
    assert codes[6] > 0
    assert producer.sequence_restarts == 0
    assert producer.metadata.hints_accepted > 0
    assert consumer.metadata.hints_accepted > 0
    assert producer.metadata.rewinds == consumer.metadata.rewinds == 0


async def test_moves_with_a_gap_in_which_nobody_leads(cluster: EmbeddedCluster) -> None:
    codes = watch_produce_codes(cluster)

    async def move() -> None:
        await anyio.sleep(0.08)
        cluster.move_leader("t", gap_ms=20)

    _, producer, _ = await disturbed(cluster, cluster.bootstrap_servers, move, seconds=SECONDS / 2)
    assert set(codes) <= {0, 6}
    assert producer.sequence_restarts == 0


async def test_every_broker_is_replaced_and_only_the_bootstrap_name_stays() -> None:
    """Rule 29: one by one, and then all at once; every address is new each time."""
    quick: dict[str, Any] = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 100, "retry_backoff_ms": 20}
    rounds = 0
    async with EmbeddedCluster(brokers=3, bootstrap_port=0) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        codes = watch_produce_codes(cluster)

        async def replace() -> None:
            nonlocal rounds
            rounds += 1
            with anyio.CancelScope(shield=True):
                for broker in cluster.broker_ids:
                    await anyio.sleep(0.1)
                    await cluster.change_address(broker)
                await anyio.sleep(0.2)
                for broker in cluster.broker_ids:
                    await cluster.kill_broker(broker, failover_delay_ms=0)
                await anyio.sleep(0.05)
                for broker in cluster.broker_ids:
                    await cluster.start_broker(broker, port=0)

        _, producer, _ = await disturbed(cluster, cluster.bootstrap_address, replace, **quick)
        assert rounds >= 1
        assert 45 not in codes
        assert producer.records_failed == 0
        assert producer.metadata.rebootstraps_unavailable >= 1
