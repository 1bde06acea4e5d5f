"""Rows of both tables of ``doubt``."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from functools import partial

from . import coordinators, leaders, passing, topics
from .clients import CLIENT_ID
from .coordinators import NOT_AVAILABLE
from .trial import Outcome, Row, Trial, before, feeding, first_strike

NOT_IN_AIOKAFKA = frozenset({"aiokafka"})
PROTOCOLS = (("classic", "classic", frozenset[str]()), ("consumer", "KIP-848", NOT_IN_AIOKAFKA))
COUNTED_S = 10.0
SETTLE_S = 1.0
COUNTED = ("Produce", "Fetch", "Metadata", "FindCoordinator")


def waits() -> list[Row]:
    """Return the rows of the first table: seconds from a fault to the first progress after it."""
    return [*_of_leaders(), *_of_coordinators(), *_of_what_passes(), *_of_topics()]


def _of_leaders() -> list[Row]:
    found = [
        Row(f"preferred replica {how}, {whether}", partial(leaders.preferred_replica, how=how, noticed=noticed))
        for noticed, whether in ((True, "its leader notices"), (False, "its leader does not notice"))
        for how in ("refuses the connection", "hangs in the handshake", "refuses the login")
    ]
    for code in (75, -1, 78):
        found.append(Row(f"old leader: Fetch {code}", partial(leaders.asked_for_records, api="Fetch", code=code)))
    for code in (75, -1, 78):
        found.append(Row(f"old leader: ListOffsets {code}", partial(leaders.asked_for_offsets, code=code)))
    for code in (75, -1):
        found.append(Row(f"old leader: OffsetForLeaderEpoch {code}", partial(leaders.asked_to_validate, code=code)))
    for code in (75, -1):
        scenario = partial(leaders.asked_for_records, api="ShareFetch", code=code)
        found.append(Row(f"old leader: ShareFetch {code}", scenario, NOT_IN_AIOKAFKA))
    for code in (7, 19, 20):
        found.append(Row(f"isolated leader: Produce {code}", partial(leaders.isolated, code=code, knows=True)))
    scenario = partial(leaders.isolated, code=19, knows=False)
    return [*found, Row("isolated leader: Produce 19, and stale metadata", scenario)]


def _of_coordinators() -> list[Row]:
    found = []
    for protocol, name, not_in in PROTOCOLS:
        joiners, members = coordinators.loading_for_joiners, coordinators.loading_for_members
        found += [
            Row(f"old coordinator, {name}: 14 to a joiner", partial(joiners, protocol=protocol), not_in),
            Row(f"old coordinator, {name}: 14 to a member", partial(members, protocol=protocol), not_in),
        ]
    for at_start, whom in ((True, "at the start"), (False, "at work")):
        scenario = partial(coordinators.loading_for_transactions, at_start=at_start)
        found.append(Row(f"old coordinator, transactions: 14 {whom}", scenario))
    return [
        *found,
        Row("a broker: FindCoordinator 15, group", partial(coordinators.finds_no_coordinator, role="read")),
        Row("a broker: FindCoordinator 15, transactions", partial(coordinators.finds_no_coordinator, role="transact")),
        Row("a broker: Metadata without brokers", coordinators.knows_no_brokers),
    ]


def _of_what_passes() -> list[Row]:
    return [
        *(
            Row(f"first address {how}, {whom}", partial(passing.first_address, how=how, at_start=at_start))
            for at_start, whom in ((True, "at the start"), (False, "at work"))
            for how in passing.STRANGERS
        ),
        Row("login refused twice: writer", partial(passing.login, role="write")),
        Row("login refused twice: service", partial(passing.login, role="serve")),
        Row("service: JoinGroup 30 once", lambda trial: passing.service(trial, ("Heartbeat", 27), ("JoinGroup", 30))),
        Row("service: Heartbeat 30 once", lambda trial: passing.service(trial, ("Heartbeat", 30))),
        Row("service: Fetch 29 once", lambda trial: passing.service(trial, ("Fetch", 29))),
    ]


def _of_topics() -> list[Row]:
    found = []
    for protocol, name, not_in in PROTOCOLS:
        found.append(Row(f"deleted topic, {name}: second member", partial(topics.deleted, protocol=protocol), not_in))
        for commits, what in ((False, "assigned"), (True, "committed")):
            scenario = partial(topics.fewer_for_group, protocol=protocol, commits=commits)
            found.append(Row(f"fewer partitions, {name}: {what}", scenario, not_in))
    return [*found, Row("fewer partitions: writer", topics.fewer_for_writer)]


# --- how often -------------------------------------------------------------------------------------------------------


def rates() -> list[Row]:
    """Return the rows of the second table: requests per second while every broker refuses."""
    return [
        *(
            Row(f"all brokers: {api} {code}", partial(refused, api=api, code=code, role=role))
            for api, role in (("Produce", "write"), ("Fetch", "read"))
            for code in (6, 75, -1, 19)
            if (api, code) not in (("Produce", 75), ("Fetch", 19))
        ),
        Row(
            "all brokers: FindCoordinator 15",
            partial(refused, api="FindCoordinator", code=NOT_AVAILABLE, role="read", group_protocol="classic"),
        ),
        Row("all brokers: Metadata 5", partial(refused, api="Metadata", code=5, role="write")),
    ]


async def refused(trial: Trial, api: str, code: int, role: str, group_protocol: str | None = None) -> Outcome:
    """Measure the requests per second of a running client while every broker refuses one kind of request."""
    cluster = await trial.cluster()
    cluster.create_topic("t")
    options = {"group_protocol": group_protocol, "every_s": 0.2}
    async with feeding(cluster):
        at_start = api in ("FindCoordinator", "Metadata")
        program = None if at_start else await trial.program(role, cluster.bootstrap_servers, **options)
        if program is not None:
            await before(program.progressed())
        struck = first_strike(cluster, [api], error_code=code, count=None)
        if program is None:
            program = await trial.program(role, cluster.bootstrap_servers, **options)
        await before(struck)
        await asyncio.sleep(SETTLE_S)
        began = time.monotonic()
        await asyncio.sleep(COUNTED_S)
        asked = Counter(each.api for each in cluster.requests.select(client_id=CLIENT_ID, since=began))
    if ended := program.found("ended"):
        return Outcome(None, f"ended: {ended[0]['error']}")
    return Outcome(None, ", ".join(f"{each} {asked[each] / COUNTED_S:.1f}" for each in COUNTED if asked[each]))
