"""Requests to the coordinators of groups of the new protocol (KIP-848), as in `probes`."""

from __future__ import annotations

from typing import Any

import anyio

from aiokafka_lead._wire import decode, encode
from aiokafka_lead._wire.messages import consumer_group_describe as cd
from aiokafka_lead._wire.messages import consumer_group_heartbeat as ch
from aiokafka_lead._wire.messages import consumer_protocol_assignment as ca
from aiokafka_lead._wire.messages import consumer_protocol_subscription as cs
from aiokafka_lead._wire.messages import offset_commit as oc
from aiokafka_lead._wire.messages import offset_fetch as of
from aiokafka_lead._wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from aiokafka_lead._wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from aiokafka_lead._wire.messages.describe_groups import DescribeGroupsRequest
from aiokafka_lead._wire.messages.list_groups import ListGroupsRequest

from .coordinator_probes import Members, coordinator, joined
from .probes import Answers, World

_REBALANCE_TIMEOUT_MS = 60_000
Told = tuple[int, int, "list[int] | None"]
"""An error, a member epoch, and the number of partitions of each topic in the assignment, if there is one."""


class Modern:
    """Members of the new protocol in one group, and the coordinator's answers."""

    def __init__(self, world: World, group: str, broker: int) -> None:
        self.world = world
        self.group = group
        self.broker = broker
        self.assigned: dict[str, list[ch.ResponseTopicPartitions]] = {}
        """Last assignment of each member."""

    async def heartbeat(self, member: str, epoch: int, *, version: int = 1, **fields: Any) -> Told:
        request = ch.ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=member, member_epoch=epoch, **fields)
        response = await self.world.ask(request, version, broker=self.broker)
        if response.assignment is None:
            return response.error_code, response.member_epoch, None
        self.assigned[member] = response.assignment.topic_partitions
        sizes = sorted(len(topic.partitions) for topic in response.assignment.topic_partitions)
        return response.error_code, response.member_epoch, sizes

    async def join(self, member: str, *topics: str, epoch: int = 0, **fields: Any) -> Told:
        return await self.heartbeat(
            member,
            epoch,
            **{
                "rebalance_timeout_ms": _REBALANCE_TIMEOUT_MS,
                "subscribed_topic_names": list(topics),
                "topic_partitions": [],
                **fields,
            },
        )

    async def confirm(self, member: str, epoch: int) -> Told:
        """Report the last assignment as owned."""
        owned = [
            ch.RequestTopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
            for topic in self.assigned[member]
        ]
        return await self.heartbeat(member, epoch, topic_partitions=owned)

    async def commit(self, topic: str, member: str, epoch: int, *, version: int = 9, partition: int = 0) -> int:
        position = oc.OffsetCommitRequestPartition(partition_index=partition, committed_offset=5)
        wanted = oc.OffsetCommitRequestTopic(name=topic, partitions=[position])
        request = oc.OffsetCommitRequest(
            group_id=self.group, member_id=member, generation_id_or_member_epoch=epoch, topics=[wanted]
        )
        response = await self.world.ask(request, version, broker=self.broker)
        return response.topics[0].partitions[0].error_code

    async def fetch_offsets(self, topic: str, member: str | None, epoch: int) -> tuple[int, list[int]]:
        wanted = of.OffsetFetchRequestGroup(
            group_id=self.group,
            member_id=member,
            member_epoch=epoch,
            topics=[of.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])],
        )
        found = (await self.world.ask(of.OffsetFetchRequest(groups=[wanted]), 9, broker=self.broker)).groups[0]
        return found.error_code, [part.committed_offset for topic in found.topics for part in topic.partitions]

    async def described(self) -> tuple[Any, ...]:
        request = cd.ConsumerGroupDescribeRequest(group_ids=[self.group])
        group = (await self.world.ask(request, 1, broker=self.broker)).groups[0]
        members = sorted(
            (
                member.member_epoch,
                sum(len(topic.partitions) for topic in member.assignment.topic_partitions),
                sum(len(topic.partitions) for topic in member.target_assignment.topic_partitions),
                member.member_type,
                member.instance_id,
                len(member.subscribed_topic_names),
            )
            for member in group.members
        )
        return (
            group.error_code,
            group.group_state,
            group.group_epoch,
            group.assignment_epoch,
            group.assignor_name,
            members,
        )

    async def described_as_classic(self) -> tuple[int, str, int]:
        request = DescribeGroupsRequest(groups=[self.group])
        group = (await self.world.ask(request, 6, broker=self.broker)).groups[0]
        return group.error_code, group.group_state, len(group.members)

    async def listed(self) -> list[tuple[str, str, str]]:
        found = (await self.world.ask(ListGroupsRequest(), 5, broker=self.broker)).groups
        return [
            (each.group_state, each.group_type, each.protocol_type) for each in found if each.group_id == self.group
        ]


