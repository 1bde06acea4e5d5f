"""``aiokafka-lead top``: a live display of brokers, topic rates, group lag and leader moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import anyio
import typer
from rich.console import RenderableType

from ..admin import AdminClient, ClusterDescription, OffsetSpec, TopicDescription, outcomes_of
from ..types import OffsetAndTimestamp, TopicPartition
from .lags import lag_of_groups
from .output import table
from .places import pause
from .registering import add
from .session import Session

_SHOWN = 15
"""Maximum number of rows in each table if the output is not a terminal."""

_OTHER_LINES = 9
"""Number of lines other than rows: a title, column names and a blank line for each of the three tables."""


def register(app: typer.Typer) -> None:
    """Add the command ``top`` to ``app``."""
    add(app, "top", top)


@dataclass
class Look:
    """One sample of the data that ``top`` displays."""

    at: float
    cluster: ClusterDescription
    topics: dict[str, TopicDescription]
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    lags: dict[str, int] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)
    """Groups whose lag is larger than shown, because the ends of some partitions are unknown."""

    @cached_property
    def partitions(self) -> set[TopicPartition]:
        """All partitions, including those whose end is unknown."""
        topics = self.topics.values()
        return {TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions}


async def top(
    session: Session,
    interval: Annotated[str, typer.Option("--interval", help="Time between refreshes.")] = "2s",
    count: Annotated[int | None, typer.Option("--count", min=1, help="Stop after this many refreshes.")] = None,
) -> None:
    """Show brokers, topic rates, group lag and leader moves until Ctrl-C."""
    pause_s = pause(interval)
    moves = 0
    looks = 0
    before: Look | None = None
    async with session.admin() as admin:
        with session.out.live() as show:
            while True:
                now = await _look(session, admin)
                moves += 0 if before is None else _moved(before, now)
                shown = _rows(before, now, moves)
                if session.out.as_json:
                    session.out.json_line(shown)
                    await session.out.drain()
                else:
                    await show(_screen(session, shown))
                before = now
                looks += 1
                if looks == count:
                    return
                await anyio.sleep(pause_s)


async def _look(session: Session, admin: AdminClient) -> Look:
    cluster = await admin.describe_cluster()
    look = Look(anyio.current_time(), cluster, await admin.describe_topics())
    led = [
        TopicPartition(topic.name, partition.partition)
        for topic in look.topics.values()
        for partition in topic.partitions
        if partition.leader_id >= 0
    ]
    if led:
        ends = await outcomes_of(admin.list_offsets(dict.fromkeys(led, int(OffsetSpec.LATEST)), timeout_ms=5000))
        look.ends = {where: end.offset for where, end in ends.items() if isinstance(end, OffsetAndTimestamp)}
    lags, _ = await lag_of_groups(session, admin)
    for each in lags:
        look.lags[each.group] = look.lags.get(each.group, 0) + (each.lag or 0)
        if each.failure is not None:
            look.doubtful.add(each.group)
    return look


def _moved(before: Look, now: Look) -> int:
    old = {
        (topic.name, partition.partition): partition.leader_epoch
        for topic in before.topics.values()
        for partition in topic.partitions
    }
    return sum(
        max(0, partition.leader_epoch - old.get((topic.name, partition.partition), partition.leader_epoch))
        for topic in now.topics.values()
        for partition in topic.partitions
    )


def _written(before: Look, now: Look, where: TopicPartition) -> int:
    """Return the number of records written to a partition between two samples, or 0 if either end is unknown."""
    end = now.ends.get(where, 0)
    first = before.ends.get(where)
    if first is None:
        first = end if where in before.partitions else 0
    return max(0, end - first)


def _rows(before: Look | None, now: Look, moves: int) -> dict[str, Any]:
    """Return the rows of all tables. Rates compare the two samples, and are None if there is no earlier one."""
    seconds = 0.0 if before is None else now.at - before.at
    partitions = [partition for topic in now.topics.values() for partition in topic.partitions]
    brokers = [
        {
            "broker": broker.node_id,
            "address": f"{broker.host}:{broker.port}",
            "rack": broker.rack,
            "controller": broker.node_id == now.cluster.controller_id,
            "leads": sum(each.leader_id == broker.node_id for each in partitions),
            "replicas": sum(broker.node_id in each.replicas for each in partitions),
            "out_of_sync": sum(broker.node_id in set(each.replicas) - set(each.isr) for each in partitions),
        }
        for broker in now.cluster.brokers
    ]
    topics: list[dict[str, Any]] = []
    for name, topic in now.topics.items():
        where = [TopicPartition(name, partition.partition) for partition in topic.partitions]
        rate = None
        if before is not None and seconds > 0:
            rate = sum(_written(before, now, each) for each in where) / seconds
        records = sum(now.ends.get(each, 0) for each in where)
        topics.append({"topic": name, "partitions": len(where), "end_offsets": records, "per_second": rate})
    topics.sort(key=lambda row: (-(row["per_second"] or 0.0), row["topic"]))
    groups: list[dict[str, Any]] = []
    for group, behind in now.lags.items():
        change = None
        if before is not None and seconds > 0 and group in before.lags and group not in before.doubtful | now.doubtful:
            change = (behind - before.lags[group]) / seconds
        groups.append({"group": group, "lag": behind, "lag_per_second": change})
    groups.sort(key=lambda row: (-row["lag"], row["group"]))
    return {"brokers": brokers, "topics": topics, "groups": groups, "leader_moves": moves}


def _screen(session: Session, shown: dict[str, Any]) -> RenderableType:
    columns = {
        "brokers": ["broker", "address", "rack", "controller", "leads", "replicas", "out_of_sync"],
        "topics": ["topic", "partitions", "end_offsets", "per_second"],
        "groups": ["group", "lag", "lag_per_second"],
    }
    height = session.out.height
    room = _shares([len(shown[name]) for name in columns], None if height is None else height - 1 - _OTHER_LINES)
    parts: list[RenderableType] = [f"leader moves seen: {shown['leader_moves']} (Ctrl-C to stop)"]
    for (name, each), fits in zip(columns.items(), room, strict=True):
        rows = shown[name]
        title = name if fits >= len(rows) else f"{name}: {fits} of {len(rows)}"
        parts += ["", table(rows[:fits], each, title=title, in_lines=True)]
    return session.out.together(*parts)


def _shares(wanted: list[int], lines: int | None) -> list[int]:
    """Return the number of rows to show in each table. The lines of the screen are divided evenly among the tables."""
    if lines is None:
        return [min(each, _SHOWN) for each in wanted]
    given = [0] * len(wanted)
    while sum(given) < lines and given != wanted:
        for at, each in enumerate(wanted):
            if given[at] < each and sum(given) < lines:
                given[at] += 1
    return given
