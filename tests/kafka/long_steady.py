"""Runs a steady load on a real cluster for minutes, and watches the memory, tasks and sockets of this process.

    python -m tests.kafka.long_steady                                   # ten minutes, 5,000 records a second
    python -m tests.kafka.long_steady --minutes 60 --per-second 20000 --backend asyncio uvloop trio

The exit status is 0 only if every record was acknowledged and consumed once and in order, if the memory at the end is
no more than ``--allow-mib`` above its value after the first fifth of the time, and if there are no more sockets and
tasks than then.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from aiokafka_lead import Consumer, Producer

from .flow import Flow, Follower
from .harness import NEWEST, KafkaCluster
from .support import partitions_of

_PARTITIONS = 6
_TOPIC = "steady"
_EVERY_S = 10


def resident_mib() -> float:
    """Return the resident memory of this process (Linux)."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Sample(NamedTuple):
    """Resources of this process at one time."""

    memory: float
    """MiB."""
    sockets: int
    tasks: int
    """Without the load's own tasks, which wait for outcomes."""

    @classmethod
    def take(cls) -> Sample:
        sockets = 0
        for descriptor in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # the folder's own has been closed
                sockets += os.readlink(descriptor).startswith("socket:")
        tasks = [task for task in anyio.get_running_tasks() if "_outcome" not in str(task.name)]
        return cls(resident_mib(), sockets, len(tasks))


async def watch(flow: Flow, follower: Follower, seconds: float) -> list[Sample]:
    """Print a line every few seconds until the time is up; return a sample for each of them."""
    begin = time.monotonic()
    samples: list[Sample] = []
    while time.monotonic() - begin < seconds:
        flow.slowest_s = 0
        await anyio.sleep(_EVERY_S)
        samples.append(Sample.take())
        behind = flow.sent * _PARTITIONS - sum(follower.next_number)
        print(
            f"{time.monotonic() - begin:6.0f} s  sent {flow.sent * _PARTITIONS:>11,}  behind {behind:>6,}  "
            f"slowest {flow.slowest_s * 1000:6.0f} ms  memory {samples[-1].memory:.1f} MiB  "
            f"sockets {samples[-1].sockets}  tasks {samples[-1].tasks}  objects {len(gc.get_objects()):,}",
            flush=True,
        )
    return samples


async def run(servers: str, options: argparse.Namespace) -> bool:
    """Run all of it; return True without violations."""
    async with (
        Producer(servers, linger_ms=2) as producer,
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign(partitions_of(_TOPIC, _PARTITIONS))
        flow = Flow(producer, _TOPIC, _PARTITIONS, options.per_second)
        follower = Follower(consumer, _PARTITIONS)
        samples: list[Sample] = []
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
    before, after = (_median(each) for each in (samples[fifth : 2 * fifth], samples[-fifth:]))
    print(f"{flow.sent * _PARTITIONS:,} records sent, acknowledged and consumed once, in order")
    print(f"after the first fifth: {before}; in the last: {after}")
    is_flat = after.sockets <= before.sockets and after.tasks <= before.tasks
    return is_flat and after.memory - before.memory <= float(options.allow_mib)


def _median(samples: list[Sample]) -> Sample:
    memory, sockets, tasks = (statistics.median(column) for column in zip(*samples, strict=True))
    return Sample(round(memory, 1), int(sockets), int(tasks))


def main() -> int:
    """Start the cluster, run, stop the cluster."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kafka.long_steady", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--per-second", type=float, default=5000)
    parser.add_argument("--allow-mib", type=float, default=4)
    parser.add_argument("--backend", choices=["asyncio", "uvloop", "trio"], nargs="+", default=["asyncio"])
    options = parser.parse_args()
    # Retention keeps the brokers' disks flat too.
    kafka = KafkaCluster(NEWEST, heap_mib=1024, optimise=True, properties={"log.retention.bytes": "200000000"})
    try:
        kafka.start()
        failures = 0
        for backend in options.backend:
            kafka.create_topic(_TOPIC, partitions=_PARTITIONS, config={"min.insync.replicas": "2"})
            loop: dict[str, Any] = {"backend": "trio" if backend == "trio" else "asyncio"}
            if backend == "uvloop":
                loop["backend_options"] = {"use_uvloop": True}
            print(backend, flush=True)
            failures += not anyio.run(run, kafka.bootstrap(), options, **loop)
            kafka.delete_topic(_TOPIC)
        return int(failures > 0)
    finally:
        kafka.stop()


if __name__ == "__main__":
    sys.exit(main())
