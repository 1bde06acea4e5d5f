"""A million records through a real cluster, produced one by one and consumed at the same time.

    python -m tests.kafka.long_million                  # three brokers, RF 3, min ISR 2
    python -m tests.kafka.long_million --kill           # the same, and a leader gets SIGKILL halfway and comes back
    python -m tests.kafka.long_million --backend trio --compression zstd --records 10000000

Each record carries its number within its partition. The exit status is 0 only if each was acknowledged and consumed
exactly once and in order.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
import time
from dataclasses import dataclass, field

import anyio

from aiokafka_lead import ACCELERATED, Consumer, Producer, TopicPartition
from aiokafka_lead.types import RecordMetadata

from .harness import NEWEST, KafkaCluster
from .support import in_thread

_NUMBER = struct.Struct(">Q")
_SIZE = 100
_PARTITIONS = 6
_TOPIC = "million"


@dataclass
class Count:
    """Outcomes of the records."""

    acknowledged: int = 0
    failed: int = 0
    lost: int = 0
    repeated: int = 0
    next_number: list[int] = field(default_factory=lambda: [0] * _PARTITIONS)

    @property
    def consumed(self) -> int:
        """Return the number of records read, without repetitions."""
        return sum(self.next_number)

    def take(self, partition: int, number: int) -> None:
        """Count a record that was read."""
        expected = self.next_number[partition]
        if number == expected:
            self.next_number[partition] += 1
        elif number < expected:
            self.repeated += 1
        else:
            self.lost += number - expected
            self.next_number[partition] = number + 1


async def produce(kafka: KafkaCluster, options: argparse.Namespace, count: Count, halfway: anyio.Event) -> float:
    """Send everything; return the seconds from the first send to the last acknowledgement."""
    padding = os.urandom(_SIZE - _NUMBER.size)
    deliveries = []
    async with Producer(kafka.bootstrap(), compression_type=options.compression) as producer:
        begin = time.monotonic()
        for i in range(options.records):
            value = _NUMBER.pack(i // _PARTITIONS) + padding
            deliveries.append(await producer.send(_TOPIC, value, partition=i % _PARTITIONS))
            if i == options.records // 2:
                halfway.set()
        for delivery in deliveries:
            try:
                meta: RecordMetadata = await delivery
                count.acknowledged += meta.offset >= 0
            except Exception as error:
                if count.failed == 0:
                    print(f"first failure: {error!r}", file=sys.stderr)
                count.failed += 1
        return time.monotonic() - begin


async def consume(kafka: KafkaCluster, options: argparse.Namespace, count: Count) -> float:
    """Read everything; return the seconds until the last record."""
    begin = time.monotonic()
    async with Consumer(bootstrap_servers=kafka.bootstrap(), auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(_TOPIC, partition) for partition in range(_PARTITIONS)])
        while count.consumed < options.records:
            for tp, records in (await consumer.getmany(timeout_ms=1000)).items():
                for record in records:
                    assert record.value is not None
                    count.take(tp.partition, _NUMBER.unpack_from(record.value)[0])
    return time.monotonic() - begin


async def kill_a_leader(kafka: KafkaCluster, halfway: anyio.Event) -> None:
    """Send SIGKILL to the leader of partition 0, wait for another leader, and restart the broker."""
    await halfway.wait()
    leader = await in_thread(kafka.leader, _TOPIC)
    await in_thread(kafka.kill, leader)
    print(f"broker {leader} killed", flush=True)
    await anyio.sleep(10)
    await in_thread(kafka.start_broker, leader)
    print(f"broker {leader} is back", flush=True)


async def run(kafka: KafkaCluster, options: argparse.Namespace) -> bool:
    """Run all of it; return True if every record arrived as it should."""
    config = {"min.insync.replicas": "2"}
    await in_thread(kafka.create_topic, _TOPIC, partitions=_PARTITIONS, config=config)
    count, halfway = Count(), anyio.Event()
    seconds: dict[str, float] = {}
    cpu = time.process_time()
    with anyio.move_on_after(options.timeout_s) as scope:
        async with anyio.create_task_group() as tasks:

            async def reading() -> None:
                seconds["consumed"] = await consume(kafka, options, count)

            tasks.start_soon(reading)
            if options.kill:
                tasks.start_soon(kill_a_leader, kafka, halfway)
            seconds["produced"] = await produce(kafka, options, count, halfway)
    cpu = time.process_time() - cpu
    print(f"{options.backend}, compiled: {ACCELERATED}, compression {options.compression}, killed: {options.kill}")
    for name, value in (
        ("sent", options.records),
        ("acknowledged", count.acknowledged),
        ("failed", count.failed),
        ("consumed", count.consumed - count.lost),
        ("lost or out of order", count.lost + options.records - count.consumed),
        ("repeated", count.repeated),
    ):
        print(f"{name:>22} {value:>12,}")
    for name, took in seconds.items():
        print(f"{name:>22} {took:>12.1f} s {options.records / took:>12,.0f} records/s")
    print(f"{'client CPU':>22} {cpu:>12.1f} s {cpu / options.records * 1e6:>12.2f} us a record, both sides")
    if scope.cancelled_caught:
        print(f"not done within {options.timeout_s:g} s", file=sys.stderr)
    right = count.acknowledged == count.consumed == options.records
    return right and not (count.lost or count.repeated or count.failed or scope.cancelled_caught)


def main() -> int:
    """Start the cluster, run, stop the cluster."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kafka.long_million", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--kill", action="store_true", help="SIGKILL a leader halfway and start it again")
    parser.add_argument("--backend", choices=["asyncio", "trio", "uvloop"], default="asyncio")
    parser.add_argument("--compression", choices=["none", "gzip", "snappy", "lz4", "zstd"], default="none")
    parser.add_argument("--timeout-s", type=float, default=600)
    options = parser.parse_args()
    kafka = KafkaCluster(NEWEST, heap_mib=1024, optimise=True)
    try:
        kafka.start()
        backend = "trio" if options.backend == "trio" else "asyncio"
        backend_options = {"use_uvloop": True} if options.backend == "uvloop" else {}
        return 0 if anyio.run(run, kafka, options, backend=backend, backend_options=backend_options) else 1
    finally:
        kafka.stop()


if __name__ == "__main__":
    sys.exit(main())
