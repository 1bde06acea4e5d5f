"""Minutes of steady load on a real cluster, with the memory of this process watched.

    python -m tests.kafka.long_steady                                   # ten minutes, 5,000 records a second
    python -m tests.kafka.long_steady --minutes 60 --per-second 20000 --backend trio

The exit status is 0 only if every record was acknowledged and consumed once and in order, and if the memory at the end
is no more than ``--allow-mib`` above its value after the first fifth of the time.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time

import anyio

from aiokafka_lead import Consumer, Producer

from .flow import Flow, Follower
from .harness import NEWEST, KafkaCluster
from .support import in_thread, partitions_of

_PARTITIONS = 6
_TOPIC = "steady"
_EVERY_S = 10


def resident_mib() -> float:
    """Return the resident memory of this process (Linux)."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def watch(flow: Flow, follower: Follower, seconds: float) -> list[float]:
    """Print a line every few seconds until the time is up; return the memory at each of them, in MiB."""
    begin = time.monotonic()
    samples: list[float] = []
    while time.monotonic() - begin < seconds:
        flow.slowest_s = 0
        await anyio.sleep(_EVERY_S)
        samples.append(resident_mib())
        behind = flow.sent * _PARTITIONS - sum(follower.next_number)
        print(
            f"{time.monotonic() - begin:6.0f} s  sent {flow.sent * _PARTITIONS:>11,}  behind {behind:>6,}  "
            f"slowest {flow.slowest_s * 1000:6.0f} ms  memory {samples[-1]:.1f} MiB  objects {len(gc.get_objects()):,}",
            flush=True,
        )
    return samples


async def run(kafka: KafkaCluster, options: argparse.Namespace) -> bool:
    """Run all of it; return True without violations."""
    await in_thread(kafka.create_topic, _TOPIC, partitions=_PARTITIONS, config={"min.insync.replicas": "2"})
    async with (
        Producer(kafka.bootstrap(), linger_ms=2) as producer,
        Consumer(bootstrap_servers=kafka.bootstrap(), auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign(partitions_of(_TOPIC, _PARTITIONS))
        flow = Flow(producer, _TOPIC, _PARTITIONS, options.per_second)
        follower = Follower(consumer, _PARTITIONS)
        samples: list[float] = []
        async with anyio.create_task_group() as reading:
            reading.start_soon(follower.run)
            async with anyio.create_task_group() as sending:
                await sending.start(flow.run)
                samples = await watch(flow, follower, options.minutes * 60)
                flow.stop()
            flow.assert_all_acknowledged()
            await follower.caught_up(flow)
            reading.cancel_scope.cancel()
    fifth = max(1, len(samples) // 5)
    before, after = statistics.median(samples[fifth : 2 * fifth]), statistics.median(samples[-fifth:])
    print(f"{flow.sent * _PARTITIONS:,} records sent, acknowledged and consumed once, in order")
    print(f"memory {before:.1f} MiB after the first fifth, {after:.1f} MiB in the last: {after - before:+.1f} MiB")
    return after - before <= float(options.allow_mib)


def main() -> int:
    """Start the cluster, run, stop the cluster."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kafka.long_steady", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--per-second", type=float, default=5000)
    parser.add_argument("--allow-mib", type=float, default=4)
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    options = parser.parse_args()
    # Retention keeps the brokers' disks flat too.
    kafka = KafkaCluster(NEWEST, heap_mib=1024, optimise=True, properties={"log.retention.bytes": "200000000"})
    try:
        kafka.start()
        return 0 if anyio.run(run, kafka, options, backend=options.backend) else 1
    finally:
        kafka.stop()


if __name__ == "__main__":
    sys.exit(main())
