"""Requests of members of share groups, for the probes of `share_probes`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import anyio

from aiokafka_lead._wire.messages import describe_share_group_offsets as do
from aiokafka_lead._wire.messages import share_acknowledge as sa
from aiokafka_lead._wire.messages import share_fetch as sf
from aiokafka_lead._wire.messages import share_group_describe as sd
from aiokafka_lead._wire.messages import share_group_heartbeat as sh
from aiokafka_lead._wire.messages.list_groups import ListGroupsRequest
from tests.testing.raw import RawClient, connected

from .coordinator_probes import coordinator
from .probes import World

Beat = tuple[int, int, "list[int] | None"]
"""An error, a member epoch, and the number of partitions of each topic in the assignment, if there is one."""

Said = Sequence[tuple[int, int, Sequence[int]]]
"""Acknowledgements: first offset, last offset, types."""

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


class Shares:
    """One share group, at its coordinator."""

    def __init__(self, world: World, group: str, broker: int) -> None:
        self.world = world
        self.group = group
        self.broker = broker
        self.epochs: dict[str, int] = {}
        self.assigned: dict[str, dict[UUID, list[int]]] = {}

    async def heartbeat(self, member: str, epoch: int, **fields: Any) -> Beat:
        request = sh.ShareGroupHeartbeatRequest(group_id=self.group, member_id=member, member_epoch=epoch, **fields)
        answer = await self.world.ask(request, 1, broker=self.broker)
        if answer.error_code == 0:
            self.epochs[member] = answer.member_epoch
        if answer.assignment is None:
            return answer.error_code, answer.member_epoch, None
        told = {topic.topic_id: topic.partitions for topic in answer.assignment.topic_partitions}
        self.assigned[member] = told
        return answer.error_code, answer.member_epoch, sorted(len(partitions) for partitions in told.values())

    async def join(self, member: str, *topics: str, **fields: Any) -> Beat:
        return await self.heartbeat(member, 0, **{"subscribed_topic_names": list(topics), **fields})

    async def settle(self, *members: str) -> dict[str, list[int]]:
        """Send heartbeats until the members' assignments are stable; return their sizes."""
        before: object = None
        while True:
            for member in members:
                await self.heartbeat(member, self.epochs[member])
            now = {member: sorted(map(len, self.assigned[member].values())) for member in members}
            if now == before and all(now.values()):
                return now
            before = now
            await anyio.sleep(0.1)

    async def described(self) -> tuple[Any, ...]:
        request = sd.ShareGroupDescribeRequest(group_ids=[self.group])
        group = (await self.world.ask(request, 1, broker=self.broker)).groups[0]
        members = sorted(
            (
                member.member_id,
                member.rack_id,
                len(member.subscribed_topic_names),
                sum(len(topic.partitions) for topic in member.assignment.topic_partitions),
            )
            for member in group.members
        )
        not_found = (group.error_message or "").replace(self.group, "it")
        return group.error_code, not_found, group.group_state, group.assignor_name, members

    async def listed(self) -> list[tuple[str, str, str]]:
        found = (await self.world.ask(ListGroupsRequest(), 5, broker=self.broker)).groups
        return [
            (each.group_state, each.group_type, each.protocol_type) for each in found if each.group_id == self.group
        ]

    async def offsets(self, *topics: str) -> tuple[Any, ...]:
        """Return start offset and lag of each partition, of all topics by default."""
        wanted = do.DescribeShareGroupOffsetsRequestGroup(
            group_id=self.group,
            topics=[do.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0]) for name in topics]
            or None,
        )
        request = do.DescribeShareGroupOffsetsRequest(groups=[wanted])
        found = (await self.world.ask(request, 1, broker=self.broker)).groups[0]
        return found.error_code, [
            (part.partition_index, part.error_code, part.start_offset, part.lag)
            for topic in found.topics
            for part in sorted(topic.partitions, key=lambda part: part.partition_index)
        ]

    async def configure(self, **values: str | None) -> int:
        """Set options of the group as in `World.configured`, wait until brokers act on them, and return the error."""
        code = await self.world.configured(self.group, **values)
        if not code:
            await self.world.published()
        return code


