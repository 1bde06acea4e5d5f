"""A process whose transactions append to lists, stored as partitions, and read them.

``python -m tests.prove.lists '{"servers": ..., "writer": 3, ...}'``. It logs ("append", transaction, partition, place)
before each append, ("read", transaction, {partition: values}) after each read, and ("end", transaction, outcome).
SIGTERM ends it between two transactions. It also ends if its producer is fenced, for example after the transaction's
timeout.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import anyio

from tests.transactions.history import Value

from .clients import CLIENTS, Failed, Reading, Transacting
from .journal import Journal
from .reader import until_sigterm

APPENDS, READ_P, ABORT_P = 6, 0.3, 1 / 16


class Changed(Exception):
    """Raised by the application to abandon its transaction."""


async def main(options: dict[str, Any]) -> None:
    journal, rng = Journal(options["journal"]), random.Random(options["name"])
    client, partitions = CLIENTS[options["client"]], list(range(options["partitions"]))
    producer = client.transactions(options["servers"], options["id"], options["timeout_ms"])
    reader = client.reader(options["servers"], options["topic"], partitions, "")
    async with anyio.create_task_group() as tasks:
        ended = await tasks.start(until_sigterm)
        await producer.start()
        await reader.start()
        number, of_use = 0, True
        while not ended.is_set() and of_use:
            number += 1
            of_use = await _transaction(options, number, producer, reader, journal, rng)
        await producer.stop()
        await reader.stop()
        journal.say("ended")
        tasks.cancel_scope.cancel()


async def _transaction(
    options: dict[str, Any],
    number: int,
    producer: Transacting,
    reader: Reading,
    journal: Journal,
    rng: random.Random,
) -> bool:
    """Run one transaction; return False if the producer cannot be used again, for example after it was fenced."""
    txn = producer.transaction()
    try:
        async with txn:
            for place in range(rng.randint(1, APPENDS)):
                if rng.random() < READ_P:
                    journal.say("read", number, await _read(reader))
                partition = rng.randrange(options["partitions"])
                journal.say("append", number, partition, place)
                await txn.send(options["topic"], partition, Value(options["writer"], number, place).encoded())
            if rng.random() < ABORT_P:
                raise Changed
    except (Changed, Failed) as error:
        journal.say("end", number, txn.outcome, str(error))
        await anyio.sleep(0.05)
        return not (isinstance(error, Failed) and error.is_final)
    journal.say("end", number, txn.outcome)
    return True


async def _read(reader: Reading) -> dict[int, list[str]]:
    return {
        partition: [value.decode() for _, value in records] for partition, records in (await reader.read(20)).items()
    }


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
