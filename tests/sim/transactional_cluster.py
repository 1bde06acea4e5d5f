"""Brokers with transactions: logs with markers, and a coordinator that moves with its state, and may answer late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any, ClassVar, cast

from aiokafka_lead._records import read_batches
from aiokafka_lead._wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from aiokafka_lead._wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from aiokafka_lead._wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from aiokafka_lead._wire.messages.fetch import AbortedTransaction, PartitionData
from aiokafka_lead._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aiokafka_lead.errors import (
    BrokerError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    InvalidProducerEpochError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    ProducerFencedError,
    TransactionAbortableError,
)
from aiokafka_lead.testing._state.batch import transactional_header
from aiokafka_lead.testing._state.log import PartitionLog
from aiokafka_lead.testing._state.transactions import EPOCH_MAX, TransactionCoordinator
from tests.core.fetch_world import data
from tests.simulated.codes import NOT_LEADER_OR_FOLLOWER
from tests.simulated.partition import Partition
from tests.simulated.timeline import Timeline
from tests.transactions.history import Value

from .cluster import TOPIC, Cluster, FaultyBroker, Refusal

COMMIT_MARKER = 1


class _Clock:
    """The timeline, in the coordinator's form."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def now(self) -> float:
        return self._timeline.now

    def call_at(self, when: float, call: Callable[[], None]) -> Any:
        wanted = [call]

        def due() -> None:
            for each in wanted:
                each()

        self._timeline.later(max(0.0, when - self._timeline.now), due)
        return SimpleNamespace(cancel=wanted.clear)


class TransactionalPartition(Partition):
    """A log with transactions, markers included."""

    def __init__(self, index: int, leader: int, touched: Callable[[], None]) -> None:
        super().__init__(index, leader)
        self.stored = PartitionLog()
        self.notify = touched
        self._committed: tuple[int, list[Value]] = 0, []
        """The end of the log, and the committed records up to it."""

    @property
    def end(self) -> int:
        return self.stored.end_offset

    def row(self, offset: int, max_bytes: int) -> PartitionData:
        stable = self.stored.last_stable_offset
        chunks: list[bytes] = []
        if max_bytes > 0:
            chunks, _ = self.stored.read(offset, max_bytes, committed_only=True, at_least_one=True)
        row = data(self.index, b"".join(chunks), high_watermark=self.end)
        row.last_stable_offset = stable
        row.aborted_transactions = [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in self.stored.aborted_in(offset, stable)
        ]
        return row

    def committed(self) -> list[Value]:
        """Committed records in the order of the log, derived from its markers alone."""
        if self._committed[0] != self.end:
            self._committed = self.end, self._derive_committed()
        return self._committed[1]

    def _derive_committed(self) -> list[Value]:
        open_ones: dict[int, list[tuple[int, Value]]] = defaultdict(list)
        found: list[tuple[int, Value]] = []
        for stored in self.stored.batches:
            (batch,) = read_batches(memoryview(stored.data))
            if not batch.is_control:
                columns = batch.columns()
                values = map(Value.decoded, columns.values)
                open_ones[batch.producer_id] += zip(columns.offsets, values, strict=True)
            else:
                ended = open_ones.pop(batch.producer_id, [])
                found += ended if batch.control_type() == COMMIT_MARKER else []
        return [value for _, value in sorted(found)]


class _Target:
    """A partition, in the coordinator's form."""

    topic = SimpleNamespace(deleted=False)
    leader_epoch = 0

    def __init__(self, partition: TransactionalPartition) -> None:
        self.log = partition.stored
        self.notify = partition.notify


