"""`Consumer.run` with ``exactly_once``: every record is handled, and its handler's sends count once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, ConsumerRecord, Producer, TopicPartition
from aiokafka_lead.errors import (
    CommitFailedError,
    ConfigError,
    HandlerError,
    IllegalGenerationError,
    IllegalStateError,
    MessageTooLargeError,
    ProducerFencedError,
)
from aiokafka_lead.testing import EmbeddedCluster

from .support import committed, transactional

pytestmark = pytest.mark.anyio

Record = ConsumerRecord[Any, Any]
COUNT = 90
EXPECTED = {partition: [b"%d" % number for number in range(partition, COUNT, 3)] for partition in range(3)}
QUICK: dict[str, Any] = {"retry_backoff_ms": 5, "max_transaction_ms": 20}


@pytest.fixture
def transaction_version() -> int:
    """A single version for most tests here; other files test the effects of the version."""
    return 2


class CannotHandleError(Exception):
    """Error raised by handlers here."""


def member(cluster: EmbeddedCluster, **options: Any) -> Consumer:
    options = {"group_id": "copiers", "auto_offset_reset": "earliest", **options}
    return Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **options)


async def fill(cluster: EmbeddedCluster) -> None:
    for topic in ("copies", "letters"):
        cluster.create_topic(topic, partitions=3)
    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(COUNT):
            await producer.send("events", b"%d" % number, b"%d" % (number % 7), partition=number % 3)


async def until_done(cluster: EmbeddedCluster, *consumers: Consumer) -> None:
    """Stop the consumers once the group has committed all of the topic."""
    ends = {TopicPartition("events", partition): COUNT // 3 for partition in range(3)}
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id="copiers") as looks:
        with anyio.fail_after(60):
            for tp, end in ends.items():
                while True:
                    seen = cluster.requests.count("EndTxn")
                    found = await looks.committed(tp)
                    if found is not None and found.offset >= end:
                        break
                    await cluster.wait_for_requests("EndTxn", count=seen + 1)
    for consumer in consumers:
        await consumer.stop()


async def copy(record: Record, txn: Any) -> None:
    await txn.send("copies", record.value, record.key, partition=record.partition)


async def copy_all(cluster: EmbeddedCluster, handle: Any = copy, **options: Any) -> None:
    async with (
        transactional(cluster) as producer,
        member(cluster) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(until_done, cluster, consumer)
        await consumer.run(handle, exactly_once=producer, **{**QUICK, **options})


async def ordered(cluster: EmbeddedCluster) -> bool:
    return await committed(cluster, "copies") == EXPECTED


@pytest.mark.parametrize("transaction_version", [2, 1])
async def test_what_handlers_send_is_there_once(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    await copy_all(cluster, order="partition", max_transaction_records=10)
    assert await ordered(cluster)
    assert cluster.requests.count("OffsetCommit") == 0


async def test_by_key_each_key_keeps_its_order(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    await copy_all(cluster, concurrency=8)
    copies = await committed(cluster, "copies")
    assert {partition: Counter(values) for partition, values in copies.items()} == {
        partition: Counter(values) for partition, values in EXPECTED.items()
    }
    for values in copies.values():
        for key in range(7):
            numbers = [int(value or b"") for value in values if int(value or b"") % 7 == key]
            assert numbers == sorted(numbers)


async def test_a_record_whose_handler_fails_is_handled_again_with_its_transaction(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    seen: Counter[int] = Counter()

    async def handle(record: Record, txn: Any) -> None:
        await copy(record, txn)
        seen[int(record.value)] += 1
        if int(record.value) % 40 == 11 and seen[int(record.value)] < 3:
            raise CannotHandleError

    await copy_all(cluster, handle, order="partition")
    assert await ordered(cluster)
    assert min(seen[11], seen[51]) >= 3


async def test_dead_letters_are_part_of_the_transaction(cluster: EmbeddedCluster) -> None:
    await fill(cluster)

    async def handle(record: Record, txn: Any) -> None:
        await copy(record, txn)  # does not count
        if int(record.value) in (31, 32):
            raise CannotHandleError

    await copy_all(cluster, handle, order="partition", retries=1, dead_letter_topic="letters")
    copies = await committed(cluster, "copies")
    letters = await committed(cluster, "letters")
    assert copies == {p: [value for value in values if value not in (b"31", b"32")] for p, values in EXPECTED.items()}
    assert sorted(value or b"" for values in letters.values() for value in values) == [b"31", b"32"]


@pytest.mark.both_loops
async def test_a_dead_letter_that_is_too_large_ends_the_run(cluster: EmbeddedCluster) -> None:
    """The same letter would be made again and again."""
    cluster.create_topic("letters", partitions=3)
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"x" * 5_000)

    async def handle(record: Record, txn: Any) -> None:
        raise CannotHandleError

    async with transactional(cluster, max_request_size=2_000) as producer, member(cluster) as consumer:
        with anyio.fail_after(20), pytest.raises(HandlerError, match="was not accepted by letters") as caught:
            await consumer.run(handle, exactly_once=producer, retries=0, dead_letter_topic="letters", **QUICK)
    assert isinstance(caught.value.__cause__, MessageTooLargeError)


async def test_without_dead_letters_the_run_ends(cluster: EmbeddedCluster) -> None:
    await fill(cluster)

    async def handle(record: Record, txn: Any) -> None:
        await copy(record, txn)
        if record.offset == 20:
            raise CannotHandleError

    async with transactional(cluster) as producer, member(cluster) as consumer:
        with pytest.raises(HandlerError) as caught:
            await consumer.run(handle, exactly_once=producer, retries=1, **QUICK)
        assert caught.value.attempts == 2
        assert caught.value.record.offset == 20
    copies = await committed(cluster, "copies")
    assert all(values == EXPECTED[p][: len(values)] and len(values) <= 20 for p, values in copies.items())
    await copy_all(cluster, order="partition")
    assert await ordered(cluster)


async def test_a_fenced_producer_ends_the_run(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    async with transactional(cluster) as producer, member(cluster) as consumer:

        async def handle(record: Record, txn: Any) -> None:
            async with transactional(cluster):
                pass
            await copy(record, txn)

        with pytest.raises(ProducerFencedError):
            await consumer.run(handle, exactly_once=producer, concurrency=1, max_transaction_records=1)
    await copy_all(cluster, order="partition")
    assert await ordered(cluster)


async def test_aborts_that_no_handler_causes_are_bounded(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    async with transactional(cluster) as producer, member(cluster) as consumer:
        cluster.faults.add("TxnOffsetCommit", error_code=IllegalGenerationError)
        with pytest.raises(CommitFailedError):
            await consumer.run(copy, exactly_once=producer, transaction_retries=2, **QUICK)
        assert cluster.requests.count("TxnOffsetCommit") == 3
        cluster.faults.clear()
    await copy_all(cluster, order="partition")
    assert await ordered(cluster)


async def test_two_cancelled_runs_lose_and_repeat_nothing(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    async with transactional(cluster) as producer, member(cluster) as consumer:
        for at in (15, 50):
            with anyio.CancelScope() as scope:

                async def handle(record: Record, txn: Any, scope: anyio.CancelScope = scope, at: int = at) -> None:
                    await copy(record, txn)
                    if int(record.value) >= at:
                        scope.cancel()

                await consumer.run(handle, exactly_once=producer, order="partition", max_transaction_records=7)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(until_done, cluster, consumer)
            await consumer.run(copy, exactly_once=producer, order="partition", **QUICK)
    assert await ordered(cluster)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_members_come_and_go(cluster: EmbeddedCluster, protocol: Any) -> None:
    await fill(cluster)
    first, second, third = (member(cluster, group_protocol=protocol) for _ in range(3))

    async def work(number: int, consumer: Consumer) -> None:
        seen = 0

        async def handle(record: Record, txn: Any) -> None:
            nonlocal seen
            await copy(record, txn)
            await anyio.sleep(0.005)
            seen += 1
            if number < 2 and seen == 12:
                leave[number].set()

        async with transactional(cluster, transactional_id=f"copier-{number}") as producer, consumer:
            await consumer.run(
                handle, exactly_once=producer, order="partition", max_transaction_records=8, max_transaction_ms=30
            )

    async def go(number: int, consumer: Consumer) -> None:
        await leave[number].wait()
        await consumer.stop()

    leave = [anyio.Event(), anyio.Event()]
    async with anyio.create_task_group() as tasks:
        for number, consumer in enumerate((first, second, third)):
            tasks.start_soon(work, number, consumer)
        tasks.start_soon(go, 0, first)
        await until_done(cluster, second, third)
        for event in leave:
            event.set()
    assert await ordered(cluster)


async def test_nothing_else_may_commit(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    async with transactional(cluster) as producer, member(cluster) as consumer:

        async def handle(record: Record, txn: Any) -> None:
            await consumer.commit()

        with pytest.raises(HandlerError) as caught:
            await consumer.run(handle, exactly_once=producer, retries=0)
        assert isinstance(caught.value.__cause__, IllegalStateError)


async def test_what_it_needs(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as plain, member(cluster) as consumer:
        with pytest.raises(ConfigError, match="transactional_id"):
            await consumer.run(copy, exactly_once=plain)
    alone = Consumer("events", bootstrap_servers=cluster.bootstrap_servers)
    async with transactional(cluster) as producer, alone:
        with pytest.raises(IllegalStateError, match="group_id"):
            await alone.run(copy, exactly_once=producer)
    async with transactional(cluster, value_serializer=str.encode) as producer, member(cluster) as consumer:
        with pytest.raises(ConfigError, match="serializers"):
            await consumer.run(copy, exactly_once=producer, dead_letter_topic="letters")


async def test_batches_by_hand(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    copied = aborted = 0
    async with (
        transactional(cluster) as producer,
        member(cluster, max_poll_records=10, enable_auto_commit=False) as consumer,
    ):
        async for batch in consumer.batches():
            fails = aborted * 2 <= copied
            try:
                async with producer.transaction() as txn:
                    await txn.send_many("copies", batch.values, batch.keys, partition=batch.partition)
                    await txn.commit_batch(batch)
                    if fails:
                        raise CannotHandleError
            except CannotHandleError:
                aborted += len(batch)
            else:
                copied += len(batch)
            if copied == COUNT:
                break
    assert aborted
    assert await ordered(cluster)