async def prepared(world: World, name: str, *sizes: int) -> tuple[Modern, list[str]]:
    """Return a group whose coordinator is ready and knows topics with that many partitions."""
    topics = [world.name(f"-{name}-{number}") for number in range(len(sizes))]
    for topic, size in zip(topics, sizes, strict=True):
        await world.topic(topic, partitions=size)
    group = world.name(f"-{name}")
    broker = await coordinator(world, group)
    configs = {
        # New assignments at once: brokers of 4.3 gather changes for a second.
        "consumer_assignment_interval_ms": "0",
        # Only the probes send the members' heartbeats, and a slow machine delays them.
        "consumer_session_timeout_ms": "60000",
    }
    assert await world.configured(group, **configs) == 0
    await world.published()
    return Modern(world, group, broker), topics


async def invalid_heartbeats(world: World) -> Answers:
    group, (topic,) = await prepared(world, "invalid", 1)
    return {
        "no member id": await group.join("", topic),
        "no member id, later": await group.heartbeat("", 1),
        "no topics": await group.join("m", subscribed_topic_names=None),
        "no rebalance timeout": await group.join("m", topic, rebalance_timeout_ms=-1),
        "owned null": await group.join("m", topic, topic_partitions=None),
        "no such assignor": await group.join("m", topic, server_assignor="sticky"),
        "epoch -3": await group.heartbeat("m", -3),
        "epoch -2 without instance": await group.heartbeat("m", -2),
        "no instance": await group.join("m", topic, instance_id=""),
        "no rack": await group.join("m", topic, rack_id=""),
        "no group": await group.heartbeat("m", 1),
        "leave no group": await group.heartbeat("m", -1),
        "described: no group": await group.described(),
        "without topics": await group.join("m"),
        "described": await group.described(),
        "first topic": await group.heartbeat("m", 1, subscribed_topic_names=[topic]),
        "described: subscribed": await group.described(),
    }


