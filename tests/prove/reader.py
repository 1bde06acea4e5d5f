"""A member of a group that reads: ``python -m tests.prove.reader '{"bootstrap": ..., "group": ..., "protocol": ...}'``.

It logs ("got", partition, [offsets]) for all records it receives; offsets are committed automatically, after them.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import anyio
from anyio.abc import TaskStatus

from aiokafka_lead import Consumer

from .journal import Journal

SESSION_MS = 6000


async def main(options: dict[str, Any]) -> None:
    journal = Journal(options["journal"])
    wanted: dict[str, Any] = {"group_id": options["group"], "group_protocol": options["protocol"]}
    if options["protocol"] == "classic":
        wanted["session_timeout_ms"] = SESSION_MS
    consumer: Consumer[Any, Any] = Consumer(
        options["topic"],
        bootstrap_servers=options["bootstrap"],
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
        **wanted,
    )
    async with anyio.create_task_group() as tasks:
        ended = await tasks.start(until_sigterm)
        await consumer.start(wait=False)
        while not ended.is_set():
            for tp, records in (await consumer.getmany(timeout_ms=200)).items():
                journal.say("got", tp.partition, [record.offset for record in records])
        await consumer.stop()
        journal.say("ended")
        tasks.cancel_scope.cancel()


async def until_sigterm(*, task_status: TaskStatus[anyio.Event]) -> None:
    """Set an event at SIGTERM, passing it to the task that starts this one."""
    ended = anyio.Event()
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        task_status.started(ended)
        async for _ in signals:
            ended.set()


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
