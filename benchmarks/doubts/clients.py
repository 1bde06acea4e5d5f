"""Run a client for the benchmark ``doubt``, and report the outcomes of its records on standard output.

``python -m benchmarks.doubts.clients CLIENT ROLE OPTIONS``: CLIENT is ``lead``, ``confluent`` or ``aiokafka``. ROLE is
one of `ROLES`. OPTIONS is a JSON object of `Options`. Each line of the output is a JSON object with an event (``what``)
and its wall-clock time in seconds (``at``). For a record, it also has the time in seconds at which the record was
written (``written``), which is also the value of the record, in milliseconds. The program runs until it is killed, or
until an error ends the client's loop. In this case, the last event is ``ended``.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import itertools
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from .. import load, reader
from ..load import NUMBER

CLIENT_ID = "tested"
"""Client id to which the faults are limited."""
GROUP = "g"
EVERY_S = 0.05
"""Interval in seconds between two records, or two transactions."""
_MODULES = {
    "lead": ["aiokafka_lead.producer", "aiokafka_lead.consumer", "aiokafka_lead.share"],
    "confluent": ["confluent_kafka"],
    "aiokafka": ["aiokafka"],
}
"""Modules to import before anything is measured, by client."""
_OF_LIBRDKAFKA = {"sasl_plain_username": "sasl.username", "sasl_plain_password": "sasl.password"}
"""Options of librdkafka whose names are not this client's names with dots in place of underscores."""


class Options(argparse.Namespace):
    """Options of the program, with the same names as in ``load`` and ``reader``."""

    bootstrap: str
    topic: str = "t"
    """The topic, or several separated by commas."""
    group: str = GROUP
    group_protocol: str | None = None
    partitions: tuple[int | None, ...] = (0,)
    """Partitions to which records are sent in turn; None if the client chooses the partition."""
    every_s: float = EVERY_S
    retry_backoff_ms: int = 100
    config: dict[str, Any] = {}  # noqa: RUF012
    """Additional configuration of the client, with this client's names."""
    may_write: asyncio.Event


def emit(what: str, **more: Any) -> None:
    """Print an event. Thread-safe."""
    sys.stdout.write(json.dumps({"what": what, "at": time.time(), **more}) + "\n")
    sys.stdout.flush()


def value_of_now() -> bytes:
    """Return the value of a record: the current time in milliseconds."""
    return NUMBER.pack(int(time.time() * 1000))


def note(value: bytes | None) -> None:
    """Report a record that was read."""
    (written_ms,) = NUMBER.unpack(value or b"")
    emit("read", written=written_ms / 1000)


def config_of(client: str, options: Options) -> dict[str, Any]:
    """Return the additional configuration with the option names of the client."""
    config = {"client_id": CLIENT_ID, **options.config}
    if client != "confluent":
        return config
    return {_OF_LIBRDKAFKA.get(name, name.replace("_", ".")): value for name, value in config.items()}


# --- roles -----------------------------------------------------------------------------------------------------------


async def write(client: str, options: Options) -> None:
    """Write a record at each interval, even if earlier records are not acknowledged."""
    async with load.CLIENTS[client](options, **config_of(client, options)) as send:
        for partition in itertools.cycle(options.partitions):
            value = value_of_now()

            def done(acknowledged: bool, value: bytes = value) -> None:
                (written_ms,) = NUMBER.unpack(value)
                emit("acknowledged" if acknowledged else "given up", written=written_ms / 1000)

            try:
                await send(partition, value, done)
            except Exception:
                done(False)
            await asyncio.sleep(options.every_s)
            await options.may_write.wait()


async def read(client: str, options: Options) -> None:
    """Read partition 0, or as a member of a group."""
    await reader.CLIENTS[client](options, note, **config_of(client, options))


