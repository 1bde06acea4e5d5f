"""Transactions: the coordinator's state machine, and the answers of its APIs."""

from __future__ import annotations

import itertools
from uuid import uuid4

import pytest

from aiokafka_lead import errors
from aiokafka_lead._wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from aiokafka_lead._wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from aiokafka_lead._wire.messages.describe_transactions import DescribeTransactionsRequest
from aiokafka_lead._wire.messages.end_txn import EndTxnRequest
from aiokafka_lead._wire.messages.init_producer_id import InitProducerIdRequest
from aiokafka_lead._wire.messages.list_transactions import ListTransactionsRequest
from aiokafka_lead._wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from aiokafka_lead._wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokafka_lead._wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.testing._state.configs import TopicConfigs, TopicDefaults
from aiokafka_lead.testing._state.topics import Partition, Topic
from aiokafka_lead.testing._state.transactions import (
    END_V1,
    END_V2_CURRENT,
    END_V2_RETRY,
    EPOCH_MAX,
    EndAnswer,
    TransactionCoordinator,
    TxnState,
)

from .clock import FakeClock
from .raw import RawClient, batch, connected
from .test_log import append


class Coordinator(TransactionCoordinator):
    """A coordinator with a clock that stands still, ids from 100 on, and a record of its decisions about offsets."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.version = 2
        self.decided: list[tuple[int, bool]] = []
        ids = itertools.count(100)
        super().__init__(
            self.clock,
            lambda: 0,
            lambda: next(ids),
            lambda: self.version,
            lambda *decision: self.decided.append(decision),
            lambda transactional_id: 0,
        )

    def init(self, producer_id: int = -1, epoch: int = -1, name: str = "tx") -> tuple[int, int]:
        return self.init_producer_id(name, 1000, producer_id, epoch)

    def state(self, transactional_id: str = "tx") -> TxnState:
        return self.transactions[transactional_id].state


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def partition() -> Partition:
    return Partition(Topic("t", uuid4(), TopicConfigs({}, TopicDefaults({}))), 0, [1])


def write_to(partition: Partition, producer: tuple[int, int], sequence: int = 0) -> None:
    """Write as a leader does after asking the coordinator."""
    append(partition.log, b"v", producer_id=producer[0], epoch=producer[1], sequence=sequence, transactional=True)


def test_who_asks_again_fences_who_asked_before(coordinator: Coordinator) -> None:
    assert coordinator.init() == (100, 0)
    assert coordinator.init() == (100, 1)
    assert coordinator.init(name="other") == (101, 0)
    with pytest.raises(errors.ProducerFencedError):
        coordinator.add("tx", 100, 0)
    with pytest.raises(errors.InvalidProducerIdMappingError):
        coordinator.add("tx", 101, 0)
    with pytest.raises(errors.InvalidProducerIdMappingError):
        coordinator.add("unknown", 101, 0)
    # A producer that continues after an error sends its id and epoch (KIP-360).
    for _ in range(2):
        assert coordinator.init(100, 1) == (100, 2)
    with pytest.raises(errors.ProducerFencedError):
        coordinator.init(100, 0)
    with pytest.raises(errors.ProducerFencedError):
        coordinator.init(7, 2)
    for timeout_ms in (0, 900_001):
        with pytest.raises(errors.InvalidTransactionTimeoutError):
            coordinator.check_timeout(timeout_ms)


def test_another_coordinator_does_not_know_the_answer_before(coordinator: Coordinator) -> None:
    """The last epoch is not in the log, so the same request again seems to come from a fenced producer."""
    coordinator.init()
    assert coordinator.init(100, 0) == (100, 1)
    coordinator.coordinator_moved(lambda transactional_id: True)
    with pytest.raises(errors.ProducerFencedError):
        coordinator.init(100, 0)


@pytest.mark.parametrize(("version", "resumed"), [(1, None), (2, 1)])
def test_the_other_s_transaction_is_aborted(
    coordinator: Coordinator, partition: Partition, version: int, resumed: int | None
) -> None:
    coordinator.version = version
    producer = coordinator.init()
    coordinator.add("tx", *producer, [partition])
    write_to(partition, producer)
    assert coordinator.state() is TxnState.ONGOING
    coordinator.marker_delay_ms = 1000
    for _ in range(2):
        with pytest.raises(errors.ConcurrentTransactionsError):
            coordinator.init()
    assert coordinator.state() is TxnState.PREPARE_ABORT
    assert partition.log.last_stable_offset == 0
    coordinator.clock.advance(1)
    assert coordinator.state() is TxnState.COMPLETE_ABORT
    assert partition.log.last_stable_offset == 2
    assert len(partition.log.aborted) == 1
    # Its late records are refused: the marker has brought a newer epoch.
    with pytest.raises(errors.InvalidProducerEpochError):
        partition.log.producers.check(*producer, 1, 1, transactional=True)
    # With KIP-890 the fenced producer may regain its epoch until another one takes it.
    if resumed is None:
        with pytest.raises(errors.ProducerFencedError):
            coordinator.init(*producer)
    else:
        assert coordinator.init(*producer) == (producer[0], resumed)
    assert coordinator.init() == (producer[0], 2)


def test_what_takes_too_long_is_aborted(coordinator: Coordinator, partition: Partition) -> None:
    producer_id, epoch = coordinator.init()
    coordinator.add("tx", producer_id, epoch, [partition], ["g"])
    coordinator.clock.advance(0.9)
    assert coordinator.state() is TxnState.ONGOING
    coordinator.clock.advance(0.2)
    assert coordinator.state() is TxnState.COMPLETE_ABORT
    assert coordinator.decided == [(producer_id, False)]
    with pytest.raises(errors.ProducerFencedError):
        coordinator.end("tx", producer_id, epoch, committed=True, bump=False)
    # A repeated abort of the second version is accepted, and its answer has the new epoch.
    with pytest.raises(errors.InvalidTxnStateError):
        coordinator.end("tx", producer_id, epoch, committed=True, bump=True)
    assert coordinator.end("tx", producer_id, epoch, committed=False, bump=True) == (producer_id, epoch + 1)
    # The next transaction has a new timeout.
    coordinator.add("tx", producer_id, epoch + 1, [partition])
    coordinator.clock.advance(0.9)
    assert coordinator.state() is TxnState.ONGOING


def test_below_the_second_version_a_timeout_cannot_be_told_from_a_rival(coordinator: Coordinator) -> None:
    coordinator.version = 1
    producer = coordinator.init()
    coordinator.add("tx", *producer, groups=["g"])
    assert coordinator.time_out("tx")
    assert not coordinator.time_out("tx")
    for bump in (False, True):
        with pytest.raises((errors.ProducerFencedError, errors.InvalidTxnStateError)):
            coordinator.end("tx", *producer, committed=True, bump=bump)
    with pytest.raises(errors.ProducerFencedError):
        coordinator.init(*producer)


def test_an_end_may_be_asked_twice(coordinator: Coordinator, partition: Partition) -> None:
    producer_id, epoch = coordinator.init()
    with pytest.raises(errors.InvalidTxnStateError):
        coordinator.end("tx", producer_id, epoch, committed=True, bump=False)
    coordinator.add("tx", producer_id, epoch, [partition])
    for _ in range(2):
        assert coordinator.end("tx", producer_id, epoch, committed=True, bump=False) == (producer_id, epoch)
    with pytest.raises(errors.InvalidTxnStateError):
        coordinator.end("tx", producer_id, epoch, committed=False, bump=False)
    assert partition.log.end_offset == 1


def test_each_transaction_has_its_epoch(coordinator: Coordinator, partition: Partition) -> None:
    """KIP-890: the second version of transactions."""
    producer_id, epoch = coordinator.init()
    coordinator.add("tx", producer_id, epoch, [partition])
    for _ in range(2):
        assert coordinator.end("tx", producer_id, epoch, committed=True, bump=True) == (producer_id, epoch + 1)
    with pytest.raises(errors.ProducerFencedError):
        coordinator.add("tx", producer_id, epoch, [partition])
    assert coordinator.end("tx", producer_id, epoch + 1, committed=False, bump=True) == (producer_id, epoch + 2)
    with pytest.raises(errors.InvalidTxnStateError):
        coordinator.end("tx", producer_id, epoch + 2, committed=True, bump=True)


def in_state(coordinator: Coordinator, state: TxnState) -> tuple[int, int]:
    """Bring a transactional id into a state; return the producer's id and epoch there."""
    producer = coordinator.init()
    if state is TxnState.EMPTY:
        return producer
    coordinator.add("tx", *producer, groups=["g"])
    if state is TxnState.ONGOING:
        return producer
    coordinator.marker_delay_ms = None if state.name.startswith("PREPARE") else 0
    committed = state in (TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT)
    return coordinator.end("tx", *producer, committed=committed, bump=True)