async def consumer_groups(world: World) -> Answers:
    group, (topic, other) = await prepared(world, "modern", 4, 2)
    answers: Answers = {"first": await group.join("m1", topic)}
    answers["its heartbeat"] = await group.heartbeat("m1", 2)
    answers["its confirmation"] = await group.confirm("m1", 2)
    answers["all again"] = await group.join("m1", topic, epoch=2)
    answers["its first epoch"] = await group.heartbeat("m1", 1)
    answers["joins again"] = await group.join("m1", topic)
    answers["greater epoch"] = await group.heartbeat("m1", 5)
    answers["unknown member"] = await group.heartbeat("m9", 2)
    answers["leave, unknown member"] = await group.heartbeat("m9", -1)
    answers["described: one"] = await group.described()
    answers["listed"] = await group.listed()
    answers["described as classic"] = await group.described_as_classic()
    answers["second"] = await group.join("m2", topic)
    answers["described: two"] = await group.described()
    answers["first must give up"] = await group.heartbeat("m1", 2)
    answers["says nothing"] = await group.heartbeat("m1", 2)
    answers["second waits"] = await group.heartbeat("m2", 3)
    answers["described: waiting"] = await group.described()
    answers["first has given up"] = await group.confirm("m1", 2)
    answers["second gets"] = await group.heartbeat("m2", 3)
    answers["described: both"] = await group.described()
    answers["epoch before, what it has"] = await group.confirm("m1", 2)
    answers["epoch before, unknown"] = await group.heartbeat("m1", 2)
    kept = group.assigned["m1"][0].partitions[0]
    given = group.assigned["m2"][0].partitions[0]
    answers["commits"] = [
        await group.commit(topic, "m1", 3, partition=kept),
        await group.commit(topic, "m1", 2, partition=kept),
        await group.commit(topic, "m1", 1, partition=kept),
        await group.commit(topic, "m1", 4, partition=kept),
        await group.commit(topic, "m1", 3, partition=given),
        await group.commit(topic, "m1", 2, partition=given),
        await group.commit(topic, "m2", 3, partition=given),
        await group.commit(topic, "m2", 2, partition=given),
        await group.commit(topic, "m9", 3),
        await group.commit(topic, "", -1),
        await group.commit(topic, "m1", 3, version=8),
    ]
    answers["fetches"] = [
        await group.fetch_offsets(topic, "m1", 3),
        await group.fetch_offsets(topic, "m1", 2),
        await group.fetch_offsets(topic, "m9", 3),
        await group.fetch_offsets(topic, None, -1),
    ]
    answers["another topic"] = await group.heartbeat("m2", 3, subscribed_topic_names=[topic, other])
    answers["described: another topic"] = await group.described()
    answers["first hears"] = await group.heartbeat("m1", 3)
    answers["leaves"] = await group.heartbeat("m2", -1)
    answers["described: left"] = await group.described()
    answers["first gets"] = await group.heartbeat("m1", (await group.described())[5][0][0])
    answers["described: alone"] = await group.described()
    answers["joins once more"] = await group.join("m1", topic)
    answers["last leaves"] = await group.heartbeat("m1", -1)
    answers["described: empty"] = await group.described()
    answers["commits in empty"] = [await group.commit(topic, "", -1), await group.commit(topic, "m1", 3)]
    return answers


async def server_assignors(world: World) -> Answers:
    group, (topic, other) = await prepared(world, "assignors", 3, 3)
    answers: Answers = {"range": await group.join("m1", topic, other, server_assignor="range")}
    answers["second"] = await group.join("m2", topic, other, server_assignor="range")
    answers["described"] = await group.described()
    answers["one for uniform"] = await group.heartbeat("m2", 3, server_assignor="uniform")
    answers["both for uniform"] = await group.heartbeat("m1", 2, server_assignor="uniform")
    answers["described: uniform"] = await group.described()
    return answers


async def regular_expressions(world: World) -> Answers:
    group, (topic, _) = await prepared(world, "regex", 3, 2)
    stem = topic.removesuffix("-0")
    answers: Answers = {}
    joined_with = await group.join("m1", subscribed_topic_regex=f"{stem}-.*", subscribed_topic_names=None)
    answers["joined"] = joined_with[0]

    async def partitions(member: str, epoch: int) -> tuple[int, list[int]]:
        """Return the partitions once the broker has looked for topics, which it does beside the heartbeats."""
        while True:
            code, now, _ = await group.heartbeat(member, epoch)
            epoch = now or epoch
            sizes = sorted(len(each.partitions) for each in group.assigned.get(member, []))
            if code or sizes:
                return code, sizes
            await anyio.sleep(0.2)

    answers["matching"] = await partitions("m1", joined_with[1])
    answers["invalid"] = await group.join("m2", subscribed_topic_regex="(", subscribed_topic_names=None)
    answers["not the whole name"] = (await group.join("m3", subscribed_topic_regex=stem, subscribed_topic_names=None))[
        0
    ]
    return answers


async def static_consumers(world: World) -> Answers:
    group, (topic,) = await prepared(world, "modern-static", 4)
    answers: Answers = {"first": await group.join("s1", topic, instance_id="i1")}
    answers["other id"] = await group.join("s2", topic, instance_id="i1")
    answers["heartbeat of other id"] = await group.heartbeat("s2", 2, instance_id="i1")
    answers["heartbeat"] = await group.heartbeat("s1", 2, instance_id="i1")
    answers["unknown instance"] = await group.heartbeat("s1", 2, instance_id="i9")
    answers["leaves for a while"] = await group.heartbeat("s1", -2, instance_id="i1")
    answers["described: away"] = await group.described()
    answers["back with another id"] = await group.join("s3", topic, instance_id="i1")
    answers["heartbeat of the old id"] = await group.heartbeat("s1", 2, instance_id="i1")
    answers["old id, no instance"] = await group.heartbeat("s1", 2)
    answers["described: back"] = await group.described()
    answers["other id leaves"] = await group.heartbeat("s1", -1, instance_id="i1")
    answers["leaves"] = await group.heartbeat("s3", -1, instance_id="i1")
    answers["described: empty"] = (await group.described())[:2]
    return answers


