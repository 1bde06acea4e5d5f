"""Idempotent producers of three clients, as `tests.prove.writer` uses them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any, Protocol

__all__ = ["PRODUCERS", "Writing"]

DELIVERY_TIMEOUT_MS = 120_000


class Writing(Protocol):
    """A producer."""

    async def start(self) -> None: ...

    async def send(self, topic: str, partition: int, value: bytes) -> Awaitable[int]:
        """Return an awaitable of the offset, or raise."""
        ...

    async def stop(self) -> None: ...


class _Lead:
    def __init__(self, bootstrap: str) -> None:
        from aiokafka_lead import Producer

        self._producer: Producer[Any, Any] = Producer(bootstrap, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)

    async def start(self) -> None:
        await self._producer.start(wait=False)

    async def send(self, topic: str, partition: int, value: bytes) -> Awaitable[int]:
        delivery = await self._producer.send(topic, value, partition=partition)

        async def offset() -> int:
            return (await delivery).offset

        return offset()

    async def stop(self) -> None:
        await self._producer.stop()


class _Aiokafka:
    def __init__(self, bootstrap: str) -> None:
        import aiokafka

        self._producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, request_timeout_ms=DELIVERY_TIMEOUT_MS
        )

    async def start(self) -> None:
        await self._producer.start()

    async def send(self, topic: str, partition: int, value: bytes) -> Awaitable[int]:
        future = await self._producer.send(topic, value, partition=partition)

        async def offset() -> int:
            return int((await future).offset)

        return offset()

    async def stop(self) -> None:
        await self._producer.stop()


class _Confluent:
    def __init__(self, bootstrap: str) -> None:
        import confluent_kafka

        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
                "log_level": 0,
            }
        )
        self._error = confluent_kafka.KafkaException
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def _poll(self) -> None:
        while not self._ended.is_set():
            self._producer.poll(0.05)

    async def start(self) -> None:
        self._thread.start()

    async def send(self, topic: str, partition: int, value: bytes) -> Awaitable[int]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()

        def told(error: Any, message: Any) -> None:
            if error is None:
                loop.call_soon_threadsafe(future.set_result, message.offset())
            else:
                loop.call_soon_threadsafe(future.set_exception, self._error(error))

        self._producer.produce(topic, value, partition=partition, on_delivery=told)
        return future

    async def stop(self) -> None:
        await asyncio.to_thread(self._producer.flush, DELIVERY_TIMEOUT_MS / 1000)
        self._ended.set()


PRODUCERS: dict[str, type[Any]] = {"aiokafka-lead": _Lead, "aiokafka": _Aiokafka, "confluent-kafka": _Confluent}
