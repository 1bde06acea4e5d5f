"""Faults of leaders, and of followers to which leaders redirect consumers."""

from __future__ import annotations

import asyncio
import time

from .clients import CLIENT_ID, GROUP
from .trial import ABSENT, REFUSED_LOGIN, SASL, USERS, Outcome, Trial, before, feeding, first_strike

NOTICED_S = 1.0
"""Seconds until a leader notices that a follower is gone, if it notices at all."""
VALIDATES_S = 4.0
"""Seconds within which a client validates its position after a leader move, if it validates at all."""
FOR_EVER = 1_000_000


async def preferred_replica(trial: Trial, how: str, *, noticed: bool) -> Outcome:
    """The follower in the client's rack can no longer be read. The leader notices this only if ``noticed`` is True."""
    cluster = await trial.cluster(2, racks=["a", "b"], sasl_users=USERS)
    cluster.create_topic("t", assignments=[[1, 2]])
    async with feeding(cluster, **SASL):
        program = await trial.program("read", cluster.address(1), config={**SASL, "client_rack": "b"})
        await before(program.progressed())
        await before(cluster.wait_for_requests("Fetch", broker=2, count=2))
        if how == "refuses the connection":
            await cluster.kill_broker(2, failover_delay_ms=1e9)
        else:
            cluster.faults.add("Fetch", broker=2, client_id=CLIENT_ID, disconnect=True)
            if how == "refuses the login":
                cluster.faults.add("SaslAuthenticate", broker=2, client_id=CLIENT_ID, error_code=REFUSED_LOGIN)
            else:
                cluster.faults.add("ApiVersions", broker=2, client_id=CLIENT_ID, drop=True)
        await asyncio.sleep(NOTICED_S)
        if noticed:
            cluster.set_isr("t", 0, [1])
        return await trial.progress(program, time.time())


async def asked_for_records(trial: Trial, api: str, code: int) -> Outcome:
    """A leader refuses all requests of a consumer or share group member, although another broker is the leader now."""
    cluster = await trial.cluster()
    cluster.create_topic("t")
    cluster.shares.configure(GROUP, {"share.auto.offset.reset": "earliest"})
    role, apis = ("share", [api, "ShareAcknowledge"]) if api == "ShareFetch" else ("read", [api])
    async with feeding(cluster):
        program = await trial.program(role, cluster.bootstrap_servers)
        await before(program.progressed())
        old = cluster.leader("t")
        struck = first_strike(cluster, apis, lambda _: cluster.move_leader("t"), broker=old, error_code=code)
        return await trial.progress(program, await before(struck))


async def asked_for_offsets(trial: Trial, code: int) -> Outcome:
    """A leader refuses the ListOffsets request of a new consumer, although another broker is the leader now."""
    cluster = await trial.cluster()
    cluster.create_topic("t")
    old = cluster.leader("t")
    async with feeding(cluster):
        struck = first_strike(cluster, ["ListOffsets"], lambda _: cluster.move_leader("t"), broker=old, error_code=code)
        program = await trial.program("read", cluster.bootstrap_servers)
        return await trial.progress(program, await before(struck))


async def asked_to_validate(trial: Trial, code: int) -> Outcome:
    """After a move, the new leader refuses to validate a position, but a third broker leads now (Fetch before 12)."""
    cluster = await trial.cluster(max_versions={"Fetch": 11})
    cluster.create_topic("t")
    _, second, third = cluster.replicas("t")
    async with feeding(cluster):
        program = await trial.program("read", cluster.bootstrap_servers)
        await before(program.progressed())
        struck = first_strike(
            cluster,
            ["OffsetForLeaderEpoch"],
            lambda _: cluster.move_leader("t", to=third),
            broker=second,
            error_code=code,
        )
        cluster.move_leader("t", to=second)
        try:
            since = await asyncio.wait_for(struck, VALIDATES_S)
        except TimeoutError:
            return ABSENT
        return await trial.progress(program, since)


async def isolated(trial: Trial, code: int, *, knows: bool) -> Outcome:
    """A leader is isolated, and the other brokers have elected a new one, which it knows only if ``knows`` is True."""
    cluster = await trial.cluster()
    cluster.create_topic("t")
    program = await trial.program("write", cluster.bootstrap_servers)
    await before(program.progressed())
    old = cluster.leader("t")
    if not knows:
        cluster.freeze_metadata(FOR_EVER, broker=old)
    struck = first_strike(cluster, ["Produce"], lambda _: cluster.move_leader("t"), broker=old, error_code=code)
    return await trial.progress(program, await before(struck))
