"""Requests about share groups (KIP-932), as in `probes`."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import anyio

from aiokafka_lead._wire.messages import alter_partition_reassignments as ar
from aiokafka_lead._wire.messages import alter_share_group_offsets as ao
from aiokafka_lead._wire.messages import delete_share_group_offsets as dl
from aiokafka_lead._wire.messages import describe_configs as dc
from aiokafka_lead._wire.messages import offset_commit as oc
from aiokafka_lead._wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from aiokafka_lead._wire.messages.delete_groups import DeleteGroupsRequest
from aiokafka_lead._wire.messages.describe_groups import DescribeGroupsRequest
from aiokafka_lead._wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from aiokafka_lead._wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from aiokafka_lead._wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokafka_lead.errors import InvalidRecordStateError
from tests.testing.raw import batch, connected

from .consumer_group_probes import Modern
from .coordinator_probes import coordinator
from .probes import GROUP_RESOURCE, Answers, World
from .share_members import ACCEPT, REJECT, RELEASE, RENEW, ShareMember, Shares, prepared, reading
from .transaction_probes import transactional


async def share_heartbeats(world: World) -> Answers:
    group, (topic,) = await prepared(world, "beats", 2)
    answers: Answers = {
        "no member id": await group.join("", topic),
        "long member id": await group.join("m" * 37, topic),
        "no topics": await group.join("m"),
        "topics null": await group.join("m", subscribed_topic_names=None),
        "epoch -2": await group.heartbeat("m", -2),
        "no rack": await group.join("m", topic, rack_id=""),
        "no group": await group.heartbeat("m", 1),
        "leave no group": await group.heartbeat("m", -1),
        "described: none": await group.described(),
    }
    answers["joined"] = (await group.join("m", topic, rack_id="rack"))[0]
    answers["settled"] = await group.settle("m")
    epoch = group.epochs["m"]
    answers["nothing new"] = (await group.heartbeat("m", epoch))[::2]
    answers["all again"] = (await group.heartbeat("m", epoch, subscribed_topic_names=[topic]))[::2]
    answers["greater epoch"] = await group.heartbeat("m", epoch + 5)
    answers["much smaller epoch"] = (await group.heartbeat("m", max(0, epoch - 9) or 77))[0]
    answers["unknown member"] = await group.heartbeat("m9", epoch)
    answers["unknown member leaves"] = await group.heartbeat("m9", -1)
    answers["described"] = await group.described()
    answers["listed"] = await group.listed()
    answers["described as others"] = await _described_as_others(group)
    answers["joined by others"] = await _joined_by_others(group, topic)
    answers["deleted"] = await _deleted(group)
    answers["leaves"] = await group.heartbeat("m", -1)
    answers["described: empty"] = await group.described()
    answers["deleted: empty"] = await _deleted(group)
    answers["described: deleted"] = await group.described()
    consumers = Modern(world, world.name("-beats-c"), group.broker)
    consumers.broker = group.broker = (await prepared(world, "beats-c"))[0].broker
    answers["a consumer group"] = (await consumers.join("c", topic))[0]
    group.group = consumers.group
    answers["joins a consumer group"] = (await group.join("m", topic))[0]
    answers["described: a consumer group"] = (await group.described())[0]
    return answers


async def _described_as_others(group: Shares) -> list[Any]:
    world = group.world
    classic = await world.ask(DescribeGroupsRequest(groups=[group.group]), 6, broker=group.broker)
    consumer = await world.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1, broker=group.broker)
    return [(found.error_code, found.group_state) for found in (classic.groups[0], consumer.groups[0])]


async def _joined_by_others(group: Shares, topic: str) -> list[int]:
    world = group.world
    request = JoinGroupRequest(
        group_id=group.group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    classic = await world.ask(request, 9, broker=group.broker)
    consumer = await Modern(world, group.group, group.broker).join("c", topic)
    position = oc.OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    wanted = oc.OffsetCommitRequestTopic(name=topic, partitions=[position])
    committed = await world.ask(oc.OffsetCommitRequest(group_id=group.group, topics=[wanted]), 9, broker=group.broker)
    return [classic.error_code, consumer[0], committed.topics[0].partitions[0].error_code]


async def _deleted(group: Shares) -> int:
    request = DeleteGroupsRequest(groups_names=[group.group])
    return (await group.world.ask(request, broker=group.broker)).results[0].error_code


async def share_assignments(world: World) -> Answers:
    group, (three, one, two) = await prepared(world, "assigned", 3, 1, 2)
    await group.join("a", three)
    answers: Answers = {"alone": await group.settle("a")}
    await group.join("b", three)
    answers["two of three"] = await group.settle("a", "b")
    for member in ("c", "d"):
        await group.join(member, three)
    answers["four of three"] = await group.settle("a", "b", "c", "d")
    await group.heartbeat("a", group.epochs["a"], subscribed_topic_names=[three, one, two])
    answers["one wants more"] = await group.settle("a", "b", "c", "d")
    await group.heartbeat("b", -1)
    await group.heartbeat("c", -1)
    await group.heartbeat("d", -1)
    answers["alone again"] = await group.settle("a")
    await group.heartbeat("a", group.epochs["a"], subscribed_topic_names=[one])
    answers["wants less"] = await group.settle("a")
    return answers


async def share_sessions(world: World) -> Answers:
    async with reading(world, "sessions", "m1", "m2") as (_, topic, leader, (one, two)):
        answers: Answers = {
            "no session": await one.fetch(0, epoch=1),
            "no session to acknowledge": await one.acknowledge((0, 0, [ACCEPT]), epoch=1),
            "no session to end": await one.fetch(epoch=-1),
            "acknowledges first": await one.fetch(0, epoch=0, said=[(0, 0, [ACCEPT])]),
            "acknowledges at epoch 0": await one.acknowledge((0, 0, [ACCEPT]), epoch=0),
            "no member": (await ShareMember(one.client, one.group, "", one.topic_id).fetch(0)),
        }
        answers["begun"] = await one.fetch(0)
        answers["lock"] = one.last.acquisition_lock_timeout_ms if one.last else None
        answers["nothing new"] = await one.fetch()
        answers["a partition that is not there"] = await one.fetch(7)
        answers["it stays"] = await one.fetch()
        answers["epoch before"] = await one.fetch(epoch=1)
        answers["epoch ahead"] = await one.fetch(epoch=99)
        answers["acknowledged at epoch ahead"] = await one.acknowledge((0, 0, [ACCEPT]), epoch=99)
        answers["nothing acknowledged"] = await one.acknowledge()
        answers["not acquired"] = await one.acknowledge((0, 0, [ACCEPT]))
        unknown = uuid4()
        answers["acknowledges an unknown topic"] = await one.acknowledge((0, 0, [ACCEPT]), topic_id=unknown)
        answers["acknowledges no partition"] = await one.acknowledge((0, 0, [ACCEPT]), partition=9)
        await world.produce(topic, batch(b"a", b"b"), leader)
        answers["records"] = await one.acquire()
        answers["begun anew"] = await one.fetch(0, epoch=0)
        one.epoch = 1
        answers["still has them"] = await one.acknowledge((0, 0, [ACCEPT]))
        answers["ended"] = await one.end()
        answers["given back"] = await two.acquire(0)
        answers["ended by acknowledging"] = await two.acknowledge((1, 1, [ACCEPT]), epoch=-1)
        answers["begun at last"] = await one.fetch(0)
        stranger = ShareMember(one.client, one.group, "m3", unknown)
        answers["unknown topic"] = await stranger.fetch(0)
        nobody = ShareMember(one.client, world.name("-nobody"), "m1", one.topic_id)
        added = ShareMember(one.client, one.group, one.member, unknown)
        answers["unknown topic, later"] = await added.fetch(0, epoch=one.epoch)
        answers["after it"] = await one.fetch(epoch=one.epoch + 1)
        answers["partition of no group"] = await nobody.fetch(0)
        follower = next(broker for broker in world.addresses if broker != leader)
        async with connected(world.addresses[follower]) as client:
            elsewhere = ShareMember(client, one.group, "m4", one.topic_id)
            answers["at a follower"] = await elsewhere.fetch(0)
            told = elsewhere.last
            assert told is not None
            answers["names the leader"] = (
                told.responses[0].partitions[0].current_leader.leader_id == leader,
                [node.node_id == leader for node in told.node_endpoints],
            )
            answers["acknowledges at a follower"] = await elsewhere.acknowledge((0, 0, [ACCEPT]))
        return answers


async def share_deliveries(world: World) -> Answers:
    async with reading(world, "deliveries", "m1", "m2") as (group, topic, leader, (one, two)):
        answers: Answers = {"offsets: none": await group.offsets()}
        for _ in range(3):
            await world.produce(topic, batch(b"a", b"b", b"c", b"d"), leader)
        answers["small batches"] = await one.acquire(0, batch_size=2)
        answers["other member"] = await two.fetch(0)
        answers["not the owner"] = await two.acknowledge((0, 3, [ACCEPT]))
        answers["invalid"] = [
            await one.acknowledge((3, 0, [ACCEPT])),
            await one.acknowledge((0, 3, [])),
            await one.acknowledge((0, 3, [ACCEPT, ACCEPT])),
            await one.acknowledge((0, 0, [9])),
            await one.acknowledge((0, 0, [RENEW])),
            await one.acknowledge((0, 0, [RENEW]), version=1),
            await one.acknowledge((2, 3, [ACCEPT]), (0, 1, [ACCEPT])),
            await one.acknowledge((0, 50, [ACCEPT])),
            await one.acknowledge((50, 50, [ACCEPT])),
        ]
        answers["all or nothing"] = await one.acknowledge((0, 1, [ACCEPT]), (1, 2, [ACCEPT]))
        answers["accepted"] = await one.acknowledge((0, 1, [ACCEPT]))
        answers["accepted twice"] = await one.acknowledge((0, 1, [ACCEPT]))
        answers["offsets: accepted"] = await group.offsets()
        answers["each for itself"] = await one.acknowledge((2, 5, [RELEASE, REJECT, 0, ACCEPT]))
        answers["offsets: each"] = await group.offsets()
        answers["second delivery"] = await two.acquire()
        answers["released again, with the fetch"] = await two.fetch(0, said=[(2, 2, [RELEASE])], max_wait_ms=5_000)
        answers["renewed"] = await one.acknowledge((6, 7, [RENEW]), is_renew_ack=True)
        answers["renewed with a fetch"] = await one.fetch(
            0, said=[(6, 7, [RENEW])], is_renew_ack=True, max_wait_ms=0, min_bytes=0, max_bytes=0, max_records=0
        )
        answers["renewed with a wrong fetch"] = await one.fetch(0, said=[(6, 7, [RENEW])], is_renew_ack=True)
        answers["the rest"] = await one.acknowledge((6, 11, [ACCEPT]))
        answers["offsets: the rest"] = await group.offsets()
        answers["at last"] = await two.acknowledge((2, 2, [ACCEPT]))
        answers["offsets: all"] = await group.offsets()
        answers["offsets: by name"] = await group.offsets(topic)
        answers["offsets: no topic"] = await group.offsets(world.name("-none"))
        return answers


async def share_limits(world: World) -> Answers:
    async with reading(world, "limits", "m1", "m2") as (group, topic, leader, (one, two)):
        for _ in range(3):
            await world.produce(topic, batch(b"a", b"b", b"c", b"d"), leader)
        answers: Answers = {"to the end of a batch": await one.acquire(0, max_records=3)}
        answers["no more than that"] = await two.acquire(0, max_records=3, share_acquire_mode=1)
        answers["the others of it"] = await two.acquire(share_acquire_mode=1, max_records=2)
        answers["the next"] = await two.acquire(share_acquire_mode=1, max_records=2)
        await two.acknowledge((4, 8, [RELEASE]))
        answers["a part of it"] = await two.acquire(share_acquire_mode=1, max_records=2)
        answers["ended"] = await two.end()
        await one.acknowledge((0, 3, [ACCEPT]))
        # The last deliveries of a record contain few records, and the very last it alone.
        for turn in range(12):
            runs = await one.acquire(max_records=50)
            answers[f"turn {turn}"] = runs
            for first, last, _ in runs:
                await one.acknowledge((first, last, [RELEASE]))
        answers["offsets"] = await group.offsets()
        return answers


async def share_locks(world: World) -> Answers:
    async with reading(world, "locks", "m1", "m2") as (group, topic, leader, (one, two)):
        answers: Answers = {"set": await group.configure(share_record_lock_duration_ms="1000")}
        await world.produce(topic, batch(b"a", b"b"), leader)
        answers["first"] = await one.acquire(0)
        answers["after its lock"] = await two.acquire(0)
        answers["too late"] = await one.acknowledge((0, 1, [ACCEPT]))
        answers["in time"] = await _in_time(two)
        answers["renewal off"] = await group.configure(share_renew_acknowledge_enable="false")
        await group.configure(share_record_lock_duration_ms=None)
        await world.produce(topic, batch(b"c"), leader)
        answers["another"] = await one.acquire()
        answers["not renewed"] = await one.acknowledge((2, 2, [RENEW]), is_renew_ack=True)
        # A lost connection gives records back at once.
        await one.acknowledge((2, 2, [RELEASE]))
        answers["taken"] = await one.acquire()
        await one.client.stream.aclose()
        answers["of a member that is gone"] = await two.acquire()
        return answers


async def _in_time(member: ShareMember) -> int:
    """Accept a member's records, repeating it if a slow machine lets the lock expire first."""
    while True:
        code = await member.acknowledge((0, 1, [ACCEPT]))
        if code != InvalidRecordStateError.code:
            return code
        await member.acquire()