EXPECTED = {
    EndAnswer.CONCURRENT: errors.ConcurrentTransactionsError,
    EndAnswer.INVALID: errors.InvalidTxnStateError,
    EndAnswer.FENCED: errors.ProducerFencedError,
}


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("state", TxnState)
@pytest.mark.parametrize("table", [END_V1, END_V2_CURRENT, END_V2_RETRY], ids=["v1", "v2", "v2 retry"])
def test_every_end_in_every_state(
    coordinator: Coordinator, table: dict[tuple[TxnState, bool], EndAnswer], state: TxnState, committed: bool
) -> None:
    producer_id, epoch = in_state(coordinator, state)
    assert coordinator.state() is state
    asked = epoch - 1 if table is END_V2_RETRY else epoch

    def end() -> tuple[int, int]:
        return coordinator.end("tx", producer_id, asked, committed=committed, bump=table is not END_V1)

    match answer := table.get((state, committed), EndAnswer.CONCURRENT):
        case EndAnswer.PREPARE:
            assert end() == (producer_id, epoch + (table is not END_V1))
            done = TxnState.COMPLETE_COMMIT if committed else TxnState.COMPLETE_ABORT
            assert coordinator.state() is done
        case EndAnswer.DONE:
            assert end() == (producer_id, epoch)
            assert coordinator.state() is state
        case _:
            with pytest.raises(EXPECTED[answer]):
                end()
            assert coordinator.state() is state


