"""A process whose transactions append to lists, stored as partitions, and read them.

``python -m tests.prove.lists '{"bootstrap": ..., "writer": 3, ...}'``. It logs ("append", transaction, partition,
place) before each append, ("read", transaction, {partition: values}) after each read, and ("end", transaction,
outcome). SIGTERM ends it between two transactions.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import anyio

from aiokafka_lead import Consumer, Producer, TopicPartition
from aiokafka_lead.errors import KafkaError, ProducerFencedError
from tests.transactions.history import Value

from .journal import Journal
from .reader import until_sigterm

APPENDS, READ_P, ABORT_P = 6, 0.3, 1 / 16


class Changed(Exception):
    """The application abandons the transaction."""


async def main(options: dict[str, Any]) -> None:
    journal, rng = Journal(options["journal"]), random.Random(options["name"])
    async with anyio.create_task_group() as tasks:
        ended = await tasks.start(until_sigterm)
        producer: Producer[Any, Any] = Producer(
            options["bootstrap"], transactional_id=options["id"], transaction_timeout_ms=options["timeout_ms"]
        )
        reader: Consumer[Any, Any] = Consumer(
            bootstrap_servers=options["bootstrap"], isolation_level="read_committed", auto_offset_reset="earliest"
        )
        reader.assign([TopicPartition(options["topic"], partition) for partition in range(options["partitions"])])
        await producer.start(wait=False)
        await reader.start(wait=False)
        number = 0
        while not ended.is_set():
            number += 1
            await _transaction(options, number, producer, reader, journal, rng)
        await producer.stop()
        await reader.stop()
        journal.say("ended")
        tasks.cancel_scope.cancel()


async def _transaction(
    options: dict[str, Any], number: int, producer: Any, reader: Any, journal: Journal, rng: random.Random
) -> None:
    txn = producer.transaction()
    try:
        async with txn:
            for place in range(rng.randint(1, APPENDS)):
                if rng.random() < READ_P:
                    journal.say("read", number, await _read(reader))
                partition = rng.randrange(options["partitions"])
                journal.say("append", number, partition, place)
                await txn.send(options["topic"], Value(options["writer"], number, place).encoded(), partition=partition)
            if rng.random() < ABORT_P:
                raise Changed
    except (Changed, KafkaError) as error:
        journal.say("end", number, txn.outcome, type(error).__name__)
        if isinstance(error, ProducerFencedError):
            raise
        await anyio.sleep(0.05)
    else:
        journal.say("end", number, txn.outcome)


async def _read(reader: Any) -> dict[int, list[str]]:
    found = await reader.getmany(timeout_ms=20)
    return {tp.partition: [record.value.decode() for record in records] for tp, records in found.items()}


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
