"""Batches that are larger than the consumer's bound when they are decompressed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aiokafka_lead import Consumer, _accel
from aiokafka_lead.errors import BatchTooLargeError, ConfigError, CorruptRecordError
from aiokafka_lead.testing import EmbeddedCluster

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
        *((codec, "compiled") for codec in CODECS if _accel.ACCELERATED),
        ("zstd", "pure"),
        *(pytest.param(codec, "pure", marks=pytest.mark.suite("all")) for codec in CODECS if codec != "zstd"),
    ],
)
def test_what_was_refused_is_let_go(codec: str, variant: str) -> None:
    """Without the garbage collector's help, and as the operating system sees it."""
    command = [sys.executable, "-W", "error", "-m", "tests.consumer.refusals", codec, variant]
    program = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert program.returncode == 0, program.stderr
    assert int(program.stdout) < BOUND // 2