def test_a_producer_without_epochs_left_gets_another_id(coordinator: Coordinator) -> None:
    coordinator.init()
    coordinator.transactions["tx"].epoch = EPOCH_MAX
    assert coordinator.init() == (101, 0)


def test_the_last_epoch_s_end_brings_another_id_and_may_be_asked_twice(coordinator: Coordinator) -> None:
    coordinator.init()
    coordinator.transactions["tx"].epoch = EPOCH_MAX
    coordinator.add("tx", 100, EPOCH_MAX, groups=["g"])
    coordinator.marker_delay_ms = None
    assert coordinator.end("tx", 100, EPOCH_MAX, committed=True, bump=True) == (101, 0)
    with pytest.raises(errors.ConcurrentTransactionsError):
        coordinator.end("tx", 100, EPOCH_MAX, committed=True, bump=True)
    coordinator.write_markers()
    assert coordinator.decided == [(100, True)]
    for _ in range(2):
        assert coordinator.end("tx", 100, EPOCH_MAX, committed=True, bump=True) == (101, 0)
    with pytest.raises(errors.InvalidTxnStateError):
        coordinator.end("tx", 100, EPOCH_MAX, committed=False, bump=True)
    coordinator.add("tx", 101, 0, groups=["g"])
    with pytest.raises(errors.InvalidProducerIdMappingError):
        coordinator.end("tx", 100, EPOCH_MAX, committed=True, bump=True)


def test_a_resumed_producer_without_epochs_left_may_ask_twice(coordinator: Coordinator) -> None:
    coordinator.init()
    coordinator.transactions["tx"].epoch = EPOCH_MAX
    for _ in range(2):
        assert coordinator.init(100, EPOCH_MAX) == (101, 0)
    with pytest.raises(errors.ProducerFencedError):
        coordinator.init(100, EPOCH_MAX)


def test_nothing_is_added_while_the_markers_are_on_their_way(coordinator: Coordinator, partition: Partition) -> None:
    coordinator.marker_delay_ms = None
    producer = coordinator.init()
    coordinator.add("tx", *producer, [partition])
    write_to(partition, producer)
    producer = coordinator.end("tx", *producer, committed=True, bump=True)
    with pytest.raises(errors.ConcurrentTransactionsError):
        coordinator.add("tx", *producer, [partition])
    assert partition.log.last_stable_offset == 0
    coordinator.write_markers()
    assert partition.log.last_stable_offset == 2
    coordinator.add("tx", *producer, [partition])


def test_the_first_sequence_of_an_epoch_is_0(partition: Partition) -> None:
    """KIP-890, even for an unknown producer."""
    producers = partition.log.producers
    producers.begin_verification(5, 0, 1, from_zero=False)
    assert producers.check(5, 0, 1, 1, transactional=True) is None
    producers.begin_verification(6, 0, 1, from_zero=True)
    with pytest.raises(errors.OutOfOrderSequenceNumberError):
        producers.check(6, 0, 1, 1, transactional=True)


def test_a_later_batch_waits_for_the_one_that_was_refused(partition: Partition) -> None:
    """Whatever the first answer was, the later batch must wait until the first batch is repeated."""
    producers = partition.log.producers
    for sequence in (3, 4):
        producers.begin_verification(5, 0, sequence, from_zero=False)
    with pytest.raises(errors.OutOfOrderSequenceNumberError):
        producers.check(5, 0, 4, 1, transactional=True)
    assert producers.check(5, 0, 3, 1, transactional=True) is None
    write_to(partition, (5, 0), 3)
    assert not producers.begin_verification(5, 0, 4, from_zero=False)
    assert producers.check(5, 0, 4, 1, transactional=True) is None


# --- over the wire ---------------------------------------------------------------------------------------------------


