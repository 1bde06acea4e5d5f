"""Share groups at Apache Kafka: a work queue without losses."""

from __future__ import annotations

import collections
import logging
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from aiokafka_lead import AcknowledgeType, AdminClient, ShareConsumer, TopicPartition
from aiokafka_lead.admin import FeatureUpdate
from aiokafka_lead.errors import (
    IllegalStateError,
    InvalidMetadataError,
    InvalidRecordStateError,
    KafkaConnectionError,
    KafkaError,
)
from tests.share.support import Handled, Record, configure, fill, take, values

from .harness import KafkaCluster
from .support import in_thread, make_consumer, on_asyncio

pytestmark = pytest.mark.anyio

TopicName = Callable[[], str]

log = logging.getLogger(__name__)

CALM, TROUBLED = 200, 500
LOCK_MS = 2_000
LOST = (InvalidRecordStateError, InvalidMetadataError, KafkaConnectionError)


class Done:
    """Handled records, with counts and handlers."""

    def __init__(self) -> None:
        self.times: collections.Counter[int] = collections.Counter()
        self.here: collections.defaultdict[int, list[tuple[ShareConsumer, Record]]] = collections.defaultdict(list)
        """Counts by the members of this process, all of which survive."""
        self.news = anyio.Event()

    def note(self, number: int) -> None:
        self.times[number] += 1
        news, self.news = self.news, anyio.Event()
        news.set()

    async def handle(self, jobs: ShareConsumer, record: Record) -> None:
        await anyio.sleep(random.random() * 0.05)
        if record.delivery_count == 1 and random.random() < 0.1:
            raise RuntimeError("now and then")
        number = int(record.value or b"-1")
        self.here[number].append((jobs, record))
        self.note(number)

    async def explained(self) -> dict[str, int]:
        """Return the reasons of repeated deliveries: the numbers of lost locks, and of deliveries to dead members."""
        causes = collections.Counter({"lock lost": 0, "member died": 0})
        for number, times in self.times.items():
            if times > 1:
                held = [await _held(jobs, record) for jobs, record in self.here[number]]
                assert held.count(True) <= 1, f"record {number} was accepted by {held.count(True)} deliveries"
                causes["lock lost"] += held.count(False)
                causes["member died"] += times - len(held)
        return dict(causes)

    async def until(self, numbers: range) -> None:
        with anyio.fail_after(90):
            while any(number not in self.times for number in numbers):
                await self.news.wait()


