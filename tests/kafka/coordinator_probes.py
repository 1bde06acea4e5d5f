"""Requests to the coordinators of groups, as in `probes`."""

from __future__ import annotations

from typing import Any

import anyio

from aiokafka_lead._wire import Request
from aiokafka_lead._wire.messages import join_group as jg
from aiokafka_lead._wire.messages import leave_group as lg
from aiokafka_lead._wire.messages import offset_commit as oc
from aiokafka_lead._wire.messages import offset_fetch as of
from aiokafka_lead._wire.messages import sync_group as sg
from aiokafka_lead._wire.messages.delete_groups import DeleteGroupsRequest
from aiokafka_lead._wire.messages.describe_groups import DescribeGroupsRequest
from aiokafka_lead._wire.messages.find_coordinator import FindCoordinatorRequest
from aiokafka_lead._wire.messages.heartbeat import HeartbeatRequest

from .probes import Answers, World

LOADING = (14, 15, 16)


async def coordinator(world: World, key: str, kind: int = 0) -> int:
    """Return the broker that coordinates a group (0) or a transactional id (1), once it is ready."""
    while True:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        found = (await world.ask(request, 4)).coordinators[0]
        if found.error_code == 0 and (
            kind == 1 or await heartbeat(world, found.node_id, key, 1, "nobody") not in LOADING
        ):
            return found.node_id
        await anyio.sleep(0.2)


async def heartbeat(world: World, broker: int, group: str, generation: int, member: str, **fields: Any) -> int:
    request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member, **fields)
    return (await world.ask(request, broker=broker)).error_code


class Members:
    """Members of one group, and the coordinator's answers."""

    def __init__(self, world: World, group: str, topic: str, broker: int) -> None:
        self.world = world
        self.group = group
        self.topic = topic
        self.broker = broker

    async def _ask(self, request: Request[Any], version: int | None = None) -> Any:
        return await self.world.ask(request, version, broker=self.broker)

    async def join(
        self, member: str = "", *, protocols: tuple[str, ...] = ("range",), metadata: bytes = b"", **fields: Any
    ) -> Any:
        version = fields.pop("version", 9)
        request = jg.JoinGroupRequest(
            **{
                "group_id": self.group,
                "session_timeout_ms": 30_000,
                "rebalance_timeout_ms": 30_000,
                "member_id": member,
                "protocol_type": "consumer",
                "protocols": [jg.JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols],
                **fields,
            }
        )
        return await self._ask(request, version)

    async def sync(
        self, generation: int, member: str, *, protocol: str | None = "range", assignment: bytes = b"all", **fields: Any
    ) -> Any:
        given = sg.SyncGroupRequestAssignment(member_id=member, assignment=assignment)
        request = sg.SyncGroupRequest(
            **{
                "group_id": self.group,
                "generation_id": generation,
                "member_id": member,
                "protocol_type": "consumer",
                "protocol_name": protocol,
                "assignments": [given],
                **fields,
            }
        )
        response = await self._ask(request)
        return response.error_code, response.assignment

    async def heartbeat(self, generation: int, member: str, **fields: Any) -> int:
        return await heartbeat(self.world, self.broker, self.group, generation, member, **fields)

    async def commit(self, generation: int = -1, member: str = "", *, metadata: str = "", **fields: Any) -> int:
        position = oc.OffsetCommitRequestPartition(
            partition_index=fields.pop("partition", 0), committed_offset=5, committed_metadata=metadata
        )
        wanted = oc.OffsetCommitRequestTopic(name=fields.pop("topic", self.topic), partitions=[position])
        request = oc.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[wanted],
            **fields,
        )
        code: int = (await self._ask(request, 9)).topics[0].partitions[0].error_code
        return code

    async def leave(self, *members: tuple[str, str | None]) -> tuple[int, list[int]]:
        leaving = [lg.MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members]
        response = await self._ask(lg.LeaveGroupRequest(group_id=self.group, members=leaving))
        return response.error_code, [member.error_code for member in response.members]

    async def described(self, version: int = 6) -> tuple[Any, ...]:
        group = (await self._ask(DescribeGroupsRequest(groups=[self.group]), version)).groups[0]
        return group.error_code, group.group_state, group.protocol_type, group.protocol_data, len(group.members)

    async def positions(self, version: int, *, every: bool = False) -> Any:
        if version >= 8:
            asked = None if every else [of.OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0, 1])]
            wanted = of.OffsetFetchRequestGroup(group_id=self.group, topics=asked)
            response = (await self._ask(of.OffsetFetchRequest(groups=[wanted]), version)).groups[0]
        else:
            older = None if every else [of.OffsetFetchRequestTopic(name=self.topic, partition_indexes=[0, 1])]
            response = await self._ask(of.OffsetFetchRequest(group_id=self.group, topics=older), version)
        return response.error_code, [
            (part.partition_index, part.committed_offset, part.metadata, part.error_code)
            for topic in response.topics
            for part in topic.partitions
        ]


