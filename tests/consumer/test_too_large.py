"""Batches beyond the consumer's limits, on decompression or on receipt."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from aiokafka_lead import Client, Consumer, ConsumerRecord, Producer, TopicPartition, _accel
from aiokafka_lead.errors import BatchTooLargeError, ConfigError, CorruptRecordError, FrameTooLargeError
from aiokafka_lead.testing import EmbeddedCluster

from ..suites import crossed
from .refusals import BOUND
from .support import E0, consumer_of, fill, take

CODECS = ["gzip", "snappy", "lz4", "zstd"]


@pytest.mark.anyio
@pytest.mark.parametrize("codec", CODECS)
async def test_a_batch_beyond_the_bound_is_refused_read_or_passed(cluster: EmbeddedCluster, codec: str) -> None:
    await fill(cluster, [b"before"])
    await fill(cluster, [bytes(100_000), bytes(100_000)], compression_type=codec, batch_size=1_000_000)
    await fill(cluster, [b"after"])
    async with consumer_of(cluster, "events", max_decompressed_batch_bytes=150_000) as consumer:
        assert (await consumer.getone()).value == b"before"
        for read in (consumer.getone, consumer.getmany, lambda: anext(consumer.batches())):
            with pytest.raises(BatchTooLargeError, match="larger than 150000 bytes when decompressed") as caught:
                await read()
            error = caught.value
            assert (error.topic, error.partition, error.offset, error.next_offset) == ("events", 0, 1, 3)
            assert not error.retriable
            assert not isinstance(error, CorruptRecordError)
        consumer.seek(E0, error.next_offset)
        assert (await consumer.getone()).value == b"after"
    async with consumer_of(cluster, "events", max_decompressed_batch_bytes=300_000) as consumer:
        assert [record.offset for record in await take(consumer, 4)] == [0, 1, 2, 3]


def test_the_bound_is_a_number_of_bytes() -> None:
    with pytest.raises(ConfigError, match="max_decompressed_batch_bytes"):
        Consumer(bootstrap_servers="localhost", max_decompressed_batch_bytes=0)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the operating system tells no resident memory")
@pytest.mark.parametrize(
    ("codec", "variant"),
    [
        *crossed((codec, "compiled") for codec in CODECS if _accel.ACCELERATED),
        *crossed((codec, "pure") for codec in reversed(CODECS)),
    ],
)
def test_what_was_refused_is_let_go(codec: str, variant: str) -> None:
    """Without the garbage collector, measured by the operating system."""
    command = [sys.executable, "-W", "error", "-m", "tests.consumer.refusals", codec, variant]
    program = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert program.returncode == 0, program.stderr
    assert int(program.stdout) < BOUND // 2


# --- larger than a frame may be ---------------------------------------------------------------------------------------


@pytest.fixture
async def one_large(anyio_backend: str) -> AsyncIterator[EmbeddedCluster]:
    """Yield one broker whose topic has, in its first partition, a batch that is too large for the consumers here."""
    async with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("events", partitions=4, configs={"max.message.bytes": "4000000"})
        async with Producer(cluster.bootstrap_servers, max_request_size=4_000_000) as producer:
            await producer.send_and_wait("events", bytes(3_000_000), partition=0)
            for partition in (0, 1, 2):
                for value in (b"1", b"2", b"3"):
                    await producer.send_and_wait("events", value, partition=partition)
        yield cluster


def bounded(options: dict[str, Any]) -> dict[str, Any]:
    return {"receive_max_bytes": 2_000_000, "reconnect_backoff_ms": 20, "retry_backoff_ms": 20, **options}


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_a_frame_beyond_the_bound_stops_its_partition_alone(one_large: EmbeddedCluster) -> None:
    options = bounded({"fetch_max_bytes": 900_000})
    async with consumer_of(one_large, "events", **options) as consumer:
        await read_on_and_past(consumer, one_large)


@pytest.mark.anyio
async def test_the_same_among_consumers_that_share_connections(one_large: EmbeddedCluster) -> None:
    async with Client(one_large.bootstrap_servers, **bounded({})) as client:
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_bytes": 900_000}
        async with client.consumer("events", **options) as consumer, client.consumer(**options) as other:
            other.assign([TopicPartition("events", 2)])
            assert [(await other.getone()).value for _ in range(3)] == [b"1", b"2", b"3"]
            await read_on_and_past(consumer, one_large)


async def read_on_and_past(consumer: Consumer, cluster: EmbeddedCluster) -> None:
    """Read the other partitions; an error names the blocked one, and a seek skips its batch."""
    found: list[ConsumerRecord[Any, Any]] = []
    failed: list[FrameTooLargeError] = []
    with anyio.fail_after(30):
        while len(found) < 6 or not failed:
            try:
                found.append(await consumer.getone())
            except FrameTooLargeError as error:
                failed.append(error)
    assert sorted((record.partition, record.offset) for record in found) == [(p, o) for p in (1, 2) for o in range(3)]
    for each in failed:
        assert each.message.startswith("events-0 cannot be read at offset 0: a frame of 3000")
        assert "exceeds receive_max_bytes (2000000)" in each.message
    before = cluster.requests.count("ApiVersions")
    for _ in range(10):
        with pytest.raises(FrameTooLargeError):
            await consumer.getone()
    assert cluster.requests.count("ApiVersions") == before  # no repeated connections
    consumer.seek(E0, 1)
    with anyio.fail_after(30):
        assert [(await consumer.getone()).value for _ in range(3)] == [b"1", b"2", b"3"]


@pytest.mark.anyio
async def test_after_the_bound_has_been_raised_the_batch_is_read(one_large: EmbeddedCluster) -> None:
    async with consumer_of(one_large, "events", receive_max_bytes=4_000_000, fetch_max_bytes=900_000) as consumer:
        assert {len(record.value or b"") for record in await take(consumer, 10)} == {1, 3_000_000}
