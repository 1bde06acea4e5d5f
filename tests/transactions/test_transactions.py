"""Transactions as an application writes them: committed and aborted records, and errors of calls."""

from __future__ import annotations

import gc
import time
import weakref

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead import Producer, TopicPartition
from aiokafka_lead._io.transactions.additions import HELD_S
from aiokafka_lead.errors import (
    BrokerError,
    CommitOutcomeUnknownError,
    ConcurrentTransactionsError,
    ConfigError,
    CoordinatorLoadInProgressError,
    IllegalStateError,
    InvalidRecordError,
    MessageTooLargeError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionalIdAuthorizationFailedError,
    TransactionTimedOutError,
)
from aiokafka_lead.testing import EmbeddedCluster

from .support import ID, committed, transactional

pytestmark = pytest.mark.anyio


async def fail_in_transaction(producer: Producer) -> None:
    async with producer.transaction() as txn:
        await txn.send_and_wait("events", b"never", partition=0)
        raise ZeroDivisionError


async def test_what_is_committed_is_seen_and_what_is_aborted_is_not(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as producer:
        async with producer.transaction() as txn:
            await txn.send("events", b"one", partition=0)
            txn.send_nowait("events", b"two", partition=1)
            batch = await txn.send_many("events", [b"three", b"four"], partition=2)
        assert batch.done()
        with pytest.raises(ZeroDivisionError):
            await fail_in_transaction(producer)
        await producer.begin_transaction()
        await producer.send("events", b"five", partition=0)
        await producer.commit_transaction()
        await producer.begin_transaction()
        delivery = await producer.send("events", b"neither", partition=1)
        await producer.abort_transaction()
        with pytest.raises(TransactionAbortedError, match=r"never sent|may have been written"):
            await delivery
    assert await committed(cluster) == {0: [b"one", b"five"], 1: [b"two"], 2: [b"three", b"four"]}


async def test_the_requests_are_those_of_the_version(cluster: EmbeddedCluster, transaction_version: int) -> None:
    async with transactional(cluster) as producer:
        for number in range(3):
            async with producer.transaction() as txn:
                await txn.send("events", b"%d" % number, partition=number)
                await txn.send_offsets({TopicPartition("events", 0): number}, "group")
    seen = {
        api: {record.version for record in cluster.requests.select(api)}
        for api in ("Produce", "EndTxn", "TxnOffsetCommit", "AddPartitionsToTxn", "AddOffsetsToTxn")
    }
    if transaction_version == 2:
        assert min(seen["Produce"]) >= 12
        assert seen["EndTxn"] == seen["TxnOffsetCommit"] == {5}
        assert not seen["AddPartitionsToTxn"]
        assert not seen["AddOffsetsToTxn"]
    else:
        assert max(seen["Produce"]) == 11
        assert max(seen["EndTxn"]) == 4
        assert max(seen["AddPartitionsToTxn"]) == 3
        assert seen["AddOffsetsToTxn"]
    assert cluster.requests.count("EndTxn") == 3


async def test_nothing_is_sent_before_the_transaction_before_has_its_markers(cluster: EmbeddedCluster) -> None:
    """Otherwise the coordinator would refuse a broker, which would wait far longer before asking again."""
    sent: list[int] = []

    async def write_markers(version: int, began: float) -> None:
        await cluster.requests.wait_for("DescribeTransactions" if version == 2 else "AddPartitionsToTxn", count=2)
        if time.monotonic() < began + HELD_S:  # else this process was stopped, and the client goes on
            sent.append(cluster.requests.count("Produce"))
        cluster.transactions.marker_delay_ms = 0
        cluster.transactions.write_markers()

    rounds = 0
    async with transactional(cluster) as producer:
        while len(sent) < 3 and rounds < 30:
            rounds += 1
            cluster.transactions.marker_delay_ms = None
            async with producer.transaction() as txn:
                await txn.send("events", b"one", partition=0)
            cluster.requests.clear()
            async with anyio.create_task_group() as group:
                group.start_soon(write_markers, producer.transaction_health().version, time.monotonic())
                async with producer.transaction() as txn:
                    await txn.send("events", b"two", partition=0)
                    await txn.send("events", b"three", partition=1)
    assert {*sent} == {0}
    assert await committed(cluster) == {0: [b"one", b"two"] * rounds, 1: [b"three"] * rounds, 2: []}


@pytest.mark.parametrize("error", [TransactionalIdAuthorizationFailedError, CoordinatorLoadInProgressError])
async def test_a_coordinator_that_does_not_say_how_far_it_is_holds_nothing_up_for_long(
    cluster: EmbeddedCluster, error: type[BrokerError]
) -> None:
    cluster.faults.add("DescribeTransactions", error_code=error)
    async with transactional(cluster) as producer:
        for number in range(2):
            async with producer.transaction() as txn:
                await txn.send("events", b"%d" % number, partition=0)
    assert await committed(cluster) == {0: [b"0", b"1"], 1: [], 2: []}


@pytest.mark.parametrize("transaction_version", [2], ids=["v2"], indirect=True)
async def test_on_a_commit_the_answer_of_a_broker_sends_to_the_next_one(cluster: EmbeddedCluster) -> None:
    """It does so in the turn of the event loop in which it arrives: another turn costs as much as several records."""
    seen: list[int] = []
    async with transactional(cluster, linger_ms=1000) as producer:
        for _ in range(2):  # the first one opens the connections
            async with producer.transaction() as txn:
                for partition in range(3):
                    delivery = await txn.send("events", b"a", partition=partition)
                    delivery.add_done_callback(lambda _: seen.append(producer.metrics().requests))
    sent_before = seen[2]
    assert [requests - sent_before for requests in seen[3:]] == [2, 3, 3]


async def test_an_empty_transaction_asks_nothing(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as producer:
        async with producer.transaction():
            pass
        await producer.begin_transaction()
        await producer.abort_transaction()
    assert cluster.requests.count("EndTxn") == 0


async def test_a_failed_send_forbids_the_commit_though_nobody_awaited_it(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as producer:
        cluster.faults.add("Produce", topic="events", partition=1, error_code=InvalidRecordError, count=1)
        await producer.begin_transaction()
        await producer.send("events", b"good", partition=0)
        await producer.send("events", b"bad", partition=1)
        with pytest.raises(TransactionAbortedError) as caught:
            await producer.commit_transaction()
        assert isinstance(caught.value.__cause__, InvalidRecordError)
        async with producer.transaction() as txn:
            await txn.send("events", b"again", partition=1)
    assert await committed(cluster) == {0: [], 1: [b"again"], 2: []}


async def test_a_send_that_raises_forbids_the_commit_though_the_block_goes_on(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster, max_request_size=2000) as producer:
        txn = producer.transaction()
        await txn.__aenter__()
        await txn.send("events", b"good", partition=0)
        with pytest.raises(MessageTooLargeError):
            await txn.send("events", bytes(3000), partition=0)
        with pytest.raises(TransactionAbortedError):
            await txn.__aexit__(None, None, None)
        async with producer.transaction() as txn:
            with pytest.raises(ConfigError):
                await txn.send("events", b"wrong", partition=99)
            await txn.send("events", b"right", partition=0)
    assert await committed(cluster) == {0: [b"right"], 1: [], 2: []}


async def test_after_a_failure_sends_raise_at_once(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as producer:
        cluster.faults.add("Produce", topic="events", error_code=InvalidRecordError, count=1)
        await producer.begin_transaction()
        with pytest.raises(InvalidRecordError):
            await producer.send_and_wait("events", b"bad", partition=0)
        with pytest.raises(TransactionAbortedError):
            await producer.send("events", b"late", partition=0)
        with pytest.raises(TransactionAbortedError):
            producer.send_nowait("events", b"late", partition=0)
        with pytest.raises(IllegalStateError):
            await producer.begin_transaction()
        with pytest.raises(TransactionAbortedError):
            await producer.commit_transaction()
        await producer.abort_transaction()  # as Java's users do after a failed commit
        await producer.begin_transaction()
        await producer.commit_transaction()


async def test_sends_belong_into_a_transaction(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as producer:
        async with producer.transaction() as txn:
            await txn.send("events", b"in", partition=0)
        for call in (txn.send, producer.send, txn.send_and_wait):
            with pytest.raises(IllegalStateError, match="no transaction is open"):
                await call("events", b"out", partition=0)
        with pytest.raises(IllegalStateError):
            await producer.send_many("events", [b"out"], partition=0)
        for end in (producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(IllegalStateError, match="no transaction is open"):
                await end()
        await producer.begin_transaction()
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            txn.send_nowait("events", b"of the one before", partition=0)
        await producer.commit_transaction()
    assert await committed(cluster) == {0: [b"in"], 1: [], 2: []}


async def test_a_send_that_waits_beyond_the_end_is_not_part_of_the_next_transaction(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster, allow_auto_create_topics=False) as producer:
        await producer.begin_transaction()
        raised: list[BaseException] = []

        async def send_late() -> None:
            try:
                await producer.send("later", b"of the first")
            except IllegalStateError as error:
                raised.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(send_late)
            await anyio.lowlevel.checkpoint()
            await producer.abort_transaction()
            await producer.begin_transaction()
            await cluster.create_topic("later")
        await producer.commit_transaction()
        assert raised
    assert cluster.end_offset("later") == 0


async def test_who_starts_later_fences_who_started_before(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as zombie:
        await zombie.begin_transaction()
        await zombie.send_and_wait("events", b"of the zombie", partition=0)
        async with transactional(cluster) as rightful:
            async with rightful.transaction() as txn:
                await txn.send("events", b"right", partition=0)
            await zombie.send("events", b"again", partition=0)
            with pytest.raises((ProducerFencedError, TransactionAbortedError)):
                await zombie.commit_transaction()
            for _ in range(2):
                with pytest.raises(ProducerFencedError, match=ID):
                    await zombie.begin_transaction()
            assert zombie.transaction_health().phase == "fenced"
            async with rightful.transaction() as txn:
                await txn.send("events", b"undisturbed", partition=0)
    assert await committed(cluster) == {0: [b"right", b"undisturbed"], 1: [], 2: []}


async def test_stop_aborts(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("events", b"unfinished", partition=0)
    view = cluster.transactions.view(ID)
    assert view is not None
    assert view.state == "CompleteAbort"


@pytest.mark.parametrize("refused_before", [False, True])
async def test_who_waits_for_a_commit_hears_of_the_stop(cluster: EmbeddedCluster, *, refused_before: bool) -> None:
    """For a commit requested once, and for one that a task of the producer requests again."""
    producer = transactional(cluster)
    await producer.start()
    if refused_before:
        cluster.faults.add("EndTxn", error_code=ConcurrentTransactionsError, count=1)
    await producer.begin_transaction()
    await producer.send("events", b"one", partition=0)
    unanswered = cluster.faults.add("EndTxn", hold=True, skip=int(refused_before))

    async def commit() -> None:
        with pytest.raises(CommitOutcomeUnknownError):
            await producer.commit_transaction()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(commit)
            await cluster.requests.wait_for("EndTxn", count=1 + refused_before)
            with anyio.fail_after(20):
                await producer.stop(timeout_ms=50)
    finally:
        unanswered.release()


async def test_a_block_is_gone_when_it_has_ended(cluster: EmbeddedCluster) -> None:
    """Without the garbage collector, which would have much to do between consecutive transactions."""
    async with transactional(cluster) as producer:
        async with producer.transaction() as txn:
            await txn.send("events", b"one", partition=0)
            txn.send_nowait("events", b"two", partition=0)
        gone = weakref.ref(txn)
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            del txn
            assert gone() is None
        finally:
            if was_enabled:
                gc.enable()


async def test_options(cluster: EmbeddedCluster) -> None:
    for wrong in ({"acks": 1}, {"enable_idempotence": False}, {"transaction_timeout_ms": 0}, {"transactional_id": ""}):
        with pytest.raises(ConfigError):
            transactional(cluster, **wrong)
    plain = Producer(cluster.bootstrap_servers)
    with pytest.raises(IllegalStateError, match="transactional_id"):
        plain.transaction()


async def test_each_call_has_a_timeout_of_its_own(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, transactional_id=ID, max_block_ms=120_000) as producer:
        await producer.begin_transaction()
        await producer.send("events", b"1")
        held = cluster.faults.add("EndTxn", hold=True)
        with anyio.fail_after(20):
            with pytest.raises(CommitOutcomeUnknownError):
                await producer.commit_transaction(timeout_ms=300)
            with pytest.raises(CommitOutcomeUnknownError):
                await producer.begin_transaction(timeout_ms=50)
        held.remove()
        await producer.commit_transaction()
        await producer.begin_transaction()
        offsets = cluster.faults.add("TxnOffsetCommit", drop=True)
        with anyio.fail_after(20), pytest.raises(TransactionTimedOutError, match="in 50 ms"):
            await producer.send_offsets_to_transaction({TopicPartition("events", 0): 1}, "g", timeout_ms=50)
        offsets.remove()
        await producer.abort_transaction()
    assert [value for values in (await committed(cluster)).values() for value in values] == [b"1"]
