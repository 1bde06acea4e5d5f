"""kafka-python, with the producer's method ``send``, which returns futures, and the consumer's method ``poll``."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition

from ..payload import records
from ..usage import Meter
from ..workload import LINGER_MS, Workload


def producer(work: Workload, linger_ms: int = LINGER_MS, transactional_id: str | None = None) -> Any:
    """Create a producer with the workload's options."""
    compression: Any = None if work.compression == "none" else work.compression
    return KafkaProducer(
        bootstrap_servers=work.bootstrap,
        acks=work.acks if work.acks == "all" else int(work.acks),
        enable_idempotence=work.acks == "all",
        linger_ms=linger_ms,
        compression_type=compression,
        transactional_id=transactional_id,
    )


async def produce(work: Workload) -> dict[str, Any]:
    """Send records, and wait until all are acknowledged."""
    one = producer(work)
    try:
        _send(one, work, max(work.records // 20, 1))
        with Meter(work.records, ticks=work.ticks) as meter:
            _send(one, work, work.records)
    finally:
        one.close()
    return meter.figures()


def _send(producer: Any, work: Workload, count: int) -> None:
    waiting = [
        producer.send(work.topic, value, key=key, partition=partition) for value, key, partition in records(work, count)
    ]
    producer.flush()
    assert all(future.succeeded() for future in waiting)


async def latency(work: Workload) -> list[float]:
    """Return the milliseconds of each record; each is awaited before the next."""
    from ..latency import timed

    one = producer(work, linger_ms=0)
    value = b"x" * work.size

    async def send() -> None:
        one.send(work.topic, value).get()

    try:
        return await timed(send, work.records)
    finally:
        one.close()


async def transactions(work: Workload) -> dict[str, Any]:
    """Commit transactions in succession. The client's calls block, and no other task runs meanwhile."""
    from ..transactions import back_to_back, new_id

    one = producer(work, transactional_id=new_id())
    one.init_transactions()

    async def begin() -> None:
        one.begin_transaction()

    async def send(topic: str, value: bytes, key: bytes | None, partition: int) -> None:
        one.send(topic, value, key=key, partition=partition)

    async def commit() -> None:
        one.commit_transaction()

    try:
        return await back_to_back(work, begin, send, commit)
    finally:
        one.close()


async def consume(work: Workload) -> dict[str, Any]:
    """Read the topic's records."""
    consumer = KafkaConsumer(
        bootstrap_servers=work.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False, group_id=None
    )
    consumer.assign([TopicPartition(work.topic, partition) for partition in range(work.partitions)])
    try:
        _read(consumer, work.records // 20)
        with Meter(work.records, ticks=work.ticks) as meter:
            meter.records = _read(consumer, work.records)
    finally:
        consumer.close()
    return meter.figures()


def _read(consumer: Any, count: int) -> int:
    seen = 0
    while seen < count:
        for found in consumer.poll(1000, max_records=500).values():
            seen += len(found)
            for record in found:
                assert record.value is not None
    return seen
