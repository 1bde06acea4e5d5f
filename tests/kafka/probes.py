"""Requests whose responses must be the same from Apache Kafka and the embedded cluster.

Each probe returns its answers by name, without values that differ between clusters (ids, addresses, times).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import UUID, uuid4

import anyio
from crc32c import crc32c

from aiokafka_lead._wire import ZERO_UUID, Request, Response
from aiokafka_lead._wire.messages import create_topics as ct
from aiokafka_lead._wire.messages import delete_records as dr
from aiokafka_lead._wire.messages import describe_configs as dc
from aiokafka_lead._wire.messages import fetch as f
from aiokafka_lead._wire.messages import incremental_alter_configs as ac
from aiokafka_lead._wire.messages import list_offsets as lo
from aiokafka_lead._wire.messages import metadata as md
from aiokafka_lead._wire.messages import offset_for_leader_epoch as oe
from aiokafka_lead._wire.messages import produce as p
from aiokafka_lead._wire.messages.init_producer_id import InitProducerIdRequest
from tests.testing.raw import batch, connected

R = TypeVar("R", bound=Response)

Answers = dict[str, Any]
Probe = Callable[["World"], Awaitable[Answers]]

TOPIC_ID_VERSION = 13
GROUP_RESOURCE = 32
_MARK = "streams.heartbeat.interval.ms"
"""A configuration of groups that matters to no group of a probe."""
_WAIT_MS = 1000


class World:
    """A cluster, and names in it that no other probe uses."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap.split(",")
        self.addresses: dict[int, str] = {}
        self._names = uuid4().hex[:8]

    def name(self, suffix: str = "") -> str:
        return f"probe-{self._names}{suffix}"

    async def ask(self, request: Request[R], version: int | None = None, *, broker: int | None = None) -> R:
        """Send a request to a broker, or to any, on a separate connection."""
        address = self.bootstrap[0] if broker is None else self.addresses[broker]
        async with connected(address) as client:
            return await client.call(request, version)

    async def look(self, topics: list[md.MetadataRequestTopic]) -> list[md.MetadataResponseTopic]:
        """Learn the brokers' addresses; return the descriptions of these topics."""
        response = await self.ask(md.MetadataRequest(topics=topics), 12)
        self.addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in response.brokers}
        return response.topics

    async def topic(self, name: str, partitions: int = 1, **configs: str) -> tuple[int, int, UUID]:
        """Create a topic on all brokers; return partition 0's leader, a follower, and the topic's id."""
        given = [ct.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        wanted = ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=3, configs=given)
        created = await self.ask(ct.CreateTopicsRequest(topics=[wanted], timeout_ms=20_000))
        assert created.topics[0].error_code == 0
        while True:
            (found,) = await self.look([md.MetadataRequestTopic(name=name)])
            if len(found.partitions) == partitions and all(len(part.isr_nodes) == 3 for part in found.partitions):
                break
            await anyio.sleep(0.1)
        leader = found.partitions[0].leader_id
        follower = next(replica for replica in found.partitions[0].replica_nodes if replica != leader)
        # Metadata knows the topic before its leader does.
        while True:
            if (await self.listed(name, -1, leader))[0] == 0:
                return leader, follower, found.topic_id
            await anyio.sleep(0.1)

    async def configured(self, group: str, **values: str | None) -> int:
        """Set configurations of a group, with ``_`` for ``.``, or reset them (None); return the error."""
        configs = [
            ac.AlterableConfig(name=name.replace("_", "."), config_operation=int(value is None), value=value)
            for name, value in values.items()
        ]
        resource = ac.AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=configs)
        return (await self.ask(ac.IncrementalAlterConfigsRequest(resources=[resource]))).responses[0].error_code

    async def published(self) -> None:
        """Wait until every broker has applied all current topics and configurations.

        A broker applies images of the metadata in succession, and answers from a new image before its coordinators have
        it. Once a broker shows a second change, made after it showed the first, its coordinators have the first.
        """
        group = self.name("-mark")
        wanted = dc.DescribeConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=group, configuration_keys=[_MARK]
        )
        for value in ("5001", "5002"):
            assert await self.configured(group, **{_MARK: value}) == 0
            for broker in self.addresses:
                while True:
                    found = (await self.ask(dc.DescribeConfigsRequest(resources=[wanted]), broker=broker)).results[0]
                    if [each.value for each in found.configs] == [value]:
                        break
                    await anyio.sleep(0.02)

    async def produce(
        self, topic: str, records: bytes, broker: int, *, partition: int = 0, acks: int = -1, version: int = 12
    ) -> p.PartitionProduceResponse:
        data = p.PartitionProduceData(index=partition, records=records)
        wanted = p.TopicProduceData(name=topic, partition_data=[data])
        request = p.ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[wanted])
        return (await self.ask(request, version, broker=broker)).responses[0].partition_responses[0]

    async def listed(
        self, topic: str, timestamp: int, broker: int, *, version: int = 10, epoch: int = -1, partition: int = 0
    ) -> tuple[int, int, int, int]:
        wanted = lo.ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
        request = lo.ListOffsetsRequest(replica_id=-1, topics=[lo.ListOffsetsTopic(name=topic, partitions=[wanted])])
        found = (await self.ask(request, version, broker=broker)).topics[0].partitions[0]
        return found.error_code, found.offset, found.timestamp, found.leader_epoch