def joined(response: jg.JoinGroupResponse) -> tuple[Any, ...]:
    leads = response.leader != "" and response.leader == response.member_id
    return (
        response.error_code,
        response.generation_id,
        response.protocol_type,
        response.protocol_name,
        leads,
        response.skip_assignment,
        response.member_id != "",
        len(response.members),
    )


async def groups(world: World) -> Answers:
    topic, group = world.name("-groups"), world.name("-group")
    await world.topic(topic, 2)
    broker = await coordinator(world, group)
    members = Members(world, group, topic, broker)
    elsewhere = next(other for other in world.addresses if other != broker)
    answers: Answers = {
        "commit of nobody": await members.commit(),
        "described": await members.described(),
        "commit of a member": await members.commit(5, "m"),
        "commit, no topic": await members.commit(topic=world.name("-none")),
        "commit, no partition": await members.commit(partition=9),
        "commit, long metadata": await members.commit(metadata="x" * 5000),
        "heartbeat of nobody": await members.heartbeat(1, "nobody"),
        "heartbeat elsewhere": await heartbeat(world, elsewhere, group, 1, "nobody"),
        "leave of nobody": await members.leave(("nobody", None)),
        "sync without protocol": await members.sync(1, "nobody", protocol=None),
        "join of no group": joined(await members.join(group_id="")),
        "join without protocols": joined(await members.join(protocols=())),
        "join, long session": joined(await members.join(session_timeout_ms=1_800_001)),
        "join of an unknown member": joined(await members.join("nobody")),
    }
    first = await members.join()
    answers["join without id"] = joined(first)
    member = first.member_id
    response = await members.join(member)
    generation = response.generation_id
    answers["join"] = joined(response)
    answers["described before sync"] = await members.described()
    answers["commit before sync"] = await members.commit(generation, member)
    answers["heartbeat before sync"] = await members.heartbeat(generation, member)
    answers["sync, generation"] = await members.sync(generation + 1, member)
    answers["sync, protocol"] = await members.sync(generation, member, protocol="other")
    answers["sync"] = await members.sync(generation, member)
    answers["sync again"] = await members.sync(generation, member)
    answers["described after sync"] = await members.described()
    answers["join, other protocol"] = joined(await members.join(protocols=("other",)))
    answers["join, other type"] = joined(await members.join(protocol_type="connect"))
    answers["commit"] = await members.commit(generation, member)
    answers["commit of somebody"] = await members.commit()
    answers["commit, generation"] = await members.commit(generation + 1, member)
    answers["commit, member"] = await members.commit(generation, "nobody")
    answers["heartbeat"] = await members.heartbeat(generation, member)
    answers["heartbeat, generation"] = await members.heartbeat(generation + 1, member)
    answers["join again"] = joined(await members.join(member))
    answers["heartbeat after it"] = await members.heartbeat(generation, member)
    generation += 1
    answers["sync after it"] = await members.sync(generation, member)
    delete = DeleteGroupsRequest(groups_names=[group])
    answers["delete with members"] = (await world.ask(delete, broker=broker)).results[0].error_code
    for version in (1, 5, 7, 8, 9):
        answers[f"positions, {version}"] = await members.positions(version)
    for version in (7, 9):
        answers[f"all positions, {version}"] = await members.positions(version, every=True)
    answers["leave"] = await members.leave((member, None), ("nobody", None))
    answers["described without members"] = await members.described()
    answers["heartbeat of who left"] = await members.heartbeat(generation, member)
    answers["commit of who left"] = await members.commit(generation, member)
    answers["delete"] = [(await world.ask(delete, broker=broker)).results[0].error_code for _ in range(2)]
    answers["described at last"] = await members.described()
    answers["described at last, 5"] = await members.described(5)
    return answers


async def static_members(world: World) -> Answers:
    topic, group = world.name("-static"), world.name("-static-group")
    await world.topic(topic)
    members = Members(world, group, topic, await coordinator(world, group))
    first = await members.join(group_instance_id="i")
    answers: Answers = {"join": joined(first)}
    generation = first.generation_id
    answers["sync"] = await members.sync(generation, first.member_id, group_instance_id="i")
    second = await members.join(group_instance_id="i")
    answers["again"] = joined(second), second.leader == second.member_id
    third = await members.join(group_instance_id="i", version=8)
    answers["again, 8"] = joined(third), third.leader == second.member_id
    answers["fenced heartbeat"] = await members.heartbeat(generation, second.member_id, group_instance_id="i")
    answers["fenced commit"] = await members.commit(generation, second.member_id, group_instance_id="i")
    answers["unknown instance"] = await members.commit(generation, third.member_id, group_instance_id="j")
    answers["fenced leave"] = await members.leave((first.member_id, "i"))
    answers["leave"] = await members.leave(("", "i"))
    return answers