async def share_isolation(world: World) -> Answers:
    async with reading(world, "isolation", "m1", "m2") as (group, topic, leader, (one, two)):
        txn = await transactional(world, "-isolation")
        epoch = await txn.begin()
        answers: Answers = {
            "wrong": await group.configure(share_isolation_level="serializable"),
            "set": await group.configure(share_isolation_level="read_committed"),
        }
        for sequence in (0, 1):
            assert await txn.write(topic, leader, epoch, sequence, version=12) == 0
        await world.produce(topic, batch(b"a"), leader)
        answers["open"] = await one.fetch(0)
        _, epoch = await txn.ended(epoch, committed=False)
        answers["aborted"] = await one.acquire()
        assert await txn.write(topic, leader, epoch, 0, version=12) == 0
        await txn.ended(epoch, committed=True)
        answers["committed"] = await two.acquire(0)
        answers["acknowledged"] = [
            await one.acknowledge(*((first, last, [ACCEPT]) for first, last, _ in answers["aborted"])),
            await two.acknowledge(*((first, last, [ACCEPT]) for first, last, _ in answers["committed"])),
        ]
        await group.configure(share_isolation_level="read_uncommitted")
        answers["uncommitted"] = await one.fetch()
        return answers


async def share_moves(world: World) -> Answers:
    async with reading(world, "moves", "m1", "m2") as (group, topic, leader, (one, two)):
        for _ in range(3):
            await world.produce(topic, batch(b"a", b"b"), leader)
        answers: Answers = {"acquired": await one.acquire(0, max_records=4)}
        await one.acknowledge((0, 0, [ACCEPT]), (1, 1, [RELEASE]))
        while any(part[3] for part in await two.fetch(0)):
            pass
        to = -1
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                began = time.monotonic()
                answers["a fetch that waits"] = await two.fetch(max_wait_ms=1500), time.monotonic() - began > 1.4

            tasks.start_soon(wait)
            await anyio.sleep(0.2)
            to = await _move(world, topic, leader)
        answers["acknowledges at the old one"] = await one.acknowledge((2, 2, [ACCEPT]))
        answers["fetches at the old one"] = await one.fetch(0)
        assert one.last is not None
        answers["it names the new one"] = (
            one.last.responses[0].partitions[0].current_leader.leader_id == to,
            [node.node_id == to for node in one.last.node_endpoints],
        )
        async with connected(world.addresses[to]) as client:
            moved = ShareMember(client, group.group, "m1", one.topic_id)
            answers["acknowledges at the new one"] = await moved.acknowledge((2, 2, [ACCEPT]), epoch=1)
            runs = await moved.acquire(0)
            answers["has again"] = [runs[0][0], runs[-1][1], [count for *_, count in runs][:1]]
            answers["acknowledges all"] = await moved.acknowledge((1, 5, [ACCEPT]))
        answers["offsets"] = await group.offsets()
        return answers