def outcome(result: p.PartitionProduceResponse) -> tuple[Any, ...]:
    """Return the contents of a Produce answer, without times."""
    refused = [error.batch_index for error in result.record_errors]
    return result.error_code, result.base_offset, result.log_start_offset, refused, result.current_leader.leader_id >= 0


def changed(at: int, layout: str, value: int) -> bytes:
    """Return a batch of two records with a field of its header changed, and the right CRC."""
    records = bytearray(batch(b"a", b"b"))
    struct.pack_into(layout, records, at, value)
    struct.pack_into(">I", records, 17, crc32c(bytes(records[21:])))
    return bytes(records)


def corrupt() -> bytes:
    records = bytearray(batch(b"value"))
    records[-1] ^= 1
    return bytes(records)


async def refused_records(world: World) -> Answers:
    topic = world.name("-refused")
    leader, follower, _ = await world.topic(topic)
    small, compacted = world.name("-small"), world.name("-compacted")
    small_leader, _, _ = await world.topic(small, max_message_bytes="200")
    compacted_leader, _, _ = await world.topic(compacted, cleanup_policy="compact")
    batches = {
        "fine": batch(b"a", b"b"),
        "crc": corrupt(),
        "cut off": batch(b"a")[:-1],
        "header cut off": batch(b"a")[:30],
        "nothing": b"",
        "two batches": batch(b"a") + batch(b"b"),
        "base offset": changed(0, ">q", 7),
        "magic 1": changed(16, ">b", 1),
        "magic 9": changed(16, ">b", 9),
        "record count": changed(57, ">i", 3),
        "no records": changed(57, ">i", 0),
        "last offset delta": changed(23, ">i", 5),
        "negative delta": changed(23, ">i", -1),
        "control": changed(21, ">h", 0x20),
        "codec 5": changed(21, ">h", 5),
        "codec 7": changed(21, ">h", 7),
        "in the future": batch(b"a", timestamp_ms=9_000_000_000_000),
        "id without sequence": batch(b"a", producer_id=900_001, epoch=0, sequence=-1),
    }
    answers = {name: outcome(await world.produce(topic, records, leader)) for name, records in batches.items()}
    answers["too large"] = outcome(await world.produce(small, batch(b"x" * 500), small_leader))
    unkeyed = batch(b"a", b"b", key=None)
    answers["without key"] = outcome(await world.produce(compacted, unkeyed, compacted_leader))
    answers["no topic"] = outcome(await world.produce(world.name("-none"), batch(b"a"), leader))
    answers["no partition"] = outcome(await world.produce(topic, batch(b"a"), leader, partition=7))
    answers["acks 2"] = outcome(await world.produce(topic, batch(b"a"), leader, acks=2))
    answers["zstd in 6"] = outcome(await world.produce(topic, batch(b"a", compression="zstd"), leader, version=6))
    answers["not the leader"] = outcome(await world.produce(topic, batch(b"a"), follower))
    answers["not the leader, 9"] = outcome(await world.produce(topic, batch(b"a"), follower, version=9))
    return answers


