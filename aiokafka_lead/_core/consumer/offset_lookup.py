"""ListOffsets and OffsetForLeaderEpoch: requests to each leader, and their responses.

The consumer uses them to reset and validate positions. Applications call ListOffsets through methods such as
`Consumer.offsets_for_times`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from ..._values import NamedTuple
from ..._wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ..._wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ...errors import KafkaError, UnknownServerError, UnsupportedForMessageFormatError, error_for_code
from ...types import TopicPartition
from ..metadata.types import NO_LEADER, ClusterSnapshot
from .reset_policy import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

T = TypeVar("T")
FROM_A_CLIENT = -1
"""Replica id that marks a request from a client."""


class ListedOffset(NamedTuple):
    """The result of ListOffsets for one partition. All fields are -1 if there is no matching record."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The end of the requested epoch in a leader's log. All fields are -1 if the leader does not know the epoch."""

    end_offset: int
    leader_epoch: int


class LookupAnswer(Generic[T]):
    """The response of one leader. Partitions that it does not contain should be looked up again."""

    __slots__ = ("failed", "found")

    def __init__(self) -> None:
        self.found: dict[TopicPartition, T] = {}
        self.failed: dict[TopicPartition, KafkaError] = {}

    def fail(self, tp: TopicPartition, code: int) -> None:
        """Store the error of one partition, given its error code."""
        kind = error_for_code(code)
        self.failed[tp] = kind(f"{tp}: {kind.__doc__}")

    @property
    def refresh(self) -> bool:
        """Return True if an error of a partition shows that the metadata is outdated."""
        return any(error.refreshes_metadata for error in self.failed.values())


def by_leader(
    partitions: Iterable[TopicPartition], snapshot: ClusterSnapshot
) -> tuple[dict[int, list[TopicPartition]], list[TopicPartition]]:
    """Return the partitions grouped by leader, and the partitions without a known leader."""
    found: dict[int, list[TopicPartition]] = {}
    leaderless: list[TopicPartition] = []
    for tp in partitions:
        leader = snapshot.leader(*tp)[0]
        if leader == NO_LEADER or leader not in snapshot.brokers:
            leaderless.append(tp)
        else:
            found.setdefault(leader, []).append(tp)
    return found, leaderless


def list_offsets_request(
    timestamps: Mapping[TopicPartition, int], snapshot: ClusterSnapshot, *, read_committed: bool, timeout_ms: int
) -> ListOffsetsRequest:
    """Return a ListOffsets request to one leader.

    ``timestamps`` maps each partition to a time in milliseconds since 1970, or to a special timestamp (see
    `reset_policy`). For a time, the response contains the first offset at or after it.
    """
    topics: dict[str, ListOffsetsTopic] = {}
    for tp, timestamp in timestamps.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = ListOffsetsTopic(name=tp.topic)
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=tp.partition,
                current_leader_epoch=snapshot.leader(*tp)[1],
                timestamp=timestamp,
            )
        )
    return ListOffsetsRequest(
        replica_id=FROM_A_CLIENT,
        isolation_level=int(read_committed),
        topics=list(topics.values()),
        timeout_ms=timeout_ms,
    )


def read_listed_offsets(
    response: ListOffsetsResponse, timestamps: Mapping[TopicPartition, int]
) -> LookupAnswer[ListedOffset]:
    """Read the offsets from the response to a ListOffsets request with these ``timestamps``.

    A log always has a start and an end, so a response without them is an error.
    """
    answer: LookupAnswer[ListedOffset] = LookupAnswer()
    for topic in response.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            by_time = timestamps.get(tp) not in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
            if by_time and partition.error_code == UnsupportedForMessageFormatError.code:
                # Messages of format 0 have no timestamps to search for. Java handles this in the same way.
                answer.found[tp] = ListedOffset(-1, -1, -1)
            elif partition.error_code:
                answer.fail(tp, partition.error_code)
            elif partition.offset < 0 and not by_time:
                answer.failed[tp] = UnknownServerError(f"{tp}: the broker's response has no offset")
            else:
                answer.found[tp] = ListedOffset(partition.offset, partition.timestamp, partition.leader_epoch)
    return answer


def epoch_end_request(epochs: Mapping[TopicPartition, int], snapshot: ClusterSnapshot) -> OffsetForLeaderEpochRequest:
    """Return an OffsetForLeaderEpoch request to one leader, with an epoch for each partition (KIP-320)."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for tp, epoch in epochs.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = OffsetForLeaderTopic(topic=tp.topic)
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=tp.partition, current_leader_epoch=snapshot.leader(*tp)[1], leader_epoch=epoch
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=FROM_A_CLIENT, topics=list(topics.values()))


def read_epoch_ends(response: OffsetForLeaderEpochResponse) -> LookupAnswer[EpochEnd]:
    """Read the ends of the epochs, and the errors, from an OffsetForLeaderEpoch response."""
    answer: LookupAnswer[EpochEnd] = LookupAnswer()
    for topic in response.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.topic, partition.partition)
            if partition.error_code:
                answer.fail(tp, partition.error_code)
            else:
                answer.found[tp] = EpochEnd(partition.end_offset, partition.leader_epoch)
    return answer