class ShareMember:
    """A member's connection to one broker, with its session."""

    def __init__(self, client: RawClient, group: str, member: str, topic_id: UUID) -> None:
        self.client = client
        self.group = group
        self.member = member
        self.topic_id = topic_id
        self.epoch = 0
        self.last: sf.ShareFetchResponse | None = None

    async def fetch(
        self, *partitions: int, said: Said = (), epoch: int | None = None, version: int = 2, **fields: Any
    ) -> tuple[Any, ...]:
        """Return the acquired records, as (first, last, delivery count), with the errors of each partition."""
        parts = [
            sf.FetchPartition(
                partition_index=index,
                acknowledgement_batches=[
                    sf.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
                    for first, last, types in said
                ],
            )
            for index in partitions
        ]
        wanted = [sf.FetchTopic(topic_id=self.topic_id, partitions=parts)] if parts else []
        given: dict[str, Any] = {
            "max_wait_ms": 100,
            "min_bytes": 1,
            "max_bytes": 1_000_000,
            "max_records": 500,
            "batch_size": 500,
        }
        request = sf.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            topics=wanted,
            **(given | fields),
        )
        answer = self.last = await self.client.call(request, version)
        if answer.error_code:
            return (answer.error_code,)
        if epoch is None:
            self.epoch += 1
        return tuple(
            (
                part.partition_index,
                part.error_code,
                part.acknowledge_error_code,
                [(run.first_offset, run.last_offset, run.delivery_count) for run in part.acquired_records],
            )
            for topic in answer.responses
            for part in sorted(topic.partitions, key=lambda part: part.partition_index)
        )

    async def acquire(self, *partitions: int, **fields: Any) -> list[tuple[int, int, int]]:
        """Fetch until there are records."""
        while True:
            for part in await self.fetch(*partitions, **fields):
                if isinstance(part, tuple) and part[3]:
                    runs: list[tuple[int, int, int]] = part[3]
                    return runs
            partitions = ()
            fields.pop("said", None)

    async def acknowledge(
        self, *said: tuple[int, int, Sequence[int]], epoch: int | None = None, partition: int = 0, **fields: Any
    ) -> int:
        """Return the error of the request, or of the partition."""
        batches = [
            sa.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
            for first, last, types in said
        ]
        part = sa.AcknowledgePartition(partition_index=partition, acknowledgement_batches=batches)
        version = fields.pop("version", 2)
        topic = sa.AcknowledgeTopic(topic_id=fields.pop("topic_id", self.topic_id), partitions=[part])
        request = sa.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            topics=[topic] if said else [],
            **fields,
        )
        answer = await self.client.call(request, version)
        if answer.error_code:
            return answer.error_code
        if epoch is None:
            self.epoch += 1
        return answer.responses[0].partitions[0].error_code if answer.responses else 0

    async def end(self) -> tuple[Any, ...]:
        """End the session."""
        ended = await self.fetch(epoch=-1)
        self.epoch = 0
        return ended


async def prepared(world: World, name: str, *sizes: int) -> tuple[Shares, list[str]]:
    """Return a share group whose coordinator is ready, and topics with that many partitions."""
    topics = [world.name(f"-{name}-{number}") for number in range(len(sizes))]
    for topic, size in zip(topics, sizes, strict=True):
        await world.topic(topic, partitions=size)
    return await _group(world, name), topics


async def _group(world: World, name: str, **configs: str) -> Shares:
    """Only the probes send its members' heartbeats, and a slow machine delays them."""
    group_id = world.name(f"-{name}")
    group = Shares(world, group_id, await coordinator(world, group_id))
    assert await group.configure(share_session_timeout_ms="60000", **configs) == 0
    return group


@asynccontextmanager
async def reading(world: World, name: str, *members: str) -> AsyncIterator[tuple[Shares, str, int, list[ShareMember]]]:
    """Connect members that read one partition from its start to its leader; return group, topic, leader, members."""
    topic = world.name(f"-{name}")
    leader, _, topic_id = await world.topic(topic)
    group = await _group(world, name, share_auto_offset_reset="earliest")
    for member in members:
        await group.join(member, topic)
    await group.settle(*members)
    async with (
        connected(world.addresses[leader]) as one,
        connected(world.addresses[leader]) as two,
        connected(world.addresses[leader]) as three,
    ):
        clients = (one, two, three)
        yield (
            group,
            topic,
            leader,
            [
                ShareMember(client, group.group, member, topic_id)
                for client, member in zip(clients, members, strict=False)
            ],
        )
