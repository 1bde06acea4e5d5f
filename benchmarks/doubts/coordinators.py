"""Faults of group and transaction coordinators, and of brokers that look them up."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence

from aiokafka_lead import AdminClient
from aiokafka_lead._wire import decode_response, encode_response
from aiokafka_lead._wire.messages.metadata import MetadataResponse
from aiokafka_lead.testing import EmbeddedCluster, GroupOptions

from .clients import CLIENT_ID, GROUP
from .trial import Outcome, Trial, before, feeding, first_strike

GROUP_APIS = ["JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch", "ConsumerGroupHeartbeat"]
TRANSACTION_APIS = ["InitProducerId", "AddPartitionsToTxn", "EndTxn"]
LOADING, NOT_AVAILABLE = 14, 15
QUICK_GROUPS = GroupOptions(consumer_heartbeat_interval_ms=500)


def loading_for_ever(cluster: EmbeddedCluster) -> asyncio.Future[float]:
    """Let the group's coordinator return LOADING. After its first response, another broker becomes the coordinator."""
    return first_strike(
        cluster,
        GROUP_APIS,
        lambda _: cluster.move_coordinator(GROUP),
        broker=cluster.coordinator(GROUP),
        error_code=LOADING,
        whole=True,
    )


async def loading_for_joiners(trial: Trial, protocol: str) -> Outcome:
    """A member joins, but the coordinator never stops loading, although another broker is the coordinator by now."""
    cluster = await trial.cluster()
    cluster.create_topic("t")
    struck = loading_for_ever(cluster)
    async with feeding(cluster):
        program = await trial.program("read", cluster.bootstrap_servers, group_protocol=protocol)
        return await trial.progress(program, await before(struck))


async def loading_for_members(trial: Trial, protocol: str) -> Outcome:
    """The coordinator of a running group never stops loading. Measure until the group commits offsets again."""
    cluster = await trial.cluster(groups=QUICK_GROUPS)
    cluster.create_topic("t")
    async with feeding(cluster), AdminClient(cluster.bootstrap_servers) as admin:
        program = await trial.program(
            "read", cluster.bootstrap_servers, group_protocol=protocol,
            config={"auto_commit_interval_ms": 500},
        )  # fmt: skip
        await before(committed(admin, 1))
        struck = loading_for_ever(cluster)
        since = await before(struck)
        return await trial.until(committed(admin, cluster.end_offset("t") + 1), program, since)


async def committed(admin: AdminClient, least: int, partitions: Sequence[int] = (0,), below: float = math.inf) -> float:
    """Wait until the group has committed at least this offset in each partition. Return the time."""
    while True:
        found = {place.partition: at for place, at in (await admin.list_consumer_group_offsets(GROUP)).items()}
        if all((at := found.get(partition)) is not None and least <= at.offset < below for partition in partitions):
            return time.time()
        await asyncio.sleep(0.05)


async def loading_for_transactions(trial: Trial, *, at_start: bool) -> Outcome:
    """The coordinator of a transactional id never stops loading, although another broker is the coordinator by now."""
    cluster = await trial.cluster()
    cluster.create_topic("t")
    program = None if at_start else await trial.program("transact", cluster.bootstrap_servers)
    if program is not None:
        await before(program.progressed())
    struck = first_strike(
        cluster,
        TRANSACTION_APIS,
        lambda _: cluster.transactions.move_coordinator("tx"),
        broker=cluster.transactions.coordinator("tx"),
        error_code=LOADING,
        whole=True,
    )
    if program is None:
        program = await trial.program("transact", cluster.bootstrap_servers)
    return await trial.progress(program, await before(struck))


async def finds_no_coordinator(trial: Trial, role: str) -> Outcome:
    """The first broker that receives FindCoordinator never finds a coordinator, and is not the coordinator itself."""
    cluster = await trial.cluster()
    cluster.create_topic("t")

    def none_itself(asked: int) -> None:
        cluster.move_coordinator(GROUP, to=asked % 3 + 1)
        cluster.transactions.move_coordinator("tx", to=asked % 3 + 1)

    async with feeding(cluster):
        struck = first_strike(cluster, ["FindCoordinator"], none_itself, error_code=NOT_AVAILABLE)
        program = await trial.program(role, cluster.address(1), group_protocol="classic")
        return await trial.progress(program, await before(struck))


async def knows_no_brokers(trial: Trial) -> Outcome:
    """The first of three brokers that receives a Metadata request always returns an empty list of brokers."""
    cluster = await trial.cluster()
    cluster.create_topic("t")

    def without_brokers(answer: bytes) -> bytes:
        correlation_id = int.from_bytes(answer[4:8])
        asked = cluster.requests.select("Metadata", client_id=CLIENT_ID)
        version = next(each.version for each in reversed(asked) if each.correlation_id == correlation_id)
        _, message = decode_response(MetadataResponse, version, answer[4:])
        message.brokers, message.topics = [], []
        return b"".join(encode_response(message, version, correlation_id))

    struck = first_strike(cluster, ["Metadata"], after=True, garbage=without_brokers)
    program = await trial.program("write", cluster.bootstrap_servers)
    return await trial.progress(program, await before(struck))
