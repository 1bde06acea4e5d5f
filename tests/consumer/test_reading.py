"""Records as the application receives them."""

from __future__ import annotations

import json
import random
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead import Producer, TopicPartition
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.errors import CorruptBatchError, IllegalStateError, KafkaError, RecordDeserializationError
from aiokafka_lead.testing import EmbeddedCluster

from .support import E0, E1, E2, consumer_of, fill, numbers, take, values

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


async def test_every_partition_is_read_in_its_order(cluster: EmbeddedCluster) -> None:
    for partition in range(3):
        await fill(cluster, values(100), partition=partition)
    async with consumer_of(cluster, "events") as consumer:
        found = await take(consumer, 300)
        assert consumer.assignment() == {E0, E1, E2}
        assert consumer.subscription() == {"events"}
    for partition in range(3):
        assert numbers([record for record in found if record.partition == partition]) == list(range(100))


async def test_a_record_has_all_that_was_written(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        headers = [("h", b"1"), ("h", None)]
        await producer.send_and_wait("events", b"v", key=b"k", partition=1, timestamp_ms=12345, headers=headers)
    async with consumer_of(cluster, "events") as consumer:
        record = await consumer.getone()
    assert (record.topic, record.partition, record.offset) == ("events", 1, 0)
    assert (record.key, record.value, record.timestamp_ms) == (b"k", b"v", 12345)
    assert record.headers == (("h", b"1"), ("h", None))
    assert record.leader_epoch == 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_compressed_batches(cluster: EmbeddedCluster, codec: str) -> None:
    await fill(cluster, values(500), compression_type=codec)
    async with consumer_of(cluster, "events") as consumer:
        assert numbers(await take(consumer, 500)) == list(range(500))


async def test_a_loop_that_was_left_goes_on_behind_its_last_record(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    async with consumer_of(cluster, "events") as consumer:
        assert numbers(await take(consumer, 3)) == [0, 1, 2]
        assert await consumer.position(E0) == 3
        assert int((await consumer.getone()).value) == 3
        assert numbers(await take(consumer, 2)) == [4, 5]
        assert int((await anext(consumer)).value) == 6
        (rest,) = (await consumer.getmany(timeout_ms=0)).values()
        assert numbers(rest) == [7, 8, 9]
        assert await consumer.position(E0) == 10


async def test_getmany(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(50))
    await fill(cluster, values(50), partition=1)
    async with consumer_of(cluster, "events") as consumer:
        got: dict[TopicPartition, list[int]] = {E0: [], E1: []}
        while sum(map(len, got.values())) < 100:
            for tp, records in (await consumer.getmany(timeout_ms=20_000, max_records=7)).items():
                assert 0 < len(records) <= 7
                got[tp] += numbers(records)
        assert got == {E0: list(range(50)), E1: list(range(50))}
        assert await consumer.getmany(timeout_ms=1) == {}
        assert await consumer.getmany() == {}


async def test_getmany_of_some_partitions(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(5))
    await fill(cluster, values(5), partition=1)
    async with consumer_of(cluster, "events") as consumer:
        found = await consumer.getmany(E1, timeout_ms=20_000)
        assert list(found) == [E1]
        assert int((await consumer.getone(E0)).value) == 0


async def test_max_poll_records_bounds_getmany(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(20))
    async with consumer_of(cluster, "events", max_poll_records=6) as consumer:
        sizes = [len((await consumer.getmany(timeout_ms=20_000))[E0]) for _ in range(4)]
    assert sizes == [6, 6, 6, 2]


async def test_batches(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(100), batch_size=300)
    async with consumer_of(cluster, "events", value_deserializer=int, max_poll_records=60) as consumer:
        got: list[int] = []
        count = 0
        async for batch in consumer.batches():
            assert (batch.topic, batch.partition, batch.base_offset) == ("events", 0, len(got))
            assert batch.offsets == list(range(len(got), len(got) + len(batch)))
            assert 27 < len(batch) <= 60  # two of its batches in the log
            got += batch.values
            count += 1
            assert await consumer.position(E0) == len(got)
            if len(got) == 100:
                break
    assert got == list(range(100))
    assert count > 1


async def test_deserializers(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b'{"a": 1}', key=b"k", partition=0)
        await producer.send_and_wait("events", None, key=None, partition=0)
    consumer = consumer_of(cluster, "events", key_deserializer=bytes.decode, value_deserializer=json.loads)
    async with consumer:
        found = await take(consumer, 2)
    assert [(record.key, record.value) for record in found] == [("k", {"a": 1}), (None, None)]


async def test_what_cannot_be_deserialized_can_be_passed(cluster: EmbeddedCluster) -> None:
    await fill(cluster, [b"1", b"two", b"3"])
    await fill(cluster, [b"4"], partition=1)
    async with consumer_of(cluster, "events", value_deserializer=int) as consumer:
        got: list[int] = []
        errors: list[RecordDeserializationError] = []
        positions: list[int] = []
        while len(got) < 3:
            try:
                async for record in consumer:
                    got.append(record.value)
                    if len(got) == 3:
                        break
            except RecordDeserializationError as error:
                errors.append(error)
                positions.append(await consumer.position(E0))
                if len(errors) == 2:
                    consumer.seek(E0, error.offset + 1)
    assert sorted(got) == [1, 3, 4]
    assert errors[0].record.value == b"two"
    assert [error.offset for error in errors] == positions == [1, 1]


async def test_a_corrupt_batch_can_be_passed(cluster: EmbeddedCluster) -> None:
    await fill(cluster, [b"fine"])
    await fill(cluster, [b"one", b"needle", b"three"])
    await fill(cluster, [b"after"])
    cluster.faults.add("Fetch", after=True, garbage=lambda answer: answer.replace(b"needle", b"nee0le"))
    async with consumer_of(cluster, "events") as consumer:
        assert (await consumer.getone()).value == b"fine"
        for _ in range(2):
            with pytest.raises(CorruptBatchError, match=r"events-0 cannot be read at offset 1.*to offset 4") as caught:
                await consumer.getone()
            assert caught.value.next_offset == 4
        consumer.seek(E0, 4)
        assert (await consumer.getone()).value == b"after"


async def test_without_checksums_it_is_the_applications_risk(cluster: EmbeddedCluster) -> None:
    await fill(cluster, [b"needle"])
    cluster.faults.add("Fetch", after=True, garbage=lambda answer: answer.replace(b"needle", b"nee0le"))
    async with consumer_of(cluster, "events", check_crcs=False) as consumer:
        assert (await consumer.getone()).value == b"nee0le"


async def test_a_cancelled_read_loses_nothing(cluster: EmbeddedCluster) -> None:
    """Reads are cancelled at any moment, while records arrive."""
    rng = random.Random(5)
    count = 400
    got: list[int] = []
    async with consumer_of(cluster, "events") as consumer, anyio.create_task_group() as tasks:

        async def write() -> None:
            async with Producer(cluster.bootstrap_servers, linger_ms=0) as producer:
                for value in values(count):
                    await producer.send_and_wait("events", value, partition=0)

        tasks.start_soon(write)
        while len(got) < count:
            with anyio.move_on_after(rng.random() * 0.003):
                if rng.random() < 0.5:
                    got.append(int((await consumer.getone()).value))
                else:
                    for records in (await consumer.getmany(timeout_ms=1000, max_records=3)).values():
                        got += numbers(records)
    assert got == list(range(count))


async def test_others_run_while_buffered_records_are_read(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(20_000), batch_size=100_000)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.lowlevel.checkpoint()
            ticks += 1

    async with consumer_of(cluster, "events") as consumer, anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        await take(consumer, 20_000)
        before = ticks
        await consumer.seek_to_beginning()
        async for _ in consumer.batches():
            break
        assert ticks > before > 5
        tasks.cancel_scope.cancel()


async def test_one_task_reads_at_a_time(cluster: EmbeddedCluster) -> None:
    async with consumer_of(cluster, "events") as consumer, anyio.create_task_group() as tasks:
        refused = anyio.Event()

        async def read(mine: anyio.CancelScope) -> None:
            with mine:
                try:
                    await consumer.getone()
                except IllegalStateError:
                    refused.set()

        scopes = [anyio.CancelScope(), anyio.CancelScope()]
        for scope in scopes:
            tasks.start_soon(read, scope)
        with anyio.fail_after(20):
            await refused.wait()
        for scope in scopes:
            scope.cancel()


async def test_a_background_failure_reaches_the_reader(cluster: EmbeddedCluster) -> None:
    raised: list[KafkaError] = []
    async with consumer_of(cluster, "events") as consumer, anyio.create_task_group() as tasks:
        done = anyio.Event()

        async def read() -> None:
            try:
                async for _ in consumer:
                    pass
            except KafkaError as error:
                raised.append(error)
                done.set()

        async def fail() -> None:
            raise ZeroDivisionError("a bug")

        tasks.start_soon(read)
        await cluster.wait_for_requests("Fetch")
        consumer._client.spawn(fail, name="some task")
        with anyio.fail_after(20):
            await done.wait()
        with pytest.raises(KafkaError, match="some task"):
            await consumer.getone()
    assert "ZeroDivisionError" in str(raised[0])


async def test_memory_is_bounded(cluster: EmbeddedCluster) -> None:
    """The buffer stays within fetch_max_bytes, which each broker's answer may exceed by one batch."""
    bound, batch_size = 30_000, 5_000
    for partition in range(3):
        await fill(cluster, [b"x" * 1000] * 300, partition=partition, batch_size=batch_size)
    options: dict[str, Any] = {"fetch_max_bytes": bound, "max_partition_fetch_bytes": 10_000}
    most = 0
    got: dict[int, list[int]] = {0: [], 1: [], 2: []}
    async with consumer_of(cluster, "events", **options) as consumer:
        for _ in range(900):
            record = await consumer.getone()
            got[record.partition].append(record.offset)
            most = max(most, consumer.metrics().buffered_bytes)
            if record.offset % 10 == 0:
                await anyio.sleep(0.001)
        assert consumer.metrics().buffered_bytes <= 2 * batch_size
    assert batch_size < most <= bound + 3 * batch_size
    assert got == {partition: list(range(300)) for partition in range(3)}


async def test_a_reader_in_want_is_served_though_others_fill_the_memory(cluster: EmbeddedCluster) -> None:
    options: dict[str, Any] = {"fetch_max_bytes": 20_000, "max_partition_fetch_bytes": 10_000, "fetch_max_wait_ms": 20}
    for partition in (0, 1):
        await fill(cluster, [b"x" * 1000] * 40, partition=partition, batch_size=5000)
    async with consumer_of(cluster, "events", **options) as consumer:
        with anyio.fail_after(20):
            for wanted in (E0, E1, E0):
                got = 0
                while got < 20:
                    got += len((await consumer.getmany(wanted, timeout_ms=10_000)).get(wanted, []))
                    if wanted == E0 and await consumer.position(E0) == 40:
                        break


async def test_metrics(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    async with consumer_of(cluster, "events") as consumer:
        await take(consumer, 4)
        metrics = consumer.metrics()
        assert metrics.records_consumed == 4
        assert metrics.bytes_fetched > 0
        assert metrics.fetches >= 3
        row = metrics.partitions[E0]
        assert (row.position, row.high_watermark, row.lag, row.log_start_offset) == (4, 10, 6, 0)
        assert consumer.highwater(E0) == consumer.last_stable_offset(E0) == 10


async def test_typed_consumers_are_made_as_generics(cluster: EmbeddedCluster) -> None:
    await fill(cluster, [b"7"])
    consumer = Consumer[bytes, int](
        "events", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", value_deserializer=int
    )
    async with consumer:
        record = await consumer.getone()
        assert record.value + 1 == 8
