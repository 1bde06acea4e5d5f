"""Requests that add partitions and offsets to a transaction, and their responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ... import errors
from ..._options.arguments import map_of, offset, topic_partition
from ..._wire import ApiVersions
from ..._wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ..._wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ..._wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ...types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ..metadata.types import NO_TOPIC_ID
from .state import TransactionState

LAST_OF_CLIENTS = 3
"""Last version of AddPartitionsToTxn for clients. Later versions are for brokers."""

FIRST_WITH_MEMBER = 3
"""First version of TxnOffsetCommit with the group's member, so that a removed member cannot commit (KIP-447)."""

FIRST_OF_V2 = 5
"""First version of TxnOffsetCommit that also adds the group to the transaction (KIP-890)."""

FIRST_WITH_TOPIC_IDS = 6
"""First version of TxnOffsetCommit with topic ids instead of names (KIP-1319)."""


OFFSETS = map_of("TopicPartition to offset", topic_partition, offset)
"""Check of the offsets passed by the application."""


def checked_group(group: ConsumerGroupMetadata | str) -> ConsumerGroupMetadata:
    """Return the group passed by the application. Raises `ConfigTypeError` or `ConfigError` if it is invalid."""
    found = ConsumerGroupMetadata(group) if isinstance(group, str) else group
    if not isinstance(found, ConsumerGroupMetadata):
        raise errors.ConfigTypeError(
            f"group_metadata must be a ConsumerGroupMetadata or a str, not {type(group).__name__}"
        )
    if not found.group_id:
        raise errors.ConfigError("group_metadata must name a group")
    return found


def add_partitions_request(
    state: TransactionState, partitions: Iterable[TopicPartition], versions: ApiVersions
) -> tuple[AddPartitionsToTxnRequest, int]:
    """Return the AddPartitionsToTxn request and its version. Raises `UnsupportedVersionError`."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, AddPartitionsToTxnTopic(name=tp.topic)).partitions.append(tp.partition)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=state.transactional_id,
        v3_and_below_producer_id=state.producer_id,
        v3_and_below_producer_epoch=state.epoch,
        v3_and_below_topics=list(topics.values()),
    )
    return request, versions.version_for(AddPartitionsToTxnRequest, highest=LAST_OF_CLIENTS)


def read_added(response: AddPartitionsToTxnResponse, partitions: Iterable[TopicPartition]) -> errors.KafkaError | None:
    """Return the most significant error of the response, or None.

    ``partitions`` were requested. A partition without a result was not added. If one partition fails, the broker adds
    no partition and marks the others as not attempted. That mark is ignored.
    """
    reason: errors.KafkaError | None = None
    lacking = set(partitions)
    for topic in response.results_by_topic_v3_and_below:
        for result in topic.results_by_partition:
            lacking.discard(TopicPartition(topic.name, result.partition_index))
            if result.partition_error_code:
                kind = errors.error_for_code(result.partition_error_code)
                error = kind(f"AddPartitionsToTxn: {topic.name}-{result.partition_index}: {kind().message}")
                if reason is None or isinstance(reason, errors.OperationNotAttemptedError) or not error.retriable:
                    reason = error
    return reason or next(map(_not_mentioned, lacking), None)


def add_offsets_request(
    state: TransactionState, group_id: str, versions: ApiVersions
) -> tuple[AddOffsetsToTxnRequest, int]:
    """Return the AddOffsetsToTxn request and its version. Raises `UnsupportedVersionError`."""
    request = AddOffsetsToTxnRequest(
        transactional_id=state.transactional_id,
        producer_id=state.producer_id,
        producer_epoch=state.epoch,
        group_id=group_id,
    )
    return request, versions.version_for(AddOffsetsToTxnRequest)


def offsets_request(
    state: TransactionState,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group: ConsumerGroupMetadata,
    versions: ApiVersions,
) -> tuple[TxnOffsetCommitRequest, int]:
    """Return the TxnOffsetCommit request and its version.

    Raises `UnsupportedVersionError`, for example if ``group`` has a member and the broker is too old to check its
    membership.
    """
    lowest = FIRST_OF_V2 if state.v2 else FIRST_WITH_MEMBER if group.member_id else None
    # Only the consumer knows the ids of the topics that it has read. A name may belong to another topic by now.
    named = all(tp.topic in group.topic_ids for tp in offsets)
    highest = FIRST_OF_V2 - 1 if not state.v2 else FIRST_WITH_TOPIC_IDS if named else FIRST_OF_V2
    version = versions.version_for(TxnOffsetCommitRequest, lowest=lowest, highest=highest)
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for tp, position in offsets.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = TxnOffsetCommitRequestTopic(name=tp.topic)
            topic.topic_id = group.topic_ids.get(tp.topic, NO_TOPIC_ID)
        topic.partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=position.offset,
                committed_leader_epoch=-1 if position.leader_epoch is None else position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    request = TxnOffsetCommitRequest(
        transactional_id=state.transactional_id,
        group_id=group.group_id,
        producer_id=state.producer_id,
        producer_epoch=state.epoch,
        topics=list(topics.values()),
    )
    if version >= FIRST_WITH_MEMBER:
        request.generation_id_or_member_epoch = group.generation_id
        request.member_id = group.member_id
        request.group_instance_id = group.group_instance_id
    return request, version


def read_offsets(
    response: TxnOffsetCommitResponse, group: ConsumerGroupMetadata, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, errors.KafkaError]:
    """Return the error of each of the ``partitions`` whose offset was not added to the transaction."""
    names = {topic_id: name for name, topic_id in group.topic_ids.items()}
    failed: dict[TopicPartition, errors.KafkaError] = {}
    lacking = set(partitions)
    for topic in response.topics:
        name = topic.name or names.get(topic.topic_id, "")
        for partition in topic.partitions:
            tp = TopicPartition(name, partition.partition_index)
            lacking.discard(tp)
            if partition.error_code:
                kind: Any = errors.error_for_code(partition.error_code)
                failed[tp] = kind(f"TxnOffsetCommit: {tp}: {kind().message}")
    for tp in lacking:
        failed[tp] = _not_mentioned(tp)
    return failed


def _not_mentioned(tp: TopicPartition) -> errors.KafkaError:
    return errors.KafkaConnectionError(f"the coordinator's response lacks {tp}")