class Classic(Members):
    """Members of the classic protocol like consumers, with range as their only assignor."""

    assigned: tuple[int, ...] = ()
    """The last assignment."""

    async def join_as(self, member: str, *owned: int, **fields: Any) -> Any:
        message = ConsumerProtocolSubscription(topics=[self.topic])
        if owned:
            message.owned_partitions = [cs.TopicPartition(topic=self.topic, partitions=list(owned))]
        metadata = b"\0\1" + encode(message, 1)
        return await self.join(member, metadata=metadata, **fields)

    async def sync_as(self, generation: int, member: str, partitions: int) -> tuple[int, int]:
        """Sync a member, assigning the first ``partitions`` if it leads; return the error and number of partitions."""
        mine = ca.TopicPartition(topic=self.topic, partitions=list(range(partitions)))
        given = b"\0\1" + encode(ConsumerProtocolAssignment(assigned_partitions=[mine]), 1)
        code, assignment = await self.sync(generation, member, assignment=given)
        if assignment:
            found = decode(ConsumerProtocolAssignment, 1, assignment[2:]).assigned_partitions
            self.assigned = tuple(index for topic in found for index in topic.partitions)
        return code, len(self.assigned)


async def moving_groups(world: World) -> Answers:
    """Probe a group of the classic protocol that a member of the new one joins and leaves."""
    group, (topic,) = await prepared(world, "moving", 4)
    classic = Classic(world, group.group, topic, group.broker)
    member = (await classic.join_as("")).member_id
    answers: Answers = {"classic joins": joined(await classic.join_as(member))}
    answers["classic syncs"] = await classic.sync_as(1, member, 4)
    answers["described: classic"] = (await group.described())[:2]
    answers["new one joins"] = await group.join("m1", topic)
    answers["described: both"] = await group.described()
    answers["described as classic"] = await group.described_as_classic()
    answers["listed"] = await group.listed()
    answers["classic hears"] = await classic.heartbeat(1, member)
    answers["classic commits"] = await classic.commit(1, member)
    answers["classic keeps all"] = joined(await classic.join_as(member, 0, 1, 2, 3))
    code, assigned = await classic.sync_as(1, member, 0)
    answers["classic has to give up"] = code, assigned
    answers["classic, old generation"] = await classic.heartbeat(0, member)
    answers["classic is to join again"] = await classic.heartbeat(1, member)
    kept = classic.assigned
    again = await classic.join_as(member, *kept)
    answers["classic has given up"] = joined(again)
    answers["classic syncs again"] = await classic.sync_as(again.generation_id, member, 0)
    answers["classic is settled"] = await classic.heartbeat(again.generation_id, member)
    answers["classic commits again"] = [
        await classic.commit(again.generation_id, member),
        await classic.commit(again.generation_id - 1, member),
    ]
    answers["new one gets"] = await group.heartbeat("m1", 2)
    answers["described: settled"] = await group.described()
    answers["other protocol type"] = (await classic.join_as("", protocol_type="connect")).error_code
    answers["new id at the classic API"] = await classic.heartbeat(2, "m1")
    answers["new one leaves"] = await group.heartbeat("m1", -1)
    answers["described: moved back"] = (await group.described())[:2]
    answers["classic again"] = await group.described_as_classic()
    answers["classic hears again"] = await classic.heartbeat(again.generation_id, member)
    alone = await classic.join_as(member, *kept)
    answers["classic alone"] = joined(alone)
    answers["leaves"] = await classic.leave((member, None))
    answers["new one in the empty group"] = await group.join("m2", topic)
    return answers
