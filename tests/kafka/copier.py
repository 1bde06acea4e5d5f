"""Members of a group that copy a topic exactly once, in separate processes, which may be killed at any time.

``python -m tests.kafka.copier '{"servers": ..., "source": ..., ...}'`` runs one of them.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from typing import Any

import anyio
from anyio.abc import TaskStatus

from aiokafka_lead import Consumer, ConsumerRecord, Producer, TopicPartition, TransactionPipeline

from .harness.processes import freeze

SESSION_MS = 6000
_STOPPABLE = "a SIGTERM is heard from now on\n"


async def _copy(options: dict[str, Any]) -> None:
    """Run one member.

    ``pause_s``: additional time that each transaction stays open; ``in_flight``: more than 1 is a pipeline.
    """
    pause_s: float = options.get("pause_s", 0)
    open_one: Any = None

    async def handle(record: ConsumerRecord[Any, Any], txn: Any) -> None:
        nonlocal open_one
        if txn is not open_one:
            open_one = txn
            await anyio.sleep(pause_s)
        await txn.send(options["target"], record.value, record.key, partition=record.partition)

    wanted: dict[str, Any] = {"group_id": options["group"], "group_protocol": options["protocol"]}
    if options["protocol"] == "classic":
        wanted["session_timeout_ms"] = SESSION_MS
    consumer: Consumer[Any, Any] = Consumer(
        options["source"], **options["servers"], auto_offset_reset="earliest", **wanted
    )
    timeout_ms = options.get("timeout_ms", SESSION_MS)
    settings: dict[str, Any] = {"transactional_id": options["id"], "transaction_timeout_ms": timeout_ms}
    in_flight: int = options.get("in_flight", 1)
    producer: Producer | TransactionPipeline
    if in_flight > 1:
        producer = TransactionPipeline(**options["servers"], in_flight=in_flight, **settings)
    else:
        producer = Producer(**options["servers"], **settings)
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        for client in (producer, consumer):
            stack.push_async_callback(client.stop)
            await client.start(wait=False)
        await tasks.start(_stop_at_sigterm, consumer)
        sys.stdout.write(_STOPPABLE)
        sys.stdout.flush()
        await consumer.run(
            handle,
            exactly_once=producer,
            order="partition",
            max_transaction_records=options["batch"],
            max_transaction_ms=1000 if pause_s else 100,
            transaction_retries=100,
        )


async def _stop_at_sigterm(consumer: Consumer[Any, Any], *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            await consumer.stop()
            return


class Copiers:
    """Processes that copy, and their faults."""

    def __init__(self, count: int, seed: int, **options: Any) -> None:
        self._options = options
        self._rng = random.Random(seed)
        self._members = [self._start(number) for number in range(count)]
        self.kills = self.freezes = 0

    def _start(self, number: int) -> subprocess.Popen[str]:
        options = {**self._options, "id": f"{self._options['group']}-{number}"}
        return subprocess.Popen(
            [sys.executable, "-m", "tests.kafka.copier", json.dumps(options)], stdout=subprocess.PIPE, text=True
        )

    def trouble(self, *, hard: bool) -> None:
        """End one member, with SIGKILL or SIGTERM, and start another with its transactional id."""
        number = self._rng.randrange(len(self._members))
        member = self._members[number]
        if hard:
            member.kill()
        else:
            _terminate(member)
        _wait(member)
        self.kills += 1
        self._members[number] = self._start(number)

    def freeze(self, seconds: float) -> None:
        """Suspend one member; it becomes a zombie if its session or its transaction expires meanwhile."""
        member = self._rng.choice(self._members)
        freeze(member)
        self.freezes += 1
        time.sleep(seconds)
        member.send_signal(signal.SIGCONT)

    def stop(self) -> list[int]:
        """End the processes in order; return their exit statuses."""
        for member in self._members:
            _terminate(member)
        return [_wait(member) for member in self._members]

    def kill(self) -> None:
        """Kill all processes that are left."""
        for member in self._members:
            member.kill()
            _wait(member)


def _terminate(member: subprocess.Popen[str]) -> None:
    """Send SIGTERM once the process handles it, unless the process has ended by itself."""
    assert member.stdout is not None
    member.stdout.readline()
    member.terminate()


def _wait(member: subprocess.Popen[str]) -> int:
    status = member.wait(60)
    assert member.stdout is not None
    member.stdout.close()
    return status


async def read_copies(bootstrap: str, topic: str, counts: list[int], timeout_s: float, begun: anyio.Event) -> list[str]:
    """Read committed records during the run; return the errors in them.

    ``counts``: expected number of records, numbered from 0, in each partition. ``begun`` is set with the first record.
    """
    seen: list[list[int]] = [[] for _ in counts]
    wanted = [TopicPartition(topic, partition) for partition in range(len(counts))]
    consumer: Consumer[Any, Any] = Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    consumer.assign(wanted)
    async with consumer:
        until = time.monotonic() + timeout_s
        while any(len(got) < count for got, count in zip(seen, counts, strict=True)) and time.monotonic() < until:
            for tp, records in (await consumer.getmany(timeout_ms=500)).items():
                seen[tp.partition] += [int(record.value) for record in records]
                begun.set()
        for tp, records in (await consumer.getmany(timeout_ms=500)).items():
            seen[tp.partition] += [int(record.value) for record in records]
    return [
        f"partition {number}: {len(got)} of {count} records, {len(got) - len(set(got))} of them twice, "
        f"{'in' if got == sorted(got) else 'out of'} order"
        for number, (got, count) in enumerate(zip(seen, counts, strict=True))
        if got != list(range(count))
    ]


async def fill(bootstrap: str, topic: str, partitions: int, each: int) -> None:
    """Write numbers from 0 into each partition."""
    async with Producer(bootstrap) as producer:
        for partition in range(partitions):
            await (await producer.send_many(topic, [b"%d" % number for number in range(each)], partition=partition))


if __name__ == "__main__":
    anyio.run(_copy, json.loads(sys.argv[1]))