async def _held(jobs: ShareConsumer, record: Record) -> bool:
    """Return True if the record's lock held until the broker had its acknowledgement."""
    try:
        await jobs.acknowledge(record)
    except IllegalStateError:
        return True
    except KafkaError:
        return False
    raise AssertionError("nothing had become of the record")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_members_are_killed_and_leaders_move_and_every_record_is_accepted(
    kafka: KafkaCluster, topic_name: TopicName, anyio_backend: str
) -> None:
    """Eight members on three partitions, two of which are killed, while two leaders move and a broker is frozen."""
    topic = await anyio.to_thread.run_sync(lambda: kafka.create_topic(topic_name(), partitions=3))
    servers, group = kafka.bootstrap(), f"{topic}-workers"
    await configure(servers, group)  # default locks, since a stalled machine must not lose any in calm times
    done, third = Done(), (TROUBLED - CALM) // 3
    causes: dict[str, int] = {}
    members = [
        ShareConsumer(topic, bootstrap_servers=servers, group_id=group, request_timeout_ms=5_000) for _ in range(6)
    ]

    async def work(jobs: ShareConsumer) -> None:
        async with jobs:
            await jobs.run(partial(done.handle, jobs), concurrency=8, retry_backoff_ms=10)

    async with anyio.create_task_group() as tasks:
        for jobs in members:
            tasks.start_soon(work, jobs)
        await fill(servers, topic, CALM)
        await done.until(range(CALM))
        assert [number for number, times in done.times.items() if times > 1] == []

        await configure(servers, group, share_record_lock_duration_ms=str(LOCK_MS))
        command = [sys.executable, "-m", "tests.kafka.share_worker", servers, topic, group]
        async with await anyio.open_process(command) as process, anyio.create_task_group() as listening:

            async def listen() -> None:
                assert process.stdout is not None
                text = b""
                async for chunk in process.stdout:
                    *lines, text = (text + chunk).split(b"\n")
                    for line in lines:
                        done.note(int(line))

            listening.start_soon(listen)
            await fill(servers, topic, third, first=CALM)
            await anyio.to_thread.run_sync(kafka.move_leader, topic, 0)
            await fill(servers, topic, third, first=CALM + third)
            process.send_signal(signal.SIGKILL)
        frozen = await anyio.to_thread.run_sync(kafka.leader, topic, 1)
        await anyio.to_thread.run_sync(kafka.pause, frozen)
        try:
            with anyio.move_on_after(1.5):
                await done.until(range(CALM + 2 * third))
        finally:
            await anyio.to_thread.run_sync(kafka.resume, frozen)
        await fill(servers, topic, third, first=CALM + 2 * third)
        await done.until(range(TROUBLED))
        for jobs in members:
            await jobs.commit()
        causes = await done.explained()
        for jobs in members:
            await jobs.stop()
    again = sum(times - 1 for times in done.times.values())
    log.info("%d records were handled, %d of them more than once: %s", TROUBLED, again, causes)
    async with ShareConsumer(topic, bootstrap_servers=servers, group_id=group) as jobs:
        left = await jobs.getmany(timeout_ms=2 * LOCK_MS)
    # Only records handled after their lock was lost may come again.
    assert sum(map(len, left.values())) <= again + 16


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_is_decided_is_what_brokers_do(
    kafka: KafkaCluster, topic_name: TopicName, anyio_backend: str
) -> None:
    """Every kind of acknowledgement, an expired lock, a moved leader, a record limit."""
    topic = await anyio.to_thread.run_sync(lambda: kafka.create_topic(topic_name()))
    servers, group = kafka.bootstrap(), f"{topic}-workers"
    await configure(servers, group, share_record_lock_duration_ms="12000")
    await fill(servers, topic, 6)
    async with ShareConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        share_acknowledgement_mode="explicit",
        share_acquire_mode="record_limit",
    ) as jobs:
        accepted, released, rejected, renewed, late, moved = sorted(await take(jobs, 6), key=lambda each: each.offset)
        first = renewed.lock_expires_at
        await jobs.acknowledge(renewed, AcknowledgeType.RENEW)
        assert renewed.lock_expires_at > first
        jobs.acknowledge(accepted)
        jobs.acknowledge(rejected, AcknowledgeType.REJECT)
        await jobs.acknowledge(released, AcknowledgeType.RELEASE)
        (again,) = await take(jobs, 1)
        assert (again.offset, again.delivery_count) == (released.offset, 2)
        jobs.acknowledge(again)
        await jobs.acknowledge(renewed)
        # The locks of the remaining two expire.
        both = await take(jobs, 2)
        assert [record.delivery_count for record in both] == [2, 2]
        with pytest.raises(LOST):
            await jobs.acknowledge(late)
        jobs.acknowledge(next(record for record in both if record.offset == late.offset))
        assert await jobs.commit() != {}
        await anyio.to_thread.run_sync(kafka.move_leader, topic, 0)
        (last,) = await take(jobs, 1)
        assert last.offset == moved.offset
        await jobs.acknowledge(last)
        assert await jobs.getmany(timeout_ms=1_500) == {}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_slow_record_holds_back_nobody(kafka: KafkaCluster, topic_name: TopicName, anyio_backend: str) -> None:
    """Its lock is renewed meanwhile, so that it is delivered once."""
    topic = await anyio.to_thread.run_sync(lambda: kafka.create_topic(topic_name()))
    servers, group = kafka.bootstrap(), f"{topic}-workers"
    await configure(servers, group, share_record_lock_duration_ms="12000")
    await fill(servers, topic, 100)
    handled, others_done = Handled(), anyio.Event()

    async def handle(record: Record) -> None:
        if record.offset == 0:
            await others_done.wait()
            await anyio.sleep_until(anyio.current_time() + record.lock_expires_at - time.monotonic() + 0.5)
        handled.note(record)

    async with (
        ShareConsumer(topic, bootstrap_servers=servers, group_id=group) as jobs,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(jobs.run, handle)
        await handled.until(99)
        assert 0 not in values(handled.records)
        others_done.set()
        await handled.until(100)
        await jobs.stop()
    assert {record.delivery_count for record in handled.records} == {1}
    assert len(handled.records) == 100


@on_asyncio
async def test_brokers_keep_what_is_rejected_and_what_they_give_up(kafka: KafkaCluster, topic_name: TopicName) -> None:
    """KIP-1191."""
    servers, group = kafka.bootstrap(), topic_name()
    topic = await in_thread(kafka.create_topic, topic_name())
    enabled = {"errors.deadletterqueue.group.enable": "true"}
    dead = await in_thread(kafka.create_topic, f"dlq.{topic_name()}", config=enabled)
    async with AdminClient(servers) as admin:
        await admin.update_features({"share.version": FeatureUpdate(2)})
    settings = {"errors_deadletterqueue_topic_name": dead, "errors_deadletterqueue_copy_record_enable": "true"}
    await configure(servers, group, share_delivery_count_limit="2", **settings)
    await fill(servers, topic, 4)
    letters: dict[int, Any] = {}
    async with (
        ShareConsumer(topic, bootstrap_servers=servers, group_id=group) as jobs,
        make_consumer(kafka) as reader,
    ):
        reader.assign([TopicPartition(dead, 0)])
        with anyio.fail_after(120):
            while len(letters) < 2:
                for records in (await jobs.getmany(timeout_ms=500)).values():
                    for record in records:
                        number = int(record.value or b"")
                        kinds = {1: AcknowledgeType.REJECT, 2: AcknowledgeType.RELEASE}
                        jobs.acknowledge(record, kinds.get(number, AcknowledgeType.ACCEPT))
                await jobs.commit()
                for found in (await reader.getmany(timeout_ms=200)).values():
                    letters |= {int(letter.value or b""): letter for letter in found}
    assert sorted(letters) == [1, 2]
    for number, letter in letters.items():
        headers = {name: value.decode() for name, value in letter.headers}
        assert headers["__dlq.errors.topic"] == topic
        assert headers["__dlq.errors.offset"] == str(number)
