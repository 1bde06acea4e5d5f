"""A consumer's policy without I/O: tests inspect plans, write the answers, and set the time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar
from uuid import UUID

from aiokafka_lead._core.consumer.deserializers import Deserializers
from aiokafka_lead._core.consumer.fetch_answer import AnswerOptions, AnswerReader, FetchOutcome
from aiokafka_lead._core.consumer.fetch_plan import FetchLimits, FetchPlanner, PlannedFetch
from aiokafka_lead._core.consumer.fetched import DEFAULT_JOINED_RECORDS, FetchedData, NotLoaded
from aiokafka_lead._core.consumer.followers import Followers
from aiokafka_lead._core.consumer.partition_state import PartitionState
from aiokafka_lead._core.consumer.position import Position
from aiokafka_lead._core.consumer.positions import Positions
from aiokafka_lead._core.consumer.prefetch import Prefetch
from aiokafka_lead._core.consumer.reading import ConsumerCounters
from aiokafka_lead._core.consumer.reset_policy import EARLIEST, ResetPolicy
from aiokafka_lead._core.leadership.patience import RetryPolicy
from aiokafka_lead._core.metadata.types import Broker, ClusterSnapshot, Moved, PartitionMetadata, TopicMetadata
from aiokafka_lead._options.logs import client_log
from aiokafka_lead._records import DEFAULT_MAX_DECOMPRESSED_BYTES, ControlType, StoredRecord, build_batch, control_batch
from aiokafka_lead._wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from aiokafka_lead.errors import KafkaError
from aiokafka_lead.types import TopicPartition

T = TypeVar("T")

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
T2 = TopicPartition("t", 2)
ID = UUID(int=7)
MIB = 1024 * 1024
VERSION = 17
BACKOFF_S = 0.1


def middle() -> float:
    """Return the middle of the range, so that jitter leaves waits unchanged."""
    return 0.5


def nothing() -> None:
    """Ignore the event."""


def snapshot(
    leaders: Sequence[tuple[int, int]] = ((1, 3), (1, 3), (1, 3)),
    *,
    brokers: Iterable[int] = (1, 2, 3),
    topic_id: UUID = ID,
    offline: Sequence[int] = (),
    generation: int = 1,
) -> ClusterSnapshot:
    """Topic "t" with these leaders and epochs."""
    partitions = tuple(
        PartitionMetadata("t", index, leader, epoch, (1, 2, 3), (1, 2, 3), tuple(offline))
        for index, (leader, epoch) in enumerate(leaders)
    )
    return ClusterSnapshot(
        generation,
        brokers={node_id: Broker(node_id, f"host{node_id}", 9092) for node_id in brokers},
        topics={"t": TopicMetadata("t", topic_id, partitions=partitions)},
        topic_names={topic_id: "t"},
    )


def batch(offset: int, values: Iterable[bytes] = (b"v",), *, epoch: int = 3, **header: object) -> bytes:
    """Return a batch of records from this offset on."""
    records = [StoredRecord(1000, value=value) for value in values]
    return build_batch(records, base_offset=offset, leader_epoch=epoch, **header)  # type: ignore[arg-type]


def batches(*parts: bytes) -> memoryview:
    """Return a partition's records in an answer."""
    return memoryview(b"".join(parts))


def data(
    partition: int,
    records: memoryview | bytes | None = None,
    *,
    error: int = 0,
    high_watermark: int = 100,
    leader: tuple[int, int] = (-1, -1),
    diverging: tuple[int, int] = (-1, -1),
    preferred: int = -1,
    log_start: int = 0,
    aborted: Sequence[tuple[int, int]] = (),
) -> PartitionData:
    """A partition in an answer; ``leader`` and ``diverging`` are (id, epoch) and (epoch, end offset)."""
    return PartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=log_start,
        records=None if records is None else memoryview(records),
        current_leader=LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
        diverging_epoch=EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]),
        preferred_read_replica=preferred,
        aborted_transactions=[AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted],
    )


def response(
    *partitions: PartitionData, session_id: int = 5, error: int = 0, endpoints: Iterable[int] = (), topic_id: UUID = ID
) -> FetchResponse:
    """Return an answer about topic "t"."""
    return FetchResponse(
        error_code=error,
        session_id=session_id,
        responses=[FetchableTopicResponse(topic_id=topic_id, partitions=list(partitions))] if partitions else [],
        node_endpoints=[NodeEndpoint(node_id=n, host=f"host{n}", port=9092) for n in endpoints],
    )


