"""`ShareConsumer` on an embedded cluster: delivery, acknowledgement and redelivery."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import anyio
import pytest

from aiokafka_lead import AcknowledgeType, Producer, ShareConsumer, ShareRecord, TopicPartition
from aiokafka_lead.errors import (
    ClientClosedError,
    ConfigError,
    ConfigTypeError,
    IllegalStateError,
    InvalidMetadataError,
    InvalidRecordStateError,
    KafkaConnectionError,
    RecordDeserializationError,
    ShareSessionNotFoundError,
    UnsupportedVersionError,
)
from aiokafka_lead.schema import SchemaRegistry
from aiokafka_lead.testing import EmbeddedCluster, EmbeddedSchemaRegistry, GroupOptions, RequestRecord

from ..patience import again_if_late
from .support import SHORT_LOCKS, Handled, cluster_with_locks, configure, consumer, fill, take, values

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
J0 = TopicPartition("jobs", 0)


async def test_records_come_to_those_that_ask_for_them_again_and_again_without_a_wait(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 10)
    found: list[ShareRecord[Any, Any]] = []
    async with consumer(cluster.bootstrap_servers) as jobs:
        while len(found) < 10:
            found += [record for records in (await jobs.getmany()).values() for record in records]
    assert values(found) == list(range(10))


async def test_what_the_application_comes_back_from_is_accepted(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 10)
    found = []
    async with consumer(cluster.bootstrap_servers) as jobs:
        async for record in jobs:
            found.append(record)
            if len(found) == 10:
                break
    assert values(found) == list(range(10))
    assert {record.delivery_count for record in found} == {1}
    async with consumer(cluster.bootstrap_servers) as jobs:
        await fill(cluster.bootstrap_servers, "jobs", 1, first=10)
        assert values(await take(jobs, 1)) == [10]


async def test_what_an_application_that_fails_has_in_hand_is_delivered_again_at_once(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 3, partition=0)

    async def fail_at_the_second() -> None:
        async with consumer(cluster.bootstrap_servers) as jobs:
            async for record in jobs:
                if record.offset == 1:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_at_the_second()
    async with consumer(cluster.bootstrap_servers) as jobs:
        found = await take(jobs, 2)
    assert values(found) == [1, 2]
    assert [record.delivery_count for record in found if record.offset == 1] == [2]


async def test_each_record_becomes_what_the_application_decides(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 4, partition=0)
    async with consumer(cluster.bootstrap_servers, share_acknowledgement_mode="explicit") as jobs:
        accepted, released, rejected, undecided = await take(jobs, 4)
        await jobs.acknowledge(accepted)
        await jobs.acknowledge(rejected, REJECT)
        outcome = jobs.acknowledge(released, RELEASE)
        await outcome
        assert outcome.done
        (again,) = await take(jobs, 1)
        assert (again.offset, again.delivery_count) == (released.offset, 2)
        assert undecided.lock_expires_at > time.monotonic()
        assert accepted.lock_expires_at == 0
        jobs.acknowledge(again)
        jobs.acknowledge(undecided)
        assert await jobs.commit() == {J0: None}
        assert await jobs.commit() == {}


async def test_a_commit_accepts_what_is_in_hand_and_tells_of_each_partition(cluster: EmbeddedCluster) -> None:
    for partition in range(3):
        await fill(cluster.bootstrap_servers, "jobs", 2, partition=partition)
    async with consumer(cluster.bootstrap_servers) as jobs:
        await take(jobs, 6)
        outcomes = await jobs.commit()
    assert outcomes == {TopicPartition("jobs", partition): None for partition in range(3)}


@again_if_late(1_000, 8_000)
async def test_a_record_whose_lock_runs_out_is_delivered_again_and_its_acknowledgement_refused(
    lock_ms: int,
) -> None:
    async with cluster_with_locks(lock_ms) as cluster:
        await fill(cluster.bootstrap_servers, "jobs", 1)
        async with consumer(cluster.bootstrap_servers, share_acknowledgement_mode="explicit") as jobs:
            (late,) = await take(jobs, 1)
            (again,) = await take(jobs, 1)
            assert (again.offset, again.delivery_count) == (late.offset, 2)
            with pytest.raises(InvalidRecordStateError, match="ran out"):
                await jobs.acknowledge(late)
            jobs.acknowledge(again)
            assert isinstance((await jobs.commit())[again.topic_partition], InvalidRecordStateError)
            assert await jobs.getmany(timeout_ms=100) == {}


@again_if_late(1_000, 8_000)
async def test_a_renewed_lock_outlasts_the_first(lock_ms: int) -> None:
    async with cluster_with_locks(lock_ms) as cluster:
        await fill(cluster.bootstrap_servers, "jobs", 1)
        async with consumer(cluster.bootstrap_servers, share_acknowledgement_mode="explicit") as jobs:
            (record,) = await take(jobs, 1)
            first = record.lock_expires_at
            for _ in range(3):
                await anyio.sleep_until(anyio.current_time() + 0.4 * lock_ms / 1000)
                await jobs.acknowledge(record, RENEW)
            assert time.monotonic() > first
            assert record.lock_expires_at > first + 0.5
            await jobs.acknowledge(record, ACCEPT)
            assert await jobs.getmany(timeout_ms=100) == {}


async def test_brokers_that_cannot_renew_are_not_asked_to(cluster: EmbeddedCluster) -> None:
    cluster.max_versions = {"ShareFetch": 1, "ShareAcknowledge": 1}
    await fill(cluster.bootstrap_servers, "jobs", 1)
    async with consumer(cluster.bootstrap_servers, share_acquire_mode="record_limit") as jobs:
        (record,) = await take(jobs, 1)
        with pytest.raises(UnsupportedVersionError, match=r"4\.2"):
            jobs.acknowledge(record, RENEW)
        assert await jobs.commit() == {record.topic_partition: None}


async def test_several_members_take_from_one_partition(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "single", 40)
    options: dict[str, Any] = {"topic": "single", "share_acquire_mode": "record_limit", "max_poll_records": 5}
    found: list[ShareRecord[bytes | None, bytes | None]] = []
    async with (
        consumer(cluster.bootstrap_servers, **options) as one,
        consumer(cluster.bootstrap_servers, **options) as two,
    ):
        while len(found) < 40:
            for member in (one, two):
                found += [record for records in (await member.getmany(timeout_ms=50)).values() for record in records]
                await member.commit()
    assert values(found) == list(range(40))


async def test_never_more_records_than_asked_for_where_that_is_wanted(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "single", 100)
    async with consumer(
        cluster.bootstrap_servers,
        "single",
        share_acquire_mode="record_limit",
        max_poll_records=3,
        share_acknowledgement_mode="explicit",
    ) as jobs:
        first = await take(jobs, 1)
        async with consumer(cluster.bootstrap_servers, "single") as other:
            rest = await take(other, 95)
        assert not set(values(first)) & set(values(rest))


async def test_batches_are_of_one_partition_and_in_order(cluster: EmbeddedCluster) -> None:
    for partition in range(3):
        await fill(cluster.bootstrap_servers, "jobs", 10, partition=partition)
    seen = 0
    async with consumer(cluster.bootstrap_servers) as jobs:
        async for batch in jobs.batches():
            assert len({record.partition for record in batch}) == 1
            assert [record.offset for record in batch] == sorted(record.offset for record in batch)
            seen += len(batch)
            if seen == 30:
                break


async def test_records_are_handed_out_when_they_come(anyio_backend: str) -> None:
    """Without waiting for the next heartbeat."""
    async with EmbeddedCluster(brokers=1, groups=GroupOptions(share_heartbeat_interval_ms=60_000)) as quiet:
        quiet.create_topic("jobs")
        await configure(quiet.bootstrap_servers, "workers")
        async with consumer(quiet.bootstrap_servers) as jobs:
            for number in range(8):
                await fill(quiet.bootstrap_servers, "jobs", 1, first=number)
                assert values(await take(jobs, 1)) == [number]


# --- faults -----------------------------------------------------------------------------------------------------------


async def test_records_follow_a_leader_and_are_delivered_again_by_the_new_one(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 5, partition=0)
    async with consumer(cluster.bootstrap_servers, share_acknowledgement_mode="explicit") as jobs:
        before = await take(jobs, 5)
        cluster.move_leader("jobs", 0)
        outcome = jobs.acknowledge(before[0])
        again = await take(jobs, 5)
        assert values(again) == values(before)
        with pytest.raises((InvalidRecordStateError, InvalidMetadataError)):
            await outcome
        for record in again:
            jobs.acknowledge(record)
        await jobs.commit()
        assert await jobs.getmany(timeout_ms=100) == {}


async def test_a_lost_connection_loses_the_locks_and_nothing_else(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 5, partition=0)
    async with consumer(cluster.bootstrap_servers, share_acknowledgement_mode="explicit") as jobs:
        before = await take(jobs, 5)
        leader = cluster.leader("jobs", 0)
        cluster.faults.add("ShareAcknowledge", broker=leader, count=1, disconnect=True)
        with pytest.raises(KafkaConnectionError):
            await jobs.acknowledge(before[0])
        assert all(record.lock_expires_at == 0 for record in before)
        again = await take(jobs, 5)
        assert values(again) == values(before)
        for record in again:
            await jobs.acknowledge(record)


async def test_a_stopped_broker_is_survived(cluster: EmbeddedCluster) -> None:
    for partition in range(3):
        await fill(cluster.bootstrap_servers, "jobs", 10, partition=partition, first=10 * partition)
    async with consumer(cluster.bootstrap_servers) as jobs:
        found = await take(jobs, 5)
        await cluster.kill_broker(cluster.leader("jobs", 1))
        numbers = set(values(found))
        with anyio.fail_after(30):
            async for record in jobs:
                numbers.add(int(record.value or b""))
                if len(numbers) == 30:
                    break


async def test_a_frozen_broker_costs_its_partitions_alone(cluster: EmbeddedCluster) -> None:
    leader = cluster.leader("jobs", 0)
    frozen = cluster.faults.add("ShareFetch", broker=leader, drop=True)
    for partition in range(3):
        await fill(cluster.bootstrap_servers, "jobs", 10, partition=partition, first=10 * partition)
    async with consumer(cluster.bootstrap_servers, request_timeout_ms=1_000) as jobs:
        assert set(values(await take(jobs, 20))) == set(range(10, 30))
        frozen.remove()
        assert set(values(await take(jobs, 10))) == set(range(10))


@SHORT_LOCKS
async def test_a_forgotten_session_is_opened_anew(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 5, partition=0)
    async with consumer(cluster.bootstrap_servers) as jobs:
        await take(jobs, 2)
        cluster.faults.add("ShareFetch", error_code=ShareSessionNotFoundError, whole=True, count=3)
        cluster.faults.add("ShareAcknowledge", error_code=ShareSessionNotFoundError, whole=True, count=1)
        await jobs.commit()
        with anyio.fail_after(20):
            seen: set[int] = set()
            async for record in jobs:
                seen.add(record.offset)
                if seen >= {2, 3, 4}:  # plus the first two offsets, if their acknowledgement was lost
                    break


async def test_a_broker_at_its_limit_of_sessions_is_asked_again(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 1, partition=0)
    cluster.faults.add("ShareFetch", error_code=133, whole=True, count=4)
    async with consumer(cluster.bootstrap_servers) as jobs:
        assert values(await take(jobs, 1)) == [0]


async def test_a_fenced_member_joins_again(cluster: EmbeddedCluster) -> None:
    async with consumer(cluster.bootstrap_servers) as jobs:
        cluster.faults.add("ShareGroupHeartbeat", error_code=110, whole=True, count=1)
        await cluster.wait_for_requests("ShareGroupHeartbeat", count=cluster.requests.count("ShareGroupHeartbeat") + 2)
        await fill(cluster.bootstrap_servers, "jobs", 3)
        assert values(await take(jobs, 3)) == [0, 1, 2]


async def test_a_moved_coordinator_is_found(cluster: EmbeddedCluster) -> None:
    async with consumer(cluster.bootstrap_servers) as jobs:
        cluster.move_coordinator("workers")
        await cluster.wait_for_requests("ShareGroupHeartbeat", count=cluster.requests.count("ShareGroupHeartbeat") + 3)
        await fill(cluster.bootstrap_servers, "jobs", 3)
        assert values(await take(jobs, 3)) == [0, 1, 2]


async def test_a_record_that_cannot_be_deserialized_is_for_the_application_to_judge(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 3, partition=0, first=9)

    def number(content: bytes) -> int:
        if content == b"10":
            raise ValueError("ten")
        return int(content)

    jobs: ShareConsumer[bytes | None, int] = ShareConsumer(
        "jobs", bootstrap_servers=cluster.bootstrap_servers, group_id="workers", value_deserializer=number
    )
    async with jobs:
        found: list[int | None] = []
        errors: list[RecordDeserializationError] = []
        with anyio.fail_after(20):
            while len(found) < 2 or len(errors) < 2:
                try:
                    found += [
                        record.value for records in (await jobs.getmany(timeout_ms=1000)).values() for record in records
                    ]
                except RecordDeserializationError as error:
                    errors.append(error)
        assert set(found) == {9, 11}
        assert {error.record.offset for error in errors} == {1}


# --- its life ---------------------------------------------------------------------------------------------------------


async def test_what_was_not_handed_out_is_released_at_the_end(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 20, partition=0)
    async with consumer(cluster.bootstrap_servers) as jobs:
        await take(jobs, 1)
    async with consumer(cluster.bootstrap_servers) as jobs:
        began = time.monotonic()
        assert values(await take(jobs, 19)) == list(range(1, 20))
        assert time.monotonic() < began + 30


async def test_a_cancelled_read_loses_nothing(cluster: EmbeddedCluster) -> None:
    async with consumer(cluster.bootstrap_servers, share_acknowledgement_mode="explicit") as jobs:
        found = []
        for number in range(5):
            with anyio.move_on_after(0.05):
                await jobs.getmany(timeout_ms=60_000)
            await fill(cluster.bootstrap_servers, "jobs", 1, first=number)
            found += await take(jobs, 1)
        assert values(found) == list(range(5))


async def test_a_stop_ends_whoever_waits(cluster: EmbeddedCluster) -> None:
    jobs = consumer(cluster.bootstrap_servers)
    await jobs.start()
    ended = []

    async def read() -> None:
        async for _ in jobs:
            pass
        ended.append(True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        await jobs.stop()
    assert ended
    with pytest.raises(ClientClosedError):
        await jobs.getmany()


async def test_unsubscribed_it_reads_nothing_and_comes_back(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 2)
    async with consumer(cluster.bootstrap_servers) as jobs:
        assert jobs.subscription() == {"jobs"}
        await take(jobs, 1)
        await jobs.commit()
        jobs.unsubscribe()
        with pytest.raises(IllegalStateError, match="subscribe"):
            await jobs.getmany()
        jobs.subscribe(["jobs"])
        assert len(await take(jobs, 1)) == 1


async def test_records_of_topics_that_were_left_go_back_to_the_group(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 10, partition=0)
    await fill(cluster.bootstrap_servers, "single", 1)
    async with consumer(cluster.bootstrap_servers) as jobs, consumer(cluster.bootstrap_servers) as other:
        (first,) = await take(jobs, 1)
        assert first.topic == "jobs"
        jobs.subscribe(["single"])
        assert [record.topic for record in await take(jobs, 1)] == ["single"]
        with anyio.fail_after(30):
            assert len({record.offset for record in await take(other, 9)} - {first.offset}) == 9


async def test_records_that_arrive_after_an_unsubscribe_go_back_to_the_group(cluster: EmbeddedCluster) -> None:
    async with consumer(cluster.bootstrap_servers, "single") as jobs:
        held = cluster.faults.add("ShareFetch", hold=True)
        cluster.requests.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(jobs.getmany, timeout_ms=60_000))
            await cluster.requests.wait_for("ShareFetch")
            tasks.cancel_scope.cancel()
        await fill(cluster.bootstrap_servers, "single", 1)
        jobs.unsubscribe()
        held.remove()
        async with consumer(cluster.bootstrap_servers, "single") as other:
            with anyio.fail_after(30):
                assert values(await take(other, 1)) == [0]


def _acknowledges(record: RequestRecord) -> bool:
    if record.api not in ("ShareFetch", "ShareAcknowledge"):
        return False
    return any(each.acknowledgement_batches for topic in record.request.topics for each in topic.partitions)


async def test_a_commit_does_not_wait_for_what_another_task_acknowledges_later(cluster: EmbeddedCluster) -> None:
    async with consumer(cluster.bootstrap_servers, share_acknowledgement_mode="explicit") as jobs:
        await fill(cluster.bootstrap_servers, "jobs", 2, partition=0)  # now, so that one answer has both
        first, second = await take(jobs, 2)
        sent = anyio.Event()

        def notes(record: RequestRecord) -> bool:
            if _acknowledges(record):
                sent.set()
            return sent.is_set()

        earlier = cluster.faults.add(when=notes, hold=True, count=1)
        jobs.acknowledge(first)
        outcomes: dict[TopicPartition, Any] = {}

        async def commit() -> None:
            outcomes.update(await jobs.commit(timeout_ms=60_000))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(commit)
                await sent.wait()
                cluster.faults.add(when=_acknowledges, hold=True)
                jobs.acknowledge(second)
                earlier.release()
        assert outcomes == {J0: None}
        cluster.faults.clear()
        assert await jobs.commit() == {J0: None}


async def test_a_record_is_acknowledged_once_and_by_its_consumer(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 1)
    async with consumer(cluster.bootstrap_servers) as jobs, consumer(cluster.bootstrap_servers) as other:
        (record,) = await take(jobs, 1)
        with pytest.raises(IllegalStateError, match="another consumer"):
            other.acknowledge(record)
        jobs.acknowledge(record)
        with pytest.raises(IllegalStateError, match="already been acknowledged"):
            jobs.acknowledge(record, REJECT)


async def test_wrong_arguments_are_told_at_once(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    with pytest.raises(ConfigError, match="group_id"):
        ShareConsumer("jobs", bootstrap_servers=servers)
    with pytest.raises(ConfigError, match="share_acquire_mode"):
        consumer(servers, share_acquire_mode="some")
    with pytest.raises(ConfigError, match="topics"):
        consumer(servers).subscribe([])
    async with consumer(servers) as jobs:
        with pytest.raises(ConfigTypeError, match="record"):
            jobs.acknowledge("record")  # type: ignore[arg-type]
        with pytest.raises(ConfigTypeError, match="handler"):
            await jobs.run(None)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="concurrency"):
            await jobs.run(Handled(), concurrency=0)


async def test_brokers_without_share_groups_are_named() -> None:
    async with EmbeddedCluster(brokers=1, max_versions={"ShareGroupHeartbeat": -1}) as old:
        old.create_topic("jobs")
        with pytest.raises(UnsupportedVersionError, match="share groups"):
            await consumer(old.bootstrap_servers).start()


async def test_the_log_names_topics_that_are_not_there(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with consumer(cluster.bootstrap_servers, "nowhere", allow_auto_create_topics=False):
        with anyio.fail_after(20):
            while "cannot read nowhere: the cluster does not have it" not in caplog.text:  # noqa: ASYNC110 (no event)
                await anyio.sleep(0.01)


async def test_values_by_a_schema_registry(cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    serializer = registry.avro_serializer("long", auto_register=True)
    async with consumer(cluster.bootstrap_servers, value_deserializer=registry.deserializer()) as jobs:
        async with Producer(cluster.bootstrap_servers, value_serializer=serializer) as producer:
            await producer.send_and_wait("jobs", 7)
        found: list[Any] = [record.value for record in await take(jobs, 1)]
    assert found == [7]
    assert schema_registry.asked("GET", "/schemas/ids/1") == 1
