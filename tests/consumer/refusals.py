"""A separate program: a consumer repeatedly refuses a batch that is too large, without a garbage collector.

    python -m tests.consumer.refusals CODEC compiled|pure

Prints the growth of its resident memory, in bytes. "pure" runs the plain Python sources even if compiled ones exist.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from pathlib import Path
from typing import Any

from tests.wheel.plain import SourceOnly

BOUND = 32 * 1024 * 1024
REFUSALS = 3


def resident_bytes() -> int:
    """Return the memory in use, after releasing what the allocator keeps for each thread, if possible."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


async def main(codec: str) -> int:
    from aiokafka_lead import Consumer, TopicPartition
    from aiokafka_lead.errors import BatchTooLargeError
    from aiokafka_lead.testing import EmbeddedCluster
    from tests.records.bombs import bomb
    from tests.testing.raw import connected
    from tests.testing.test_produce import produce

    refusals = 0
    async with EmbeddedCluster(1, topic_configs={"max.message.bytes": "50000000"}) as cluster:
        cluster.create_topic("t")
        async with connected(cluster.address(1)) as client:
            assert (await produce(client, bomb(codec, BOUND))).error_code == 0
        gc.collect()
        gc.disable()
        options: Any = {"max_decompressed_batch_bytes": BOUND, "bootstrap_servers": cluster.bootstrap_servers}
        async with Consumer(**options) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            before = 0
            for number in range(REFUSALS + 1):
                if number == 1:
                    before = resident_bytes()
                consumer.seek(TopicPartition("t", 0), 0)
                try:
                    await consumer.getone()
                except BatchTooLargeError:
                    refusals += 1
            assert refusals == REFUSALS + 1
            return resident_bytes() - before


if __name__ == "__main__":
    if sys.argv[2] == "pure":
        sys.meta_path.insert(0, SourceOnly)
    grown = asyncio.run(main(sys.argv[1]))
    import aiokafka_lead

    assert (sys.argv[2] == "compiled") == aiokafka_lead.ACCELERATED
    print(grown)  # noqa: T201
