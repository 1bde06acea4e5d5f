"""Transactions on a real Apache Kafka, as readers see them, under any faults."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, Producer, TopicPartition
from aiokafka_lead._wire import ApiKey
from aiokafka_lead._wire.messages.describe_transactions import DescribeTransactionsRequest
from aiokafka_lead._wire.messages.find_coordinator import FindCoordinatorRequest
from aiokafka_lead.errors import KafkaError, ProducerFencedError, TransactionAbortedError
from tests.testing.raw import connected
from tests.transactions.history import History, Value
from tests.transactions.trouble import Writer

from .cut_proxy import CutProxy
from .harness import KafkaCluster
from .probes import World
from .support import by_partition, confluent_read, in_thread, make_producer, read_topic
from .transaction_probes import level

pytestmark = pytest.mark.anyio

PARTITIONS = 6
TRANSACTIONS = 40
"""Number of transactions; `long_transactions.py` writes more, under faults."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop suffices: the embedded cluster's tests run on both."""
    return "asyncio"


def _upper(name: str) -> str:
    """Return an API's name in the form of `ApiKey`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


async def write(producer: Producer, topic: str, count: int, rng: random.Random) -> dict[int, list[bytes]]:
    """Write transactions of a few records, abort about a quarter of them; return the committed values by partition."""
    committed: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    for number in range(count):
        records = [(rng.randrange(PARTITIONS), b"%d-%d" % (number, i)) for i in range(rng.randrange(1, 12))]
        await producer.begin_transaction()
        for partition, value in records:
            await producer.send(topic, value, partition=partition)
        if rng.random() < 0.25:
            if rng.random() < 0.5:
                await producer.flush()
            await producer.abort_transaction()
            continue
        await producer.commit_transaction()
        for partition, value in records:
            committed[partition].append(value)
    return committed


async def check(kafka: KafkaCluster, topic: str, committed: dict[int, list[bytes]]) -> None:
    """Check that readers of committed records, ours and another, see these in order."""
    count = sum(map(len, committed.values()))
    seen = by_partition(await read_topic(kafka, topic, PARTITIONS, count, isolation_level="read_committed"))
    assert {p: [r.value for r in seen.get(p, ())] for p in committed} == committed
    others: dict[int, list[Any]] = {partition: [] for partition in range(PARTITIONS)}
    options = {"isolation.level": "read_committed"}
    for message in await in_thread(confluent_read, kafka, topic, PARTITIONS, **options):
        others[message.partition() or 0].append(message.value())
    assert others == committed


@pytest.mark.parametrize(("release", "version"), [("kafka", 2), ("kafka_old", 1)])
async def test_what_was_committed_is_seen_in_order(
    request: pytest.FixtureRequest, release: str, version: int, topic_name: Callable[[], str]
) -> None:
    kafka: KafkaCluster = request.getfixturevalue(release)
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=PARTITIONS)
    with CutProxy(kafka.bootstrap()) as proxy:
        async with make_producer(kafka, bootstrap_servers=proxy.bootstrap, transactional_id=topic) as producer:
            committed = await write(producer, topic, TRANSACTIONS, random.Random(1))
            assert producer.transaction_health().version == version
    await check(kafka, topic, committed)
    asked = {name: {v for (api, v) in proxy.asked if api == ApiKey[_upper(name)]} for name in LOST}
    if version == 2:
        assert min(asked["Produce"]) >= 12
        assert asked["EndTxn"] == {5}
        assert not asked["AddPartitionsToTxn"]
    else:
        assert max(asked["Produce"]) <= 11
        assert max(asked["EndTxn"]) < 5
        assert asked["AddPartitionsToTxn"] == {3}


@pytest.mark.parametrize("lower", [0, 1])
async def test_the_feature_is_raised_while_a_producer_runs(
    kafka: KafkaCluster, lower: int, topic_name: Callable[[], str]
) -> None:
    """It learns of the change with its next new connection."""
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=PARTITIONS)
    world, rng, to_lose = World(kafka.bootstrap()), random.Random(3), [ApiKey.END_TXN]
    await world.topic(world.name())
    with CutProxy(kafka.bootstrap()) as proxy:
        options = {"bootstrap_servers": proxy.bootstrap, "transactional_id": topic, "retry_backoff_ms": 20}
        async with level(world, lower):
            producer = make_producer(kafka, **options)
            await producer.start()
            committed = await write(producer, topic, 5, rng)
            assert producer.transaction_health().version == 1
        proxy.loses = lambda api: api in to_lose and to_lose.pop() == api
        for _ in range(2):
            for partition, values in (await write(producer, topic, 5, rng)).items():
                committed[partition] += values
        assert producer.transaction_health().version == 2
        await producer.stop()
    await check(kafka, topic, committed)


LOST = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "Produce")


@pytest.mark.parametrize("release", ["kafka", "kafka_old"])
@pytest.mark.parametrize("kind", ["loses", "delays"])
async def test_lost_answers_and_late_requests_change_no_transaction(
    request: pytest.FixtureRequest, release: str, kind: str, topic_name: Callable[[], str]
) -> None:
    """KAFKA-17754: a late EndTxn must not end another transaction than its own."""
    kafka: KafkaCluster = request.getfixturevalue(release)
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=PARTITIONS)
    rng, keys = random.Random(7), {ApiKey[_upper(name)] for name in LOST}
    history = History()
    with CutProxy(kafka.bootstrap()) as proxy:
        setattr(proxy, kind, lambda api: api in keys and rng.random() < 0.1)
        writer = Writer(0, proxy.bootstrap, history, random.Random(2), topic)
        await writer.run(30, retry_backoff_ms=20)
    messages = await in_thread(confluent_read, kafka, topic, PARTITIONS, **{"isolation.level": "read_committed"})
    ours = by_partition(await read_topic(kafka, topic, PARTITIONS, len(messages), isolation_level="read_committed"))
    theirs: dict[int, list[Value]] = {partition: [] for partition in range(PARTITIONS)}
    for message in messages:
        theirs[message.partition() or 0].append(Value.decoded(message.value()))
    history.reads = [{p: [Value.decoded(r.value) for r in ours[p]] for p in ours}, theirs]
    assert history.findings() == []
    assert sum(written.outcome == "committed" for written in history.written.values()) >= 10


@pytest.mark.parametrize("release", ["kafka", "kafka_old"])
async def test_who_starts_later_fences_who_started_before(
    request: pytest.FixtureRequest, release: str, topic_name: Callable[[], str]
) -> None:
    kafka: KafkaCluster = request.getfixturevalue(release)
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=PARTITIONS)
    async with make_producer(kafka, transactional_id=topic) as zombie:
        await zombie.begin_transaction()
        await zombie.send_and_wait(topic, b"of the zombie", partition=0)
        async with make_producer(kafka, transactional_id=topic) as rightful:
            async with rightful.transaction() as txn:
                await txn.send(topic, b"right", partition=0)
            with pytest.raises(KafkaError):
                await zombie.send_and_wait(topic, b"again", partition=0)
            with pytest.raises((ProducerFencedError, TransactionAbortedError)):
                await zombie.commit_transaction()
            with pytest.raises(ProducerFencedError):
                await zombie.begin_transaction()
            async with rightful.transaction() as txn:
                await txn.send(topic, b"undisturbed", partition=0)
    await check(kafka, topic, {0: [b"right", b"undisturbed"], **{p: [] for p in range(1, PARTITIONS)}})


@pytest.mark.parametrize("release", ["kafka", "kafka_old"])
async def test_offsets_are_part_of_the_transaction(
    request: pytest.FixtureRequest, release: str, topic_name: Callable[[], str]
) -> None:
    kafka: KafkaCluster = request.getfixturevalue(release)
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=PARTITIONS)
    here = TopicPartition(topic, 0)
    options: dict[str, Any] = {"group_id": topic, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    async with (
        make_producer(kafka, transactional_id=topic) as producer,
        Consumer(topic, bootstrap_servers=kafka.bootstrap(), **options) as consumer,
    ):
        async with producer.transaction() as txn:
            await txn.send_offsets({here: 5}, consumer.group_metadata())  # before the first record
            await txn.send(topic, b"a", partition=0)
        assert (await consumer.committed(here)).offset == 5  # type: ignore[union-attr]
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({here: 9}, consumer.group_metadata())
        await producer.abort_transaction()
        assert (await consumer.committed(here)).offset == 5  # type: ignore[union-attr]
        out = consumer.group_metadata()
    async with make_producer(kafka, transactional_id=topic) as producer:
        await producer.begin_transaction()
        with pytest.raises(KafkaError):
            await producer.send_offsets_to_transaction({here: 7}, out)
        await producer.abort_transaction()
        async with producer.transaction() as txn:
            await txn.send(topic, b"b", partition=0)


@pytest.mark.parametrize("release", ["kafka", "kafka_old"])
async def test_a_transaction_that_takes_too_long_is_survived(
    request: pytest.FixtureRequest, release: str, topic_name: Callable[[], str]
) -> None:
    """The coordinator looks every ten seconds, without an event."""
    kafka: KafkaCluster = request.getfixturevalue(release)
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=PARTITIONS)
    async with make_producer(kafka, transactional_id=topic, transaction_timeout_ms=6000) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"late", partition=0)
        await until_timed_out(kafka, topic)
        with pytest.raises(TransactionAbortedError):
            await producer.commit_transaction()
        async with producer.transaction() as txn:
            await txn.send(topic, b"in time", partition=0)
    await check(kafka, topic, {0: [b"in time"], **{p: [] for p in range(1, PARTITIONS)}})


async def until_timed_out(kafka: KafkaCluster, transactional_id: str) -> None:
    """Wait until the coordinator has no open transaction of this id."""
    async with connected(kafka.bootstrap().split(",")[0]) as client:
        found = await client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id]), 4)
    coordinator = found.coordinators[0]
    async with connected(f"{coordinator.host}:{coordinator.port}") as client:
        for _ in range(900):
            answer = await client.call(DescribeTransactionsRequest(transactional_ids=[transactional_id]))
            if answer.transaction_states[0].transaction_state == "CompleteAbort":
                return
            await anyio.sleep(0.1)
    raise AssertionError("the coordinator keeps the transaction open for 90 s")
