"""A member of a share group: ``python -m tests.prove.sharer '{"servers": ..., "group": ...}'``.

It logs ("begun", [values]) for all records that it receives, ("done", [values]) for records whose acceptance a broker
has confirmed, and ("not known", [values]) for accepted records without a confirmation. One record of ten is released at
its first delivery.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import anyio

from aiokafka_lead import AcknowledgeType, ShareConsumer
from aiokafka_lead.errors import KafkaError

from .journal import Journal
from .reader import until_sigterm

RELEASED_P = 0.1


async def main(options: dict[str, Any]) -> None:
    journal, rng = Journal(options["journal"]), random.Random(options["name"])
    async with anyio.create_task_group() as tasks:
        ended = await tasks.start(until_sigterm)
        consumer: ShareConsumer[Any, Any] = ShareConsumer(
            options["topic"],
            **options["servers"],
            group_id=options["group"],
            share_acknowledgement_mode="explicit",
        )
        await consumer.start(wait=False)
        while not ended.is_set():
            accepted: dict[str, Any] = {}
            records = [record for found in (await consumer.getmany(timeout_ms=200)).values() for record in found]
            if records:
                journal.say("begun", [record.value.decode() for record in records])
                for record in records:
                    if record.delivery_count == 1 and rng.random() < RELEASED_P:
                        consumer.acknowledge(record, AcknowledgeType.RELEASE)
                    else:
                        accepted[record.value.decode()] = consumer.acknowledge(record, AcknowledgeType.ACCEPT)
            await _settle(consumer, accepted, journal)
        await consumer.stop()
        journal.say("ended")
        tasks.cancel_scope.cancel()


async def _settle(consumer: ShareConsumer[Any, Any], accepted: dict[str, Any], journal: Journal) -> None:
    """Wait for the outcomes of the acknowledgements."""
    try:
        await consumer.commit(timeout_ms=20_000)
    except KafkaError:
        pass
    done, unknown = [], []
    for value, acknowledgement in accepted.items():
        try:
            with anyio.fail_after(1):
                await acknowledgement
        except (KafkaError, TimeoutError):
            unknown.append(value)
        else:
            done.append(value)
    for kind, values in (("done", done), ("not known", unknown)):
        if values:
            journal.say(kind, values)


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
