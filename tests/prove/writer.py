"""A process that writes numbers, each once: ``python -m tests.prove.writer '{"servers": ...}'``.

It logs ("sent", number, partition) before a record is given to the producer, then ("stored", number, partition,
offset), or ("failed", number, why). A failed record may or may not be stored, but at most once. SIGTERM ends the
process in an orderly way.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from typing import Any

from .clients import CLIENTS, Writing
from .journal import Journal

IN_FLIGHT = 500


async def main(options: dict[str, Any]) -> None:
    journal, rng = Journal(options["journal"]), random.Random(options["name"])
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    producer: Writing = CLIENTS[options["client"]].producer(options["servers"])
    await producer.start()
    room = asyncio.Semaphore(IN_FLIGHT)
    waiting: set[asyncio.Task[None]] = set()

    async def note(number: int, partition: int, delivery: Any) -> None:
        try:
            journal.say("stored", number, partition, await delivery)
        except Exception as error:
            journal.say("failed", number, f"{type(error).__name__}: {error}"[:200])
        finally:
            room.release()

    number = 0
    while not ended.is_set():
        await room.acquire()
        partition = rng.randrange(options["partitions"])
        journal.say("sent", number, partition)
        value = f"{options['name']}/{number}".encode()
        try:
            delivery = await producer.send(options["topic"], partition, value)
        except Exception as error:
            journal.say("failed", number, f"{type(error).__name__}: {error}"[:200])
            room.release()
        else:
            task = asyncio.create_task(note(number, partition, delivery))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        number += 1
        await asyncio.sleep(1 / options["per_second"])
    await producer.stop()
    if waiting:
        await asyncio.wait(waiting)
    journal.say("ended")


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
