"""Faults of topics that are deleted, or recreated with fewer partitions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka_lead import AdminClient, Producer
from aiokafka_lead.testing import EmbeddedCluster

from .clients import GROUP, value_of_now
from .coordinators import QUICK_GROUPS, committed
from .trial import Outcome, Trial, before, feeding

METADATA_AGE = {"metadata_max_age_ms": 2000}
GONE_S = 2.0
AWAY_S = 1.0
"""Seconds from a topic's deletion to its creation."""
OLD_RECORDS = 2_000
"""Number of records in each partition before the deletion, which is more than the new log ever contains."""
KEYED = 20


async def deleted(trial: Trial, protocol: str) -> Outcome:
    """A topic is deleted after a member has read it. Measure until a second member gets a record of another topic."""
    cluster = await trial.cluster(groups=QUICK_GROUPS)
    cluster.create_topic("t", 2)
    cluster.create_topic("gone")
    heartbeats = {"heartbeat_interval_ms": 500} if protocol == "classic" else {}
    member: dict[str, Any] = {"group_protocol": protocol, "config": METADATA_AGE | heartbeats}
    async with feeding(cluster, (0, 1)):
        async with feeding(cluster, topic="gone"):
            first = await trial.program("read", cluster.bootstrap_servers, topic="t,gone", **member)
            await before(first.progressed(number=KEYED))
        cluster.delete_topic("gone")
        await asyncio.sleep(GONE_S)
        second = await trial.program("read", cluster.bootstrap_servers, **member)
        since: float = (await before(second.event("begun")))["at"]
        return await trial.progress(second, since)


@asynccontextmanager
async def _made_again(cluster: EmbeddedCluster) -> AsyncIterator[float]:
    """Recreate the topic with two partitions instead of four, and with new records. Yield the time."""
    cluster.delete_topic("t")
    await asyncio.sleep(AWAY_S)
    cluster.create_topic("t", 2)
    since = time.time()
    async with feeding(cluster, (0, 1)):
        yield since


async def fewer_for_group(trial: Trial, protocol: str, *, commits: bool) -> Outcome:
    """A group loses partitions. Measure until it owns the remaining two, or has committed offsets of both."""
    cluster = await trial.cluster(groups=QUICK_GROUPS)
    cluster.create_topic("t", 4)
    async with Producer(cluster.bootstrap_servers) as producer:
        for partition in range(4):
            await producer.send_many("t", [value_of_now()] * OLD_RECORDS, partition=partition)
    async with AdminClient(cluster.bootstrap_servers) as admin:

        async def assigned() -> float:
            while True:
                members = (await admin.describe_consumer_groups([GROUP]))[GROUP].members
                if sum(len(member.assignment) for member in members) == 2:
                    return time.time()
                await asyncio.sleep(0.05)

        program = await trial.program(
            "read", cluster.bootstrap_servers, group_protocol=protocol,
            config={**METADATA_AGE, "auto_commit_interval_ms": 500},
        )  # fmt: skip
        await before(committed(admin, OLD_RECORDS, range(4)))
        async with _made_again(cluster) as since:
            reached = committed(admin, 1, (0, 1), OLD_RECORDS) if commits else assigned()
            return await trial.until(reached, program, since)


async def fewer_for_writer(trial: Trial) -> Outcome:
    """Partitions disappear while a producer is idle. Measure until its next `KEYED` records with keys are written."""
    cluster = await trial.cluster()
    cluster.create_topic("t", 4)
    program = await trial.program("write", cluster.bootstrap_servers, partitions=(None,))
    await before(program.progressed(number=KEYED))
    program.say("pause")
    await asyncio.sleep(AWAY_S)
    async with _made_again(cluster) as since:
        program.say("resume")
        outcome = await trial.progress(program, since, KEYED)
    lost = len(program.found("given up", since))
    return Outcome(None, f"{lost} lost") if lost else outcome
