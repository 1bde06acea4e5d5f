"""A producer belongs to the event loop that it was started on."""

from __future__ import annotations

import asyncio
import threading

import pytest

from aiokafka_lead.errors import WrongEventLoopError
from aiokafka_lead.producer import Producer
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster


def test_another_event_loop_is_an_error() -> None:
    async def main() -> None:
        async with EmbeddedCluster(brokers=1) as cluster:
            cluster.create_topic("events")
            async with Producer(cluster.bootstrap_servers, linger_ms=50) as producer:
                delivery = await producer.send("events", b"v")
                errors: list[BaseException] = []

                async def elsewhere() -> None:
                    for call in (
                        lambda: producer.send("events", b"v"),
                        lambda: producer.flush(),
                        lambda: producer.stop(),
                        lambda: wait(delivery),
                    ):
                        try:
                            await call()
                        except WrongEventLoopError as error:
                            errors.append(error)

                def without_a_loop() -> None:
                    try:
                        producer.send_nowait("events", b"v")
                    except WrongEventLoopError as error:
                        errors.append(error)

                def in_a_thread() -> None:
                    asyncio.run(elsewhere())
                    without_a_loop()

                thread = threading.Thread(target=in_a_thread)
                thread.start()
                thread.join(10)
                assert len(errors) == 5
                assert (await delivery).offset == 0

    async def wait(delivery: object) -> None:
        await delivery  # type: ignore[misc]

    asyncio.run(main())


def test_the_event_loop_may_stop_and_run_again_and_others_may_run_in_the_same_thread() -> None:
    with ClusterThread(EmbeddedCluster(brokers=1)) as cluster, asyncio.Runner() as own, asyncio.Runner() as other:
        cluster.create_topic("events")
        producer = Producer(cluster.bootstrap_servers)
        own.run(producer.start())
        offsets = []
        for _ in range(3):
            for _ in range(2):
                offsets.append(own.run(producer.send_and_wait("events", b"v")).offset)
            with pytest.raises(WrongEventLoopError):
                other.run(producer.send("events", b"v"))
            with pytest.raises(WrongEventLoopError):
                producer.send_nowait("events", b"v")
        own.run(producer.stop())
        assert offsets == list(range(6))


def test_hint_that_needs_a_new_connection_outside_of_anyio() -> None:
    """The connection opens in a protocol's callback, in which anyio cannot detect the event loop."""

    async def main() -> None:
        async with EmbeddedCluster(brokers=2) as cluster:
            cluster.create_topic("events", replication_factor=2)
            async with Producer(cluster.bootstrap_servers, linger_ms=0) as producer:
                await producer.send_and_wait("events", b"v")
                cluster.move_leader("events", 0, to=2)
                assert (await producer.send_and_wait("events", b"v")).offset == 1

    asyncio.run(main())