async def idempotence(world: World) -> Answers:
    topic = world.name("-idempotence")
    leader, _, _ = await world.topic(topic)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    given = await world.ask(request, 4)
    while given.error_code:
        # A cluster that has only just started has no ids yet.
        await anyio.sleep(0.2)
        given = await world.ask(request, 4)
    producer_id = given.producer_id

    async def send(sequence: int, count: int, epoch: int = 0, other: int = 0) -> tuple[int, int]:
        records = batch(*[b"v"] * count, producer_id=producer_id + other, epoch=epoch, sequence=sequence)
        result = await world.produce(topic, records, leader)
        return result.error_code, result.base_offset

    steps = [(0, 2), (2, 1), (0, 2), (2, 1), (4, 1), (2, 2), (0, 1), (3, 1), (4, 1), (5, 1), (6, 1), (2, 1), (0, 2)]
    answers: Answers = {f"{n}: {step}": await send(*step) for n, step in enumerate(steps)}
    answers["epoch 1 at 7"] = await send(7, 1, epoch=1)
    answers["epoch 1 at 0"] = await send(0, 1, epoch=1)
    answers["epoch 0 again"] = await send(1, 1, epoch=0)
    answers["unknown producer"] = await send(50, 1, other=12_345)
    answers["unknown producer, epoch 5"] = await send(50, 1, epoch=5, other=12_346)
    answers["its epoch 6 at 9"] = await send(9, 1, epoch=6, other=12_346)
    last = 2**31 - 1
    answers["at the end"] = await send(last - 1, 3, other=12_347)
    answers["wrapped"] = await send(1, 1, other=12_347)
    return answers


async def points_of_a_log(world: World) -> Answers:
    topic, empty = world.name("-points"), world.name("-empty")
    leader, follower, _ = await world.topic(topic)
    empty_leader, _, _ = await world.topic(empty)
    for timestamp_ms in (1000, 5000, 3000):
        await world.produce(topic, batch(b"a", b"b", timestamp_ms=timestamp_ms), leader)
    answers: Answers = {
        f"at {timestamp}": await world.listed(topic, timestamp, leader)
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, 1000, 1001, 1002, 3001, 5001, 5002)
    }
    answers["-6 in 11"] = await world.listed(topic, -6, leader, version=11)
    answers["-3 in 6"] = await world.listed(topic, -3, leader, version=6)
    answers["version 1"] = await world.listed(topic, -1, leader, version=1)
    answers["epoch 0"] = await world.listed(topic, -1, leader, epoch=0)
    answers["epoch 1"] = await world.listed(topic, -1, leader, epoch=1)
    answers["follower"] = await world.listed(topic, -1, follower)
    answers["follower, epoch 9"] = await world.listed(topic, -1, follower, epoch=9)
    answers["no topic"] = await world.listed(world.name("-none"), -1, leader)
    answers["no partition"] = await world.listed(topic, -1, leader, partition=9)
    for timestamp in (-1, -2, -3, 0):
        answers[f"empty at {timestamp}"] = await world.listed(empty, timestamp, empty_leader)

    async def end_of(epoch: int, current: int = -1, broker: int = leader, name: str = topic) -> tuple[int, int, int]:
        wanted = oe.OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
        request = oe.OffsetForLeaderEpochRequest(topics=[oe.OffsetForLeaderTopic(topic=name, partitions=[wanted])])
        found = (await world.ask(request, 4, broker=broker)).topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    for epoch in (-1, 0, 1):
        answers[f"end of epoch {epoch}"] = await end_of(epoch)
    answers["end, current epoch 3"] = await end_of(0, current=3)
    answers["end, follower"] = await end_of(0, broker=follower)
    answers["end, no topic"] = await end_of(0, name=world.name("-none"))

    async def delete(offset: int, broker: int = leader, name: str = topic) -> tuple[int, int]:
        wanted = dr.DeleteRecordsPartition(partition_index=0, offset=offset)
        request = dr.DeleteRecordsRequest(
            topics=[dr.DeleteRecordsTopic(name=name, partitions=[wanted])], timeout_ms=60_000
        )
        result = (await world.ask(request, broker=broker)).topics[0].partitions[0]
        return result.error_code, result.low_watermark

    for offset in (3, 1, 9999, -5):
        answers[f"delete before {offset}"] = await delete(offset)
    answers["delete, follower"] = await delete(3, broker=follower)
    answers["delete, no topic"] = await delete(3, name=world.name("-none"))
    answers["earliest after it"] = await world.listed(topic, -2, leader)
    answers["by time after it"] = await world.listed(topic, 0, leader)
    return answers


