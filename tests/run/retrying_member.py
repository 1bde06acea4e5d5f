"""A member of the trial in its own process, to be killed: ``... tests.run.retrying_member SERVERS SETTINGS NUMBER``.

It appends an entry to its log for each record that it has handled, before the record counts as done. With
``exactly_once`` it also copies the record, in the transaction that commits it.
"""

from __future__ import annotations

import json
import logging
import os
import random
import struct
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from aiokafka_lead import Consumer, ConsumerRecord, Handlers, Producer, Transaction

ENTRY = struct.Struct("<Qd")
"""Number of a record, and the time at which it was handled (``time.monotonic()``, the same for all processes)."""

TOPIC, COPIES, GROUP = "orders", "copies", "billing"


class Settings(NamedTuple):
    """Settings of a trial."""

    folder: str
    seed: int
    failing: float
    """Part of the records that fail at first."""
    scale: float
    """Part of a second that stands for one."""
    order: str
    """``retry_order``."""
    work_ms: float
    """Time that a handler takes."""
    exactly_once: bool
    batch: int
    """Number of records that a handler takes at once; 0 for a handler of single records."""

    def fails_for_s(self, number: int) -> float:
        """Return the time for which a record fails from its first attempt on; 0.0 for a healthy one."""
        chance = random.Random(self.seed * 1_000_003 + number)
        return chance.uniform(1, 60) * self.scale if chance.random() < self.failing else 0.0

    @property
    def delays(self) -> list[str]:
        """Return delays whose sum is longer than any record fails."""
        return [f"{int(1000 * self.scale * seconds)}ms" for seconds in (5, 15, 60)]

    def began_at(self, number: int) -> float:
        """Return the time of the first attempt at a record, by any process."""
        path = Path(self.folder) / "attempts" / str(number)
        try:
            with path.open("x"):
                pass
        except FileExistsError:
            pass
        return path.stat().st_mtime


async def main(servers: str, text: str, number: str) -> None:
    """Handle records until killed."""
    settings = Settings(*json.loads(text))
    log = os.open(Path(settings.folder) / f"log-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def handle_all(records: list[ConsumerRecord[Any, Any]]) -> None:
        await anyio.sleep(settings.work_ms / 1000)
        numbers = [int(record.value) for record in records]
        failing = [(number, fails_for_s) for number in numbers if (fails_for_s := settings.fails_for_s(number))]
        fails_until = [settings.began_at(number) + fails_for_s for number, fails_for_s in failing]
        if fails_until and time.time() < max(fails_until):
            raise TimeoutError("not yet")
        os.write(log, b"".join([ENTRY.pack(number, time.monotonic()) for number in numbers]))

    async def copy_all(records: list[ConsumerRecord[Any, Any]], txn: Transaction[Any, Any]) -> None:
        await handle_all(records)
        for record in records:
            await txn.send(COPIES, record.value, record.key)

    async def handle(record: ConsumerRecord[Any, Any]) -> None:
        await handle_all([record])

    async def copy(record: ConsumerRecord[Any, Any], txn: Transaction[Any, Any]) -> None:
        await copy_all([record], txn)

    handlers = Handlers()
    if settings.batch:
        on = handlers.on(TOPIC, max_records=settings.batch, max_wait_ms=20)
        on(copy_all if settings.exactly_once else handle_all)
    else:
        handlers.on(TOPIC)(copy if settings.exactly_once else handle)

    options: dict[str, Any] = {
        "session_timeout_ms": 6_000,
        "auto_commit_interval_ms": 500,
    }
    async with Consumer(
        TOPIC, bootstrap_servers=servers, group_id=GROUP, auto_offset_reset="earliest", **options
    ) as consumer:
        options = {"retries": 0, "dead_letter_topic": "dead", "stop_on_signals": True}
        options |= {"retry_topics": settings.delays, "retry_order": settings.order}
        if settings.exactly_once:
            async with Producer(servers, transactional_id=f"member-{number}") as producer:
                await consumer.run(handlers, exactly_once=producer, **options)
        else:
            await consumer.run(handlers, **options)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