class World:
    """Positions, buffer, planner and answer reader, with topic "t" of three partitions led by broker 1."""

    def __init__(
        self,
        *partitions: TopicPartition,
        reset_policy: ResetPolicy | None = EARLIEST,
        read_committed: bool = False,
        limits: FetchLimits | None = None,
        deserializers: Deserializers | None = None,
        version: int = VERSION,
        joined_records: int = DEFAULT_JOINED_RECORDS,
        max_decompressed_batch_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
        max_decompressed_bytes: float = math.inf,
        followers: Followers | None = None,
        on_touch: Callable[[], None] = nothing,
    ) -> None:
        self.now = 1000.0
        self.max_decompressed_batch_bytes = max_decompressed_batch_bytes
        self.version = version
        self.joined_records = joined_records
        self.snapshot = snapshot()
        self.ready = 0
        self.reached_at: dict[int, float] = {}
        """Time of the last connection to each broker."""
        self.positions = Positions(on_touch)
        self.prefetch = Prefetch(deserializers or Deserializers(), self._on_ready, max_decompressed_bytes)
        self.planner = FetchPlanner(self.positions, self.prefetch, limits or FetchLimits(50 * MIB, MIB))
        self.counters = ConsumerCounters()
        self.retry = RetryPolicy(1000 * BACKOFF_S, 1000, middle)
        self.followers = followers or Followers(
            300, 2, 0.5, lambda node_id, at: self.reached_at.get(node_id, -math.inf) >= at
        )
        self.answers = AnswerReader(
            self.positions,
            self.prefetch,
            self.followers,
            AnswerOptions(read_committed, True, max_decompressed_batch_bytes, reset_policy, 300.0, joined_records),
            self.retry,
            self.counters,
            client_log("consumer", "simulated"),
        )
        self.positions.assign(partitions)
        for tp in partitions:
            self.state(tp).move(0)

    def _on_ready(self) -> None:
        self.ready += 1

    def state(self, tp: TopicPartition = T0) -> PartitionState:
        """Return the state of an assigned partition."""
        return self.positions.require(tp)

    def learn(self, new: ClusterSnapshot) -> None:
        """Apply new metadata."""
        self.take(new, Moved(self.snapshot, new))

    def take(self, new: ClusterSnapshot, moved: Moved) -> None:
        """Apply a snapshot, given the partitions that moved."""
        self.positions.touch_moved(moved)
        self.snapshot = new

    def plan(self) -> list[PlannedFetch]:
        """Return the requests to send now."""
        self.planner.place(self.snapshot, self.now)
        found = [
            self.planner.plan(node_id, self.version, self.snapshot, self.now, beside=beside)
            for node_id, beside in self.planner.waiting_nodes(self.now)
        ]
        return [planned for planned in found if planned is not None]

    def plan_one(self) -> PlannedFetch:
        """Return the only request to send now."""
        (planned,) = self.plan()
        return planned

    def answer(self, planned: PlannedFetch, answered: FetchResponse) -> FetchOutcome:
        """Deliver a broker's answer."""
        session = self.planner.answered(planned)
        if session is not None and not session.answered(answered.error_code, answered.session_id):
            return FetchOutcome([])
        return self.answers.read(planned, answered, self.snapshot, self.now)

    def fetch(self, *partitions: PartitionData, **options: object) -> FetchOutcome:
        """Make one round trip."""
        return self.answer(self.plan_one(), response(*partitions, **options))  # type: ignore[arg-type]

    def hold(self, state: PartitionState, *parts: bytes, aborted: Sequence[AbortedTransaction] | None = None) -> None:
        """Put records into the buffer as if they had been fetched."""
        self.prefetch.add(
            state,
            FetchedData(
                state,
                batches(*parts),
                aborted,
                check_crcs=True,
                max_decompressed_batch_bytes=self.max_decompressed_batch_bytes,
                joined_records=self.joined_records,
            ),
        )

    def read(self, limit: int | None = None, tp: TopicPartition | None = None) -> list[int]:
        """Return the offsets that the application receives, one partition's turn after another."""
        wanted = None if tp is None else {tp}
        offsets: list[int] = []
        while limit is None or len(offsets) < limit:
            chunk = self.prefetch.chunk(wanted)
            if chunk is None:
                break
            offsets += [record.offset for record in chunk.take(None if limit is None else limit - len(offsets))]
        return offsets


def marker(kind: ControlType, producer: int, offset: int) -> bytes:
    return control_batch(
        kind, base_offset=offset, timestamp_ms=1000, producer_id=producer, producer_epoch=0, leader_epoch=3
    )


def loaded(call: Callable[[], T]) -> T:
    """Return the result of the call after decompressing the large batches that it meets."""
    while True:
        try:
            return call()
        except NotLoaded as large:
            with suppress(KafkaError):  # which the call raises again
                large.view.load()


def chunks(world: World) -> list[list[int]]:
    """Return the offsets of all records, decoded together."""
    found = []
    while (chunk := loaded(world.prefetch.chunk)) is not None:
        found.append([record.offset for record in chunk.take(None)])
    return found


def columns(world: World) -> list[list[int]]:
    """Return the offsets of all batches."""
    found = []
    while (taken := loaded(world.prefetch.batch)) is not None:
        assert world.state().position == Position(taken.next_offset, taken.leader_epoch or -1)
        found.append(taken.offsets)
    return found