class TransactionalCluster(Cluster):
    """All transactional ids have one coordinator, on one broker at a time."""

    def __init__(self, timeline: Timeline, brokers: int, partitions: int, *, v2: bool) -> None:
        super().__init__(timeline, brokers, partitions)
        self.v2 = v2
        self.coordinator = 1
        self._loaded_at = 0.0
        """Time from which the coordinator knows its transactions again, after a move."""
        self.epochs = 0
        """Number of its moves."""
        self.late_share = 0.0
        """Share of requests to the coordinator whose connections are lost; the requests arrive nevertheless, later."""
        self.given_ids = 0
        """Number of producer ids handed out."""
        self._producer_ids = count(1000)
        self.transactions = TransactionCoordinator(
            cast("Any", _Clock(timeline)),
            lambda: round(timeline.now * 1000),
            self._next_producer_id,
            lambda: 2 if v2 else 1,
            lambda producer_id, committed: None,
            lambda transactional_id: self.epochs,
        )
        self._targets = [_Target(partition) for partition in self.logs]

    def _next_producer_id(self) -> int:
        self.given_ids += 1
        return next(self._producer_ids)

    def _partition(self, index: int, leader: int) -> Partition:
        return TransactionalPartition(index, leader, self.touched)

    @property
    def logs(self) -> list[TransactionalPartition]:
        return cast("list[TransactionalPartition]", self.partitions)

    def _row(self, partition: Partition, offset: int, max_bytes: int) -> PartitionData:
        return self.logs[partition.index].row(offset, max_bytes)

    # --- faults of the coordinator -----------------------------------------------------------------------------------

    def move_coordinator(self) -> None:
        """Move the coordinator to another broker, which must read the state first."""
        running = [broker.broker_id for broker in self.running()]
        if running:
            self.coordinator = self.timeline.rng.choice(running)
            self._loaded_at = self.timeline.now + self.timeline.rng.uniform(0, 0.05)
            self.epochs += 1
            self.transactions.coordinator_moved(lambda transactional_id: True)

    def _fail_over(self) -> None:
        super()._fail_over()
        if not self.brokers[self.coordinator].running:
            self.move_coordinator()

    def use_epochs_up(self, transactional_id: str) -> None:
        """Leave only a few epochs before a producer starts, so that it soon gets another producer id."""
        self.transactions.init_producer_id(transactional_id, 1000, -1, -1)
        self.transactions.transactions[transactional_id].epoch = EPOCH_MAX - 5

    def calm(self) -> None:
        super().calm()
        self.late_share = 0.0
        self.transactions.marker_delay_ms = 0
        self.transactions.write_markers()

    # --- answers of brokers ------------------------------------------------------------------------------------------

    def ask_coordinator(self, broker: FaultyBroker, request: Any, version: int) -> Any:
        """Return the answer of a broker that may be the coordinator."""
        try:
            self._check_coordinates(broker)
            return self._answers[type(request)](self, request, version)
        except BrokerError as error:
            return _refused(request, error)

    def _check_coordinates(self, broker: FaultyBroker) -> None:
        if broker.broker_id != self.coordinator:
            raise NotCoordinatorError
        if self.timeline.now < self._loaded_at:
            raise CoordinatorLoadInProgressError

    def _init(self, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
        identity = self.transactions.init_producer_id(
            request.transactional_id or "", request.transaction_timeout_ms, request.producer_id, request.producer_epoch
        )
        return InitProducerIdResponse(producer_id=identity[0], producer_epoch=identity[1])

    def _add(self, request: AddPartitionsToTxnRequest, version: int) -> AddPartitionsToTxnResponse:
        [topic] = request.v3_and_below_topics
        self.transactions.add(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            cast("Any", [self._targets[index] for index in topic.partitions]),
        )
        return _added(request, 0)

    def _end(self, request: EndTxnRequest, version: int) -> EndTxnResponse:
        bump = version >= 5
        identity = self.transactions.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            committed=request.committed,
            bump=bump,
        )
        return EndTxnResponse(producer_id=identity[0], producer_epoch=identity[1]) if bump else EndTxnResponse()

    def _describe(self, request: DescribeTransactionsRequest, version: int) -> DescribeTransactionsResponse:
        [transactional_id] = request.transactional_ids
        txn = self.transactions.transactions[transactional_id]
        described = TransactionState(
            transactional_id=transactional_id,
            transaction_state=txn.state.value,
            producer_id=txn.producer_id,
            producer_epoch=txn.epoch,
        )
        return DescribeTransactionsResponse(transaction_states=[described])

    _answers: ClassVar[dict[type, Callable[[TransactionalCluster, Any, int], Any]]] = {
        InitProducerIdRequest: _init,
        AddPartitionsToTxnRequest: _add,
        EndTxnRequest: _end,
        DescribeTransactionsRequest: _describe,
    }

    def append(self, broker: FaultyBroker, partition: Partition, raw: memoryview) -> tuple[int, int, Refusal | None]:
        refusal = self.refusal(broker, partition)
        if refusal is not None:
            return NOT_LEADER_OR_FOLLOWER, -1, refusal
        try:
            return 0, self._append(self.logs[partition.index], raw), None
        except BrokerError as error:
            return error.code, -1, None

    def _append(self, partition: TransactionalPartition, raw: memoryview) -> int:
        """Return the base offset, after the checks of a partition's leader and of the coordinator before an append."""
        header = transactional_header(raw)
        assert header is not None
        producer = header.producer_id, header.producer_epoch
        producers = partition.stored.producers
        if producers.begin_verification(*producer, header.base_sequence, from_zero=self.v2):
            self._verify(partition, *producer)
        known = producers.check(*producer, header.base_sequence, header.record_count, transactional=True)
        if known is not None:
            return known.base_offset
        offset = partition.stored.append(raw, header, partition.epoch, None).base_offset
        self.touched()
        return offset

    def _verify(self, partition: TransactionalPartition, producer_id: int, epoch: int) -> None:
        target = cast("Any", self._targets[partition.index])
        found = [t for t in self.transactions.transactions.values() if t.producer_id == producer_id]
        if not found or self.timeline.now < self._loaded_at or not self.brokers[self.coordinator].running:
            raise NotEnoughReplicasError if found else InvalidProducerEpochError
        try:
            if self.v2:
                self.transactions.add(found[0].transactional_id, producer_id, epoch, [target])
            elif target not in self.transactions.verified(found[0].transactional_id, producer_id, epoch).partitions:
                raise TransactionAbortableError
        except ProducerFencedError as error:
            raise InvalidProducerEpochError from error
        except ConcurrentTransactionsError as error:
            if self.v2:
                raise
            raise NotEnoughReplicasError from error


def _added(request: AddPartitionsToTxnRequest, error_code: int) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error_code)
        for index in request.v3_and_below_topics[0].partitions
    ]
    topic = AddPartitionsToTxnTopicResult(name=TOPIC, results_by_partition=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])


def _refused(request: Any, error: BrokerError) -> Any:
    if isinstance(request, AddPartitionsToTxnRequest):
        return _added(request, error.code)
    if isinstance(request, DescribeTransactionsRequest):
        state = TransactionState(transactional_id=request.transactional_ids[0], error_code=error.code)
        return DescribeTransactionsResponse(transaction_states=[state])
    return type(request).RESPONSE(error_code=error.code)
