"""A member of a group that reads: ``python -m tests.prove.reader '{"servers": ..., "group": ..., "protocol": ...}'``.

It logs ("got", partition, [offsets]) for all records that it receives. Offsets are committed automatically afterwards.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import anyio
from anyio.abc import TaskStatus

from .clients import CLIENTS
from .journal import Journal


async def main(options: dict[str, Any]) -> None:
    journal = Journal(options["journal"])
    consumer = CLIENTS[options["client"]].reader(
        options["servers"], options["topic"], options["group"], options["protocol"]
    )
    async with anyio.create_task_group() as tasks:
        ended = await tasks.start(until_sigterm)
        await consumer.start()
        while not ended.is_set():
            for partition, records in (await consumer.read(200)).items():
                journal.say("got", partition, [offset for offset, _ in records])
        await consumer.stop()
        journal.say("ended")
        tasks.cancel_scope.cancel()


async def until_sigterm(*, task_status: TaskStatus[anyio.Event]) -> None:
    """Pass an event to the task that starts this task, and set it at SIGTERM."""
    ended = anyio.Event()
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        task_status.started(ended)
        async for _ in signals:
            ended.set()


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
