"""``aiokafka-lead bench``: measures rates of writing and reading, and the latency of acknowledgements."""

from __future__ import annotations

import os
import time
from statistics import median
from typing import Annotated, Any
from uuid import uuid4

import anyio
import typer

from ..admin import AdminClient, NewTopic
from ..errors import KafkaError, UnknownTopicOrPartitionError
from ..types import TopicPartition
from .failures import exit_code, sentence
from .registering import Compression, add
from .session import Session

_BATCH = 1_000
_ROUND_TRIPS = 200


def register(app: typer.Typer) -> None:
    """Add the command ``bench`` to ``app``."""
    add(app, "bench", bench)


async def bench(
    session: Session,
    records: Annotated[int, typer.Option("--records", "-n", min=1, help="Number of records.")] = 100_000,
    size: Annotated[int, typer.Option("--size", "-s", min=0, help="Size of each value in bytes.")] = 100,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", min=1, help="Number of partitions of the temporary topic.")
    ] = 3,
    compression: Compression = "none",
) -> None:
    """Measure how fast records are written and read, in a temporary topic that is deleted afterwards.

    Also measures the time from sending a single record to its acknowledgement.
    """
    topic = f"aiokafka-lead-bench-{uuid4().hex[:8]}"
    async with session.admin() as admin:
        try:
            await admin.create_topics([NewTopic(topic, partitions)])
            await _led(admin, topic, partitions)
            written_s, latencies = await _write(session, topic, records, os.urandom(size), compression)
            read_s, read = await _read(session, topic, partitions, records)
        finally:
            with anyio.CancelScope(shield=True):
                await _delete(session, admin, topic)
    facts = {
        "records": records,
        "bytes_each": size,
        "written_per_second": records / written_s,
        "written_mb_per_second": records * size / written_s / 1e6,
        "read_per_second": read / read_s,
        "acknowledged_median_ms": median(latencies),
        "acknowledged_p99_ms": sorted(latencies)[int(len(latencies) * 0.99)],
    }
    if session.out.as_json:
        session.out.json(facts)
    else:
        session.out.rows([{"what": name, "value": value} for name, value in facts.items()], ["what", "value"], "")


async def _delete(session: Session, admin: AdminClient, topic: str) -> None:
    try:
        await admin.delete_topics([topic], timeout_ms=10_000)
    except UnknownTopicOrPartitionError:
        pass  # the command failed before it created the topic
    except KafkaError as error:  # not raised, because it would replace an earlier, more useful error
        session.fail(f"topic {topic} was not deleted: {sentence(error)}", exit_code(error))


async def _led(admin: Any, topic: str, partitions: int) -> None:
    """Wait until the new topic exists and all its partitions have leaders."""
    while True:
        try:
            described = (await admin.describe_topics([topic]))[topic].partitions
        except UnknownTopicOrPartitionError:
            described = ()
        if sum(partition.leader_id >= 0 for partition in described) == partitions:
            return
        await anyio.sleep(0.05)


async def _write(
    session: Session, topic: str, records: int, value: bytes, compression: str
) -> tuple[float, list[float]]:
    """Write ``records`` records as fast as possible, and then single records.

    Returns the duration of the first part in seconds, and the latencies of the single records in milliseconds.
    """
    async with session.producer(compression) as producer:
        await producer.send_and_wait(topic, value, partition=0)
        with session.out.progress(wanted=True) as progress:
            task = None if progress is None else progress.add_task("writing", total=records)
            began = time.perf_counter()
            done = 1
            while done < records:
                count = min(_BATCH, records - done)
                await producer.send_many(topic, [value] * count)
                done += count
                if progress is not None and task is not None:
                    progress.update(task, completed=done)
            await producer.flush()
            written_s = time.perf_counter() - began
    async with session.producer(linger_ms=0) as producer:
        latencies = []
        for _ in range(_ROUND_TRIPS):
            began = time.perf_counter()
            await producer.send_and_wait(topic, value)
            latencies.append((time.perf_counter() - began) * 1000)
    return written_s, latencies


async def _read(session: Session, topic: str, partitions: int, records: int) -> tuple[float, int]:
    """Read all records. Return the duration in seconds and the number of records."""
    wanted = records + _ROUND_TRIPS
    async with session.consumer() as consumer:
        everything = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(everything)
        for where in everything:
            consumer.seek(where, 0)
        began = time.perf_counter()
        read = 0
        while read < wanted:
            found = await consumer.getmany(timeout_ms=1000)
            read += sum(map(len, found.values()))
        return time.perf_counter() - began, read
