"""Faults during a transaction: it is wholly committed or wholly aborted, and the caller learns the outcome."""

from __future__ import annotations

import pytest

from aiokafka_lead import ConsumerGroupMetadata, Producer, TopicPartition
from aiokafka_lead.errors import (
    BrokerError,
    CommitFailedError,
    CommitOutcomeUnknownError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    IllegalGenerationError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    OutOfOrderSequenceNumberError,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionalIdAuthorizationFailedError,
    UnknownProducerIdError,
    UnknownServerError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import ID, committed, transactional

pytestmark = pytest.mark.anyio

PASSING = (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)


async def write(producer: Producer, value: bytes, partition: int = 0) -> None:
    """Write one record in a transaction."""
    async with producer.transaction() as txn:
        await txn.send("events", value, partition=partition)


async def offsets_and_commit(producer: Producer) -> None:
    await producer.send_offsets_to_transaction({TopicPartition("events", 0): 1}, "group")
    await producer.commit_transaction()


@pytest.mark.parametrize("error", PASSING)
async def test_errors_that_pass_cost_nothing_but_time(cluster: EmbeddedCluster, error: type[BrokerError]) -> None:
    apis = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
    faults = [cluster.faults.add(api, error_code=error, count=2) for api in apis]
    async with transactional(cluster) as producer:
        async with producer.transaction() as txn:
            await txn.send("events", b"a", partition=0)
            await txn.send_offsets({TopicPartition("events", 0): 7}, "group")
        await write(producer, b"b")
    assert sum(fault.struck for fault in faults) >= 6
    assert await committed(cluster) == {0: [b"a", b"b"], 1: [], 2: []}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("api", ["InitProducerId", "AddPartitionsToTxn", "Produce", "TxnOffsetCommit", "EndTxn"])
async def test_a_lost_answer_changes_nothing(cluster: EmbeddedCluster, api: str, after: bool) -> None:
    """The connection is reset before or after the request has taken effect."""
    cluster.faults.add(api, disconnect=True, after=after, count=1, client_id="ours")
    async with transactional(cluster, client_id="ours") as producer:
        for number in range(3):
            async with producer.transaction() as txn:
                await txn.send("events", b"%d" % number, partition=number)
                await txn.send_offsets({TopicPartition("events", 0): number}, "group")
        await producer.begin_transaction()
        await producer.send_and_wait("events", b"never", partition=0)
        await producer.abort_transaction()
        await write(producer, b"last")
    assert await committed(cluster) == {0: [b"0", b"last"], 1: [b"1"], 2: [b"2"]}


@pytest.mark.parametrize("transaction_version", [1])
@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"])
async def test_without_kip_890_a_lost_answer_ends_the_epoch(cluster: EmbeddedCluster, api: str) -> None:
    """KAFKA-17754: late requests from this epoch cannot affect the next transaction."""
    async with transactional(cluster, client_id="ours") as producer:
        await write(producer, b"a")
        before = producer.transaction_health().producer_epoch
        cluster.faults.add(api, disconnect=True, after=True, count=1, client_id="ours")
        async with producer.transaction() as txn:
            await txn.send("events", b"b", partition=1)
            await txn.send_offsets({TopicPartition("events", 0): 1}, "group")
        await write(producer, b"c")
        assert producer.transaction_health().producer_epoch == before + 1
    assert await committed(cluster) == {0: [b"a", b"c"], 1: [b"b"], 2: []}


@pytest.mark.parametrize(
    "error",
    [
        InvalidProducerEpochError,
        InvalidTxnStateError,
        OutOfOrderSequenceNumberError,
        TopicAuthorizationFailedError,
        TransactionAbortableError,
        UnknownProducerIdError,
    ],
)
async def test_a_batch_that_is_refused_fails_its_transaction_alone(
    cluster: EmbeddedCluster, error: type[BrokerError]
) -> None:
    async with transactional(cluster) as producer:
        await write(producer, b"a")
        cluster.faults.add("Produce", error_code=error, count=1)
        with pytest.raises(TransactionAbortedError) as caught:
            await write(producer, b"b")
        assert isinstance(caught.value.__cause__, error)
        for value in (b"c", b"d"):
            await write(producer, value)
    assert await committed(cluster) == {0: [b"a", b"c", b"d"], 1: [], 2: []}


@pytest.mark.parametrize("error", [ConcurrentTransactionsError, NotEnoughReplicasError])
async def test_a_batch_that_the_transaction_before_keeps_out_is_sent_again(
    cluster: EmbeddedCluster, error: type[BrokerError]
) -> None:
    async with transactional(cluster) as producer:
        cluster.faults.add("Produce", error_code=error, count=3)
        async with producer.transaction() as txn:
            for partition in range(3):
                await txn.send("events", b"a", partition=partition)
        await write(producer, b"b")
    assert await committed(cluster) == {0: [b"a", b"b"], 1: [b"a"], 2: [b"a"]}


@pytest.mark.parametrize(
    "error", [InvalidTxnStateError, TransactionAbortableError, UnknownProducerIdError, InvalidProducerIdMappingError]
)
@pytest.mark.parametrize(
    ("transaction_version", "api"),
    [(1, "AddPartitionsToTxn"), (1, "AddOffsetsToTxn"), (1, "TxnOffsetCommit"), (2, "TxnOffsetCommit")],
)
async def test_what_is_refused_entry_fails_the_transaction(
    cluster: EmbeddedCluster, api: str, error: type[BrokerError]
) -> None:
    cluster.faults.add(api, error_code=error, count=1)
    async with transactional(cluster) as producer:
        await producer.begin_transaction()
        await producer.send("events", b"a", partition=0)
        with pytest.raises(KafkaError):
            await offsets_and_commit(producer)
        await producer.abort_transaction()
        await write(producer, b"b")
    assert await committed(cluster) == {0: [b"b"], 1: [], 2: []}


async def test_a_member_that_is_out_cannot_commit(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("TxnOffsetCommit", error_code=IllegalGenerationError, count=1)
    async with transactional(cluster) as producer:
        await producer.begin_transaction()
        with pytest.raises(CommitFailedError):
            await producer.send_offsets_to_transaction(
                {TopicPartition("events", 0): 1}, ConsumerGroupMetadata("group", 3, "member")
            )
        with pytest.raises(TransactionAbortedError):
            await producer.commit_transaction()
        request = cluster.requests.select("TxnOffsetCommit")[-1].request
        assert (request.generation_id_or_member_epoch, request.member_id) == (3, "member")


@pytest.mark.parametrize("error", [InvalidTxnStateError, TransactionAbortableError, UnknownProducerIdError])
async def test_a_commit_that_is_refused_is_an_abort(cluster: EmbeddedCluster, error: type[BrokerError]) -> None:
    async with transactional(cluster) as producer:
        cluster.faults.add("EndTxn", error_code=error, count=1)
        with pytest.raises(TransactionAbortedError):
            await write(producer, b"a")
        await write(producer, b"b")
    assert await committed(cluster) == {0: [b"b"], 1: [], 2: []}


async def test_a_commit_that_may_not_be_is_said_so_and_can_be_aborted(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as producer:
        cluster.faults.add("EndTxn", error_code=TransactionalIdAuthorizationFailedError, count=1)
        with pytest.raises(TransactionalIdAuthorizationFailedError):
            await write(producer, b"a")
        await producer.abort_transaction()
        await write(producer, b"b")
    assert await committed(cluster) == {0: [b"b"], 1: [], 2: []}


@again_if_late(1_000, 8_000)
async def test_an_outcome_that_is_not_known_in_time_is_learnt_by_the_next_call(
    time_ms: int, cluster: EmbeddedCluster
) -> None:
    cluster.faults.clear()  # from the first attempt
    written = {partition: len(values) for partition, values in (await committed(cluster)).items()}
    async with transactional(cluster, max_block_ms=time_ms, request_timeout_ms=0.8 * time_ms) as producer:
        fault = cluster.faults.add("EndTxn", error_code=UnknownServerError)
        with pytest.raises(CommitOutcomeUnknownError):
            await write(producer, b"a")
        with pytest.raises(KafkaError):
            await producer.abort_transaction()
        fault.remove()
        await producer.commit_transaction()
        fault = cluster.faults.add("EndTxn", error_code=UnknownServerError)
        with pytest.raises(CommitOutcomeUnknownError):
            await write(producer, b"b", 1)
        fault.remove()
        await write(producer, b"c", 2)
    found = {partition: values[written[partition] :] for partition, values in (await committed(cluster)).items()}
    assert found == {0: [b"a"], 1: [b"b"], 2: [b"c"]}


async def test_a_transaction_that_takes_too_long_is_survived(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("events", b"a", partition=0)
        assert cluster.transactions.time_out(ID)
        with pytest.raises(TransactionAbortedError, match="older than transaction_timeout_ms, 60000"):
            await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.send_and_wait("events", b"b", partition=0)
        assert cluster.transactions.time_out(ID)
        with pytest.raises(KafkaError):
            await producer.send_and_wait("events", b"b", partition=0)
        await producer.abort_transaction()
        await write(producer, b"c")
    assert await committed(cluster) == {0: [b"c"], 1: [], 2: []}


async def test_markers_that_take_time_hold_up_the_next_transaction_and_nothing_else(cluster: EmbeddedCluster) -> None:
    cluster.transactions.marker_delay_ms = 30
    async with transactional(cluster) as producer:
        for number in range(6):
            async with producer.transaction() as txn:
                for partition in range(3):
                    await txn.send("events", b"%d" % number, partition=partition)
            if number % 3 == 1:
                await producer.begin_transaction()
                await producer.send_and_wait("events", b"never", partition=0)
                await producer.abort_transaction()
    expected = [b"%d" % number for number in range(6)]
    assert await committed(cluster) == {0: expected, 1: expected, 2: expected}


async def test_the_coordinator_moves_at_each_step(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as producer:
        for number in range(4):
            await producer.begin_transaction()
            cluster.transactions.move_coordinator(ID)
            await producer.send("events", b"%d" % number, partition=0)
            cluster.transactions.move_coordinator(ID)
            await producer.send_offsets_to_transaction({TopicPartition("events", 0): number}, "group")
            cluster.transactions.move_coordinator(ID)
            await producer.commit_transaction()
            cluster.transactions.move_coordinator(ID)
    assert await committed(cluster) == {0: [b"0", b"1", b"2", b"3"], 1: [], 2: []}


async def test_the_feature_is_raised_and_lowered(transaction_version: int) -> None:
    """A client learns of it when it connects; each transaction ends in the version that it began in."""
    async with EmbeddedCluster(brokers=1, features={"transaction.version": transaction_version}) as cluster:
        cluster.create_topic("events", partitions=3)
        async with transactional(cluster) as producer:
            for level in (1, 2, 1, 2):
                await write(producer, b"a")
                await producer.begin_transaction()
                await producer.send_and_wait("events", b"b", partition=1)
                cluster.set_feature("transaction.version", level)
                cluster.faults.add("EndTxn", disconnect=True, count=1)
                version = producer.transaction_health().version
                await producer.commit_transaction()
                assert producer.transaction_health().version == version
            await write(producer, b"a")
        assert await committed(cluster) == {0: [b"a"] * 5, 1: [b"b"] * 4, 2: []}


async def test_epochs_are_used_up(cluster: EmbeddedCluster, transaction_version: int) -> None:
    async with transactional(cluster) as producer:
        await write(producer, b"a")
        view = cluster.transactions.view(ID)
        assert view is not None
        first = view.producer_id
    cluster.transactions.use_epochs_up_to(ID, 32_763)
    async with transactional(cluster) as producer:
        for number in range(6):
            await write(producer, b"%d" % number)
        view = cluster.transactions.view(ID)
        assert view is not None
        assert transaction_version == 1 or view.producer_id != first
    assert (await committed(cluster))[0] == [b"a", *(b"%d" % number for number in range(6))]