async def fetches(world: World) -> Answers:
    topic = world.name("-fetches")
    leader, follower, topic_id = await world.topic(topic)
    for value in (b"a", b"b"):
        await world.produce(topic, batch(value, value), leader)

    async def fetch(
        offset: int,
        *,
        version: int = 12,
        epoch: int = -1,
        last: int = -1,
        broker: int = leader,
        name: str = topic,
        of: UUID = topic_id,
        partition: int = 0,
        max_bytes: int = 1_000_000,
        **fields: int,
    ) -> tuple[Any, ...]:
        part = f.FetchPartition(
            partition=partition,
            fetch_offset=offset,
            current_leader_epoch=epoch,
            last_fetched_epoch=last,
            partition_max_bytes=max_bytes,
        )
        by_id = version >= TOPIC_ID_VERSION
        wanted = f.FetchTopic(topic="" if by_id else name, topic_id=of if by_id else ZERO_UUID, partitions=[part])
        request = f.FetchRequest(max_wait_ms=_WAIT_MS, min_bytes=1, max_bytes=max_bytes, topics=[wanted])
        for field, number in fields.items():
            setattr(request, field, number)

        async def ask() -> tuple[Any, bool]:
            began = time.monotonic()
            answer = await world.ask(request, version, broker=broker)
            return answer, time.monotonic() - began > 0.9 * _WAIT_MS / 1000

        response, waited = await ask()
        for _ in range(2):  # even an immediate answer may take longer on a machine that stalls
            if waited:
                response, waited = await ask()
        if response.error_code or not response.responses:
            return response.error_code, response.session_id != 0
        data = response.responses[0].partitions[0]
        return (
            data.error_code,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
            (data.diverging_epoch.epoch, data.diverging_epoch.end_offset),
            data.preferred_read_replica,
            data.current_leader.leader_id >= 0,
            len(response.node_endpoints),
            data.aborted_transactions,
            len(data.records or b"") > 0,
            waited,
            response.session_id != 0,
        )

    unknown = uuid4()
    return {
        "from 0": await fetch(0),
        "in a batch": await fetch(1),
        "at the end": await fetch(4),
        "at the end, no bytes": await fetch(4, min_bytes=0),
        "beyond": await fetch(5),
        "negative": await fetch(-1),
        "one byte": await fetch(0, max_bytes=1),
        "version 4": await fetch(0, version=4),
        "epoch 0": await fetch(0, epoch=0),
        "epoch 1": await fetch(0, epoch=1),
        "last epoch 0": await fetch(0, last=0),
        "last epoch 5": await fetch(0, last=5),
        "follower, 10": await fetch(0, version=10, broker=follower),
        "follower, epoch 7": await fetch(0, epoch=7, broker=follower),
        "no topic": await fetch(0, name=world.name("-none")),
        "no partition": await fetch(0, partition=9),
        "by id": await fetch(0, version=13),
        "unknown id": await fetch(0, version=13, of=unknown),
        "unknown id, 16": await fetch(0, version=16, of=unknown),
        "by id, no partition": await fetch(0, version=13, partition=9),
        "a session": await fetch(0, session_epoch=0),
        "no such session": await fetch(0, session_id=99, session_epoch=3),
        "a session instead": await fetch(0, session_id=99, session_epoch=0),
    }


async def metadata(world: World) -> Answers:
    await world.topic(world.name("-metadata"))
    none = world.name("-none")
    answers: Answers = {}
    for version in (0, 1, 4, 7, 9, 10, 12, 13):
        names = [none, "not legal"] if version >= 4 else ["not legal"]
        request = md.MetadataRequest(
            topics=[md.MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=version < 4
        )
        response = await world.ask(request, version)
        answers[f"version {version}"] = sorted((topic.error_code, len(topic.partitions)) for topic in response.topics)
    by_id = md.MetadataRequest(topics=[md.MetadataRequestTopic(topic_id=UUID(int=77), name=None)])
    response = await world.ask(by_id, 12)
    answers["unknown id"] = [(topic.error_code, topic.name) for topic in response.topics]
    response = await world.ask(md.MetadataRequest(topics=[]), 12)
    answers["no topics"] = len(response.topics), len(response.brokers)
    return answers


async def connections(world: World) -> Answers:
    """Send requests that end a connection."""

    async def is_closed_by(data: bytes) -> bool:
        async with connected(world.bootstrap[0]) as client:
            await client.stream.send(data)
            return await client.is_closed()

    return {
        "unknown API": await is_closed_by(b"\0\0\0\x0a" + b"\x03\xe7\0\0\0\0\0\x01\xff\xff"),
        "unknown version": await is_closed_by(b"\0\0\0\x0a" + b"\0\x03\0\x63\0\0\0\x01\xff\xff"),
        "HTTP": await is_closed_by(b"GET / HTTP/1.1\r\n\r\n"),
        "negative length": await is_closed_by(b"\xff\xff\xff\xff"),
        "no length": await is_closed_by(b"\0\0\0\0"),
        "too many bytes": await is_closed_by(b"\0\0\0\x0e" + b"\0\x12\0\0\0\0\0\x01\xff\xff" + b"abcd"),
    }