async def serve(client: str, options: Options) -> None:
    """Read as a service: with `Consumer.run` of this client, or with the loop of ``read`` for other clients.

    By default, a refusal ends `run`, as it ends aiokafka's loop. This service is configured to continue, as
    confluent-kafka always does.
    """
    if client != "lead":
        await read(client, options)
        return
    from aiokafka_lead import Consumer

    async def handle(record: Any) -> None:
        note(record.value)

    async with Consumer(
        options.topic,
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        auto_offset_reset="earliest",
        **config_of(client, options),
    ) as consumer:
        await consumer.run(handle, refusal_patience_ms=120_000)


async def transact(client: str, options: Options) -> None:
    """Commit transactions of one record in succession."""
    one = await _TRANSACTIONS[client](options, config_of(client, options))
    while True:
        written = time.time()
        await one(value_of_now())
        emit("acknowledged", written=written)
        await asyncio.sleep(options.every_s)


Transaction = Callable[[bytes], Awaitable[None]]


async def _transactions_of_lead(options: Options, config: dict[str, Any]) -> Transaction:
    from aiokafka_lead import Producer

    producer = Producer(options.bootstrap, transactional_id="tx", linger_ms=0, **config)
    await producer.start()

    async def one(value: bytes) -> None:
        async with producer.transaction():
            await producer.send(options.topic, value, partition=0)

    return one


async def _transactions_of_aiokafka(options: Options, config: dict[str, Any]) -> Transaction:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=options.bootstrap, transactional_id="tx", **config)
    await producer.start()

    async def one(value: bytes) -> None:
        async with producer.transaction():
            await producer.send(options.topic, value, partition=0)

    return one


async def _transactions_of_confluent(options: Options, config: dict[str, Any]) -> Transaction:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": options.bootstrap, "transactional.id": "tx", "linger.ms": 0, **config})
    await asyncio.to_thread(producer.init_transactions, 600)

    def one(value: bytes) -> None:
        producer.begin_transaction()
        producer.produce(options.topic, value, partition=0)
        producer.commit_transaction(600)

    async def in_thread(value: bytes) -> None:
        await asyncio.to_thread(one, value)

    return in_thread


_TRANSACTIONS = {
    "lead": _transactions_of_lead,
    "aiokafka": _transactions_of_aiokafka,
    "confluent": _transactions_of_confluent,
}


async def share(client: str, options: Options) -> None:
    """Take records as a member of a share group. Each poll accepts the records of the previous poll."""
    config = config_of(client, options)
    if client == "lead":
        from aiokafka_lead import ShareConsumer

        async with ShareConsumer(
            options.topic, bootstrap_servers=options.bootstrap, group_id=options.group, **config
        ) as consumer:
            async for record in consumer:
                note(record.value)
        return
    from confluent_kafka import ShareConsumer as ShareConsumerOfConfluent

    other = ShareConsumerOfConfluent({"bootstrap.servers": options.bootstrap, "group.id": options.group, **config})
    other.subscribe([options.topic])

    def poll() -> None:
        while True:
            for message in other.poll(0.1):
                if message.error() is None:
                    note(message.value())

    await asyncio.to_thread(poll)


ROLES: dict[str, Callable[[str, Options], Coroutine[Any, Any, None]]] = {
    "write": write,
    "read": read,
    "serve": serve,
    "transact": transact,
    "share": share,
}


async def obey(options: Options) -> None:
    """Execute the commands ``pause`` and ``resume`` from standard input. End the program when its parent has ended."""
    while word := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if word == "pause":
            options.may_write.clear()
        else:
            options.may_write.set()
    os._exit(1)


async def work(client: str, role: str, options: Options) -> None:
    """Work until killed, or until a call of the client raises an error."""
    options.may_write = asyncio.Event()
    options.may_write.set()
    obeying = asyncio.create_task(obey(options))
    for module in _MODULES[client]:
        importlib.import_module(module)
    emit("begun")
    try:
        await ROLES[role](client, options)
    except Exception as error:
        emit("ended", error=type(error).__name__)
    await obeying


def main() -> None:
    """Run the role. The command line has no help, because only the benchmark calls it."""
    client, role, options = sys.argv[1:]
    asyncio.run(work(client, role, Options(**json.loads(options))))


if __name__ == "__main__":
    main()
