"""Record when a consumer of any client receives the records of `benchmarks.load`.

``python -m benchmarks.reader CLIENT --bootstrap HOST:PORT --topic T`` reads partition 0 until SIGTERM. It then writes
JSON to standard output: [number of the record, wall-clock time of its first delivery in seconds] for each record. With
``--group-protocol classic|consumer``, the consumer is the only member of a group that subscribes to the topic.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from .load import NUMBER

Note = Callable[[bytes | None], None]


async def lead(options: argparse.Namespace, note: Note, *, leader_hint_policy: Any = "trust", **more: Any) -> None:
    from aiokafka_lead import Consumer, TopicPartition

    config: dict[str, Any] = {
        "bootstrap_servers": options.bootstrap,
        "auto_offset_reset": "earliest",
        "retry_backoff_ms": options.retry_backoff_ms,
        "retry_backoff_max_ms": max(1000, options.retry_backoff_ms),
        "leader_hint_policy": leader_hint_policy,
        **more,
    }
    if options.group_protocol:
        consumer = Consumer(
            *options.topic.split(","), group_id=group_of(options), group_protocol=options.group_protocol, **config
        )
    else:
        consumer = Consumer(**config)
        consumer.assign([TopicPartition(options.topic, 0)])
    async with consumer:
        async for record in consumer:
            note(record.value)


async def aiokafka(options: argparse.Namespace, note: Note, **more: Any) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.structs import TopicPartition

    config: dict[str, Any] = {
        "bootstrap_servers": options.bootstrap,
        "auto_offset_reset": "earliest",
        "retry_backoff_ms": options.retry_backoff_ms,
        **more,
    }
    if options.group_protocol:
        consumer = AIOKafkaConsumer(*options.topic.split(","), group_id=group_of(options), **config)
    else:
        consumer = AIOKafkaConsumer(**config)
        consumer.assign([TopicPartition(options.topic, 0)])
    async with consumer:
        async for record in consumer:
            note(record.value)


async def confluent(options: argparse.Namespace, note: Note, **more: Any) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": group_of(options),
            "group.protocol": options.group_protocol or "classic",
            "enable.auto.commit": bool(options.group_protocol),
            "auto.offset.reset": "earliest",
            "retry.backoff.ms": min(options.retry_backoff_ms, 1000),
            **more,
        }
    )
    if options.group_protocol:
        consumer.subscribe(options.topic.split(","))
    else:
        consumer.assign([TopicPartition(options.topic, 0, OFFSET_BEGINNING)])
    stopped = threading.Event()

    def poll() -> None:
        while not stopped.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                note(message.value())

    try:
        await asyncio.to_thread(poll)
    finally:
        stopped.set()


def group_of(options: argparse.Namespace) -> str:
    """Return the given group id, or the name of the topic."""
    return str(getattr(options, "group", options.topic))


CLIENTS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "lead": lead,
    "lead-no-hints": partial(lead, leader_hint_policy="off"),
    "aiokafka": aiokafka,
    "confluent": confluent,
}
"""Functions by client. Each takes the options and additional configuration of the client."""


async def run(options: argparse.Namespace) -> list[tuple[int, float]]:
    """Read until SIGTERM."""
    seen: dict[int, float] = {}

    def note(value: bytes | None) -> None:
        (number,) = NUMBER.unpack_from(value or b"")
        if number >= 0:  # negative numbers belong to the warm-up
            seen.setdefault(number, time.time())

    reading = asyncio.ensure_future(CLIENTS[options.client](options, note))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, reading.cancel)
    await asyncio.wait([reading])
    if not reading.cancelled():
        reading.result()
    return sorted(seen.items())


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("client", choices=list(CLIENTS))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group-protocol", choices=["classic", "consumer"])
    parser.add_argument("--retry-backoff-ms", type=int, default=100)
    json.dump(asyncio.run(run(parser.parse_args())), sys.stdout)


if __name__ == "__main__":
    main()