async def write(client: RawClient, producer_id: int, epoch: int, sequence: int, version: int = 12) -> int:
    records = batch(b"v", producer_id=producer_id, epoch=epoch, sequence=sequence, transactional=True)
    data = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        transactional_id="tx", acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )
    return (await client.call(request, version)).responses[0].partition_responses[0].error_code


def commit_offset(cluster: EmbeddedCluster, producer_id: int, epoch: int, offset: int) -> TxnOffsetCommitRequest:
    position = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
    return TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(topic_id=cluster.topic_id("t"), partitions=[position])],
    )


@pytest.mark.anyio
async def test_a_transaction_of_the_second_version() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        began = await client.call(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000))
        producer_id, epoch = began.producer_id, began.producer_epoch
        # Before version 12 of Produce the partition has to be added first.
        assert await write(client, producer_id, epoch, 0, version=11) == errors.TransactionAbortableError.code
        assert await write(client, producer_id, epoch, 0, version=10) == errors.InvalidTxnStateError.code
        assert await write(client, producer_id, epoch, 0) == 0
        committed = await client.call(commit_offset(cluster, producer_id, epoch, 7))
        assert committed.topics[0].partitions[0].error_code == 0

        async def position(stable: bool) -> tuple[int, int]:
            wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
            group = OffsetFetchRequestGroup(group_id="g", topics=[wanted])
            response = await client.call(OffsetFetchRequest(groups=[group], require_stable=stable), 9)
            found = response.groups[0].topics[0].partitions[0]
            return found.error_code, found.committed_offset

        assert await position(stable=False) == (0, -1)
        assert await position(stable=True) == (errors.UnstableOffsetCommitError.code, -1)
        described = await client.call(DescribeTransactionsRequest(transactional_ids=["tx", "no"]))
        assert [state.error_code for state in described.transaction_states] == [
            0,
            errors.TransactionalIdNotFoundError.code,
        ]
        assert described.transaction_states[0].transaction_state == "Ongoing"
        assert described.transaction_states[0].topics[0].partitions == [0]
        producers = await client.call(DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])]))
        [producer] = producers.topics[0].partitions[0].active_producers
        assert (producer.producer_id, producer.last_sequence, producer.current_txn_start_offset) == (producer_id, 0, 0)
        request = EndTxnRequest(transactional_id="tx", producer_id=producer_id, producer_epoch=epoch, committed=True)
        ended = await client.call(request)
        assert (ended.producer_id, ended.producer_epoch) == (producer_id, epoch + 1)
        assert await position(stable=True) == (0, 7)
        assert await write(client, producer_id, epoch, 1) == errors.InvalidProducerEpochError.code
        assert await write(client, producer_id, epoch + 1, 0) == 0
        listed = await client.call(ListTransactionsRequest(state_filters=["Ongoing", "Odd"]))
        assert [state.transactional_id for state in listed.transaction_states] == ["tx"]
        assert listed.unknown_state_filters == ["Odd"]


@pytest.mark.anyio
async def test_partitions_are_added_all_or_none() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        began = await client.call(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000))

        async def add(*topics: str, version: int, epoch: int = 0) -> list[int]:
            wanted = [AddPartitionsToTxnTopic(name=topic, partitions=[0]) for topic in topics]
            if version >= 4:
                txn = AddPartitionsToTxnTransaction(
                    transactional_id="tx", producer_id=began.producer_id, producer_epoch=epoch, topics=wanted
                )
                response = await client.call(AddPartitionsToTxnRequest(transactions=[txn]), version)
                results = response.results_by_transaction[0].topic_results
            else:
                request = AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id="tx",
                    v3_and_below_producer_id=began.producer_id,
                    v3_and_below_producer_epoch=epoch,
                    v3_and_below_topics=wanted,
                )
                results = (await client.call(request, version)).results_by_topic_v3_and_below
            return [result.results_by_partition[0].partition_error_code for result in results]

        not_attempted, unknown = errors.OperationNotAttemptedError.code, errors.UnknownTopicOrPartitionError.code
        for version in (3, 5):
            assert await add("t", "no", version=version) == [not_attempted, unknown]
            assert await add("t", version=version) == [0]
        assert await add("t", version=5, epoch=9) == [errors.ProducerFencedError.code]
        assert await add("t", version=1, epoch=9) == [errors.InvalidProducerEpochError.code]
        assert await write(client, began.producer_id, 0, 0, version=11) == 0


@pytest.mark.anyio
async def test_a_transactional_id_has_its_coordinator() -> None:
    async with EmbeddedCluster(brokers=2) as cluster:
        codes = []
        for broker in cluster.broker_ids:
            async with connected(cluster.address(broker)) as client:
                request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
                codes.append((await client.call(request)).error_code)
        assert sorted(codes) == [0, errors.NotCoordinatorError.code]
