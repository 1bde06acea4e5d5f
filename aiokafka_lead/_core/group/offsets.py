"""OffsetCommit and OffsetFetch: requests for each version, and their responses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol
from uuid import UUID

from ..._values import NamedTuple
from ..._wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ..._wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ...errors import GroupIdNotFoundError, KafkaError, error_for_code
from ...types import OffsetAndMetadata, TopicPartition
from ..metadata.types import NO_TOPIC_ID, ClusterSnapshot

FIRST_VERSION_WITH_TOPIC_IDS = 10
"""First version of both APIs with topic ids."""

FIRST_OFFSET_FETCH_WITH_GROUPS = 8
FIRST_OFFSET_FETCH_WITH_STABLE = 7
FIRST_OFFSET_COMMIT_WITH_INSTANCE = 7

NO_GROUP = GroupIdNotFoundError.code
"""Error that some brokers return for a group that does not exist. Apache Kafka returns no offsets instead."""


class _Committed(Protocol):
    """The fields that a partition has in both formats of an OffsetFetch response."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: int


class GroupIdentity(NamedTuple):
    """The member for which offsets are committed. Brokers refuse commits of an outdated membership."""

    generation_or_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


NOT_A_MEMBER = GroupIdentity()
"""The identity of a consumer that assigns its own partitions. Brokers accept it if the group has no members."""


def ids_of(topics: Iterable[str], snapshot: ClusterSnapshot) -> dict[str, UUID] | None:
    """Return the ids of the topics, or None if any id is unknown.

    A request identifies either all topics by id, or all by name.
    """
    ids: dict[str, UUID] = {}
    for name in topics:
        topic = snapshot.topics.get(name)
        if topic is None or topic.topic_id == NO_TOPIC_ID:
            return None
        ids[name] = topic.topic_id
    return ids


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    identity: GroupIdentity,
    version: int,
    snapshot: ClusterSnapshot,
) -> tuple[OffsetCommitRequest, int]:
    """Return the request and its version. The version is lower if a topic's id is unknown."""
    ids = ids_of({tp.topic for tp in offsets}, snapshot)
    if ids is None:
        version = min(version, FIRST_VERSION_WITH_TOPIC_IDS - 1)
        ids = {}
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for tp, offset in offsets.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic_id = ids.get(tp.topic, NO_TOPIC_ID)
            topic = topics[tp.topic] = OffsetCommitRequestTopic(name=tp.topic, topic_id=topic_id)
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=identity.generation_or_epoch,
        member_id=identity.member_id,
        topics=list(topics.values()),
    )
    if version >= FIRST_OFFSET_COMMIT_WITH_INSTANCE:
        request.group_instance_id = identity.group_instance_id
    return request, version


def read_commit(
    response: OffsetCommitResponse, offsets: Collection[TopicPartition], snapshot: ClusterSnapshot
) -> dict[TopicPartition, KafkaError]:
    """Return the error of each partition whose offset was not committed."""
    names = {topic_id: name for name, topic_id in (ids_of({tp.topic for tp in offsets}, snapshot) or {}).items()}
    failed: dict[TopicPartition, KafkaError] = {}
    left = set(offsets)
    for topic in response.topics:
        name = topic.name or names.get(topic.topic_id, "")
        for partition in topic.partitions:
            tp = TopicPartition(name, partition.partition_index)
            left.discard(tp)
            if partition.error_code:
                kind = error_for_code(partition.error_code)
                failed[tp] = kind(f"the offset of {tp} was not committed: {kind.__doc__}")
    failed.update((tp, _unanswered(tp)) for tp in left)
    return failed


def _unanswered(tp: TopicPartition) -> KafkaError:
    return KafkaError(f"the coordinator's response lacks {tp}")


def committed_request(
    group_id: str, partitions: Iterable[TopicPartition], version: int, snapshot: ClusterSnapshot
) -> tuple[OffsetFetchRequest, int]:
    """Return the request and its version. The broker waits for the offsets of open transactions (KIP-447)."""
    by_topic: dict[str, list[int]] = {}
    for tp in partitions:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    if version < FIRST_OFFSET_FETCH_WITH_GROUPS:
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=found) for name, found in by_topic.items()]
        stable = version >= FIRST_OFFSET_FETCH_WITH_STABLE
        return OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=stable), version
    ids = ids_of(by_topic, snapshot)
    if ids is None:
        version = min(version, FIRST_VERSION_WITH_TOPIC_IDS - 1)
        ids = {}
    group = OffsetFetchRequestGroup(
        group_id=group_id,
        topics=[
            OffsetFetchRequestTopics(name=name, topic_id=ids.get(name, NO_TOPIC_ID), partition_indexes=found)
            for name, found in by_topic.items()
        ],
    )
    return OffsetFetchRequest(groups=[group], require_stable=True), version


def read_committed(
    response: OffsetFetchResponse, partitions: Collection[TopicPartition], snapshot: ClusterSnapshot
) -> tuple[dict[TopicPartition, OffsetAndMetadata | None], dict[TopicPartition, KafkaError]]:
    """Return a dict from partition to committed offset, and a dict from partition to error.

    The offset is None if none is committed. A partition has an error if its offset is unavailable. Raises errors that
    concern the whole group.
    """
    found: dict[TopicPartition, OffsetAndMetadata | None] = {}
    failed: dict[TopicPartition, KafkaError] = {}
    names = {topic_id: name for name, topic_id in (ids_of({tp.topic for tp in partitions}, snapshot) or {}).items()}
    codes = {response.error_code, *(group.error_code for group in response.groups)}
    for code in codes:
        if code and code != NO_GROUP:
            kind = error_for_code(code)
            raise kind(f"committed offsets cannot be read: {kind.__doc__}")
    rows: list[tuple[str, _Committed]] = [(topic.name, row) for topic in response.topics for row in topic.partitions]
    rows += [
        (topic.name or names.get(topic.topic_id, ""), row)
        for group in response.groups
        for topic in group.topics
        for row in topic.partitions
    ]
    for name, partition in rows:
        tp = TopicPartition(name, partition.partition_index)
        if partition.error_code == NO_GROUP:
            found[tp] = None
        elif partition.error_code:
            kind = error_for_code(partition.error_code)
            failed[tp] = kind(f"the committed offset of {tp} cannot be read: {kind.__doc__}")
        elif partition.committed_offset < 0:
            found[tp] = None
        else:
            epoch = None if partition.committed_leader_epoch < 0 else partition.committed_leader_epoch
            found[tp] = OffsetAndMetadata(partition.committed_offset, partition.metadata or "", epoch)
    for tp in partitions:
        if tp not in found and tp not in failed:
            if NO_GROUP in codes:
                found[tp] = None
            else:
                # The response would contain an entry even for a partition without a committed offset.
                failed[tp] = _unanswered(tp)
    return found, failed