async def _move(world: World, topic: str, leader: int) -> int:
    """Make another broker the preferred leader, and elect it."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    replicas = (await world.ask(request, 12)).topics[0].partitions[0].replica_nodes
    order = [*(node for node in replicas if node != leader), leader]
    part = ar.ReassignablePartition(partition_index=0, replicas=order)
    wanted = ar.ReassignableTopic(name=topic, partitions=[part])
    await world.ask(ar.AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=20_000))
    while True:
        elect = ElectLeadersRequest(
            election_type=0,
            topic_partitions=[TopicPartitions(topic=topic, partitions=[0])],
            timeout_ms=20_000,
        )
        await world.ask(elect, 2)
        if (await world.listed(topic, -1, order[0]))[0] == 0 and (await world.listed(topic, -1, leader))[0] != 0:
            return order[0]
        await anyio.sleep(0.1)


async def share_offsets(world: World) -> Answers:
    async with reading(world, "offsets", "m1") as (group, topic, leader, (one,)):
        await world.produce(topic, batch(b"a", b"b", b"c"), leader)
        none = world.name("-none")

        async def alter(name: str, offset: int, partition: int = 0) -> tuple[int, list[int]]:
            place = ao.AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
            wanted = ao.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[place])
            request = ao.AlterShareGroupOffsetsRequest(group_id=group.group, topics=[wanted])
            answer = await world.ask(request, 0, broker=group.broker)
            return answer.error_code, [part.error_code for each in answer.responses for part in each.partitions]

        async def delete(name: str) -> tuple[int, list[int]]:
            wanted = dl.DeleteShareGroupOffsetsRequestTopic(topic_name=name)
            request = dl.DeleteShareGroupOffsetsRequest(group_id=group.group, topics=[wanted])
            answer = await world.ask(request, 0, broker=group.broker)
            return answer.error_code, [each.error_code for each in answer.responses]

        answers: Answers = {"alter, with members": await alter(topic, 2)}
        answers["delete, with members"] = await delete(topic)
        answers["first"] = await one.acquire(0)
        await one.acknowledge((0, 1, [ACCEPT]))
        await one.end()
        await group.heartbeat("m1", -1)
        answers["alter"] = await alter(topic, 1)
        answers["altered"] = await group.offsets()
        answers["alter, no topic"] = await alter(none, 1)
        answers["alter, no partition"] = await alter(topic, 1, 9)
        answers["alter, end"] = await alter(topic, 50)
        answers["beyond"] = await group.offsets()
        answers["delete"] = await delete(topic)
        answers["deleted"] = await group.offsets()
        answers["delete again"] = await delete(topic)
        answers["delete, no topic"] = await delete(none)
        answers["described"] = (await group.described())[:3]
        group.group = world.name("-offsets-none")
        group.broker = await coordinator(world, group.group)
        answers["no group"] = [await group.offsets(), await delete(topic)]
        return answers


async def group_configs(world: World) -> Answers:
    group, _ = await prepared(world, "configs", 1)
    answers: Answers = {
        "unknown": await group.configure(share_nothing="1"),
        "no number": await group.configure(share_record_lock_duration_ms="soon"),
        "too small": await group.configure(share_record_lock_duration_ms="5"),
        "too large": await group.configure(share_record_lock_duration_ms="999999999"),
        "no reset": await group.configure(share_auto_offset_reset="none"),
        "no duration": await group.configure(share_auto_offset_reset="by_duration:1 hour"),
        "a duration": await group.configure(share_auto_offset_reset="by_duration:PT1H"),
        "delivery counts": [await group.configure(share_delivery_count_limit=str(value)) for value in (1, 2, 10, 11)],
        "locks": [await group.configure(share_partition_max_record_locks=str(value)) for value in (99, 100, 4001)],
        "unset": await group.configure(share_partition_max_record_locks=None, share_delivery_count_limit=None),
    }

    async def described(name: str) -> dict[str, Any]:
        wanted = dc.DescribeConfigsResource(resource_type=GROUP_RESOURCE, resource_name=name, configuration_keys=None)
        found = (await world.ask(dc.DescribeConfigsRequest(resources=[wanted]), broker=group.broker)).results[0]
        return {
            each.name: (each.value, each.config_source == 8, each.config_type)
            for each in found.configs
            if each.name.startswith("share") and not each.name.endswith(("interval.ms", "session.timeout.ms"))
        }

    answers["described"] = await described(group.group)
    answers["described: none"] = await described(world.name("-none"))
    group.group = ""
    answers["no group"] = await group.configure(share_auto_offset_reset="earliest")
    return answers


PROBES = [
    share_heartbeats,
    share_assignments,
    share_sessions,
    share_deliveries,
    share_limits,
    share_locks,
    share_isolation,
    share_moves,
    share_offsets,
    group_configs,
]
