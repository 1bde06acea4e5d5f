"""OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit: the committed offsets of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from ... import errors
from ..._wire.messages import offset_commit as commit
from ..._wire.messages import offset_delete as deletion
from ..._wire.messages import offset_fetch as fetch
from ..._wire.messages import txn_offset_commit as txn
from .._server.context import RequestContext
from .._state.classic_members import read_subscription
from .._state.offsets import GROUP, NOT_COMMITTED, Committed, Key
from .coordinators import check_coordinator
from .transactional_writes import ask_for_group

_TOPIC_IDS_FROM = 10
_TOPIC_IDS_IN_TRANSACTIONS_FROM = 6
_BATCHED_FROM = 8
_GROUP_NOT_FOUND_FROM = 9
"""First version with GROUP_ID_NOT_FOUND. Older clients get ILLEGAL_GENERATION instead."""
_NEWER_IN_TRANSACTIONS = (errors.GroupIdNotFoundError.code, errors.StaleMemberEpochError.code)
"""Errors that become ILLEGAL_GENERATION in TxnOffsetCommit before the version with topic ids (KIP-1319)."""


def offset_commit(context: RequestContext, request: commit.OffsetCommitRequest) -> commit.OffsetCommitResponse:
    failure, check = 0, None
    try:
        check_coordinator(context, GROUP, request.group_id)
        check = context.engine.groups.check_commit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            version=context.api_version,
        )
    except errors.GroupIdNotFoundError as error:
        failure = error.code if context.api_version >= _GROUP_NOT_FOUND_FROM else errors.IllegalGenerationError.code
    except errors.BrokerError as error:
        failure = error.code
    response = commit.OffsetCommitResponse()
    committed: dict[Key, Committed] = {}
    for wanted in request.topics:
        name, unknown = _name(context, wanted.name, wanted.topic_id, by_id=context.api_version >= _TOPIC_IDS_FROM)
        topic = commit.OffsetCommitResponseTopic(name=wanted.name, topic_id=wanted.topic_id)
        response.topics.append(topic)
        for part in wanted.partitions:
            code = failure or unknown or _keep(context, committed, name, part, check)
            topic.partitions.append(
                commit.OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
            )
    if committed:
        context.engine.groups.offsets.commit(request.group_id, committed)
    return response


def txn_offset_commit(context: RequestContext, request: txn.TxnOffsetCommitRequest) -> txn.TxnOffsetCommitResponse:
    failure, check = 0, None
    groups = context.engine.groups
    by_id = context.api_version >= _TOPIC_IDS_IN_TRANSACTIONS_FROM
    try:
        check_coordinator(context, GROUP, request.group_id)
        # This comes before the check of the group, because even refused offsets may be part of the transaction.
        ask_for_group(context, request.transactional_id, request.producer_id, request.producer_epoch, request.group_id)
        check = groups.check_commit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            transactional=True,
        )
    except errors.BrokerError as error:
        failure = error.code
    response = txn.TxnOffsetCommitResponse()
    committed: dict[Key, Committed] = {}
    for wanted in request.topics:
        name, unknown = _name(context, wanted.name, wanted.topic_id, by_id=by_id)
        topic = txn.TxnOffsetCommitResponseTopic(name=wanted.name, topic_id=wanted.topic_id)
        response.topics.append(topic)
        for part in wanted.partitions:
            code = failure or unknown or _keep(context, committed, name, part, check)
            if not by_id and code in _NEWER_IN_TRANSACTIONS:
                code = errors.IllegalGenerationError.code
            topic.partitions.append(
                txn.TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
            )
    if committed:
        groups.offsets.commit_in_transaction(request.producer_id, request.producer_epoch, request.group_id, committed)
    return response


def _name(context: RequestContext, name: str, topic_id: UUID, *, by_id: bool) -> tuple[str, int]:
    """Return the name of the topic and the error code 0, or an error code if the topic id is unknown."""
    if not by_id:
        return name, 0
    topic = context.engine.state.topics_by_id.get(topic_id)
    return ("", errors.UnknownTopicIdError.code) if topic is None else (topic.name, 0)


def _keep(
    context: RequestContext,
    committed: dict[Key, Committed],
    topic: str,
    part: commit.OffsetCommitRequestPartition | txn.TxnOffsetCommitRequestPartition,
    check: Callable[[Key], None] | None = None,
) -> int:
    """Store a committed offset and return 0, or return the error code of the first check that fails."""
    metadata = part.committed_metadata or ""
    try:
        if check is not None:
            check((topic, part.partition_index))
        errors.raise_for_code(context.fault_code(topic, part.partition_index))
        context.engine.state.partition(topic, part.partition_index)
        if len(metadata.encode()) > context.engine.groups.options.offset_metadata_max_bytes:
            raise errors.OffsetMetadataTooLargeError(
                f"the metadata has {len(metadata)} characters, more than offset.metadata.max.bytes"
            )
    except errors.BrokerError as error:
        return error.code
    committed[topic, part.partition_index] = Committed(part.committed_offset, part.committed_leader_epoch, metadata)
    return 0


def offset_fetch(context: RequestContext, request: fetch.OffsetFetchRequest) -> fetch.OffsetFetchResponse:
    if context.api_version >= _BATCHED_FROM:
        return fetch.OffsetFetchResponse(groups=[_fetch_group(context, request, group) for group in request.groups])
    response = fetch.OffsetFetchResponse()
    failure = _not_here(context, request.group_id)
    if failure:
        response.error_code = failure
    wanted = None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]
    for name, indexes in _wanted(context, request.group_id, wanted):
        topic = fetch.OffsetFetchResponseTopic(name=name)
        response.topics.append(topic)
        for index in indexes:
            code, found = _position(context, request.group_id, (name, index), stable=request.require_stable)
            topic.partitions.append(
                fetch.OffsetFetchResponsePartition(
                    partition_index=index,
                    committed_offset=-1 if failure else found.offset,
                    committed_leader_epoch=-1 if failure else found.leader_epoch,
                    metadata=found.metadata,
                    error_code=failure or code,
                )
            )
    return response


def _fetch_group(
    context: RequestContext, request: fetch.OffsetFetchRequest, group: fetch.OffsetFetchRequestGroup
) -> fetch.OffsetFetchResponseGroup:
    """Return the response for one group. Without requested topics, it contains all committed offsets."""
    response = fetch.OffsetFetchResponseGroup(group_id=group.group_id, error_code=_not_here(context, group.group_id))
    if response.error_code:
        return response
    try:
        context.engine.groups.check_fetch(group.group_id, group.member_id, group.member_epoch)
    except errors.BrokerError as error:
        response.error_code = error.code
        return response
    by_id = context.api_version >= _TOPIC_IDS_FROM
    if group.topics is None:
        for name, indexes in _wanted(context, group.group_id, None):
            known = context.engine.state.topics.get(name)
            if by_id and known is None:
                continue
            topic = fetch.OffsetFetchResponseTopics(name=name)
            if known is not None:
                topic.topic_id = known.topic_id
            response.topics.append(topic)
            _add_positions(context, topic, group.group_id, name, indexes, 0, stable=request.require_stable)
        return response
    for wanted in group.topics:
        name, unknown = _name(context, wanted.name, wanted.topic_id, by_id=by_id)
        topic = fetch.OffsetFetchResponseTopics(name=wanted.name, topic_id=wanted.topic_id)
        response.topics.append(topic)
        _add_positions(
            context, topic, group.group_id, name, wanted.partition_indexes, unknown, stable=request.require_stable
        )
    return response


def _add_positions(
    context: RequestContext,
    topic: fetch.OffsetFetchResponseTopics,
    group_id: str,
    name: str,
    indexes: Iterable[int],
    failure: int,
    *,
    stable: bool,
) -> None:
    for index in indexes:
        code, found = (
            (failure, NOT_COMMITTED) if failure else _position(context, group_id, (name, index), stable=stable)
        )
        topic.partitions.append(
            fetch.OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=found.offset,
                committed_leader_epoch=found.leader_epoch,
                metadata=found.metadata,
                error_code=code,
            )
        )


def _not_here(context: RequestContext, group_id: str) -> int:
    try:
        check_coordinator(context, GROUP, group_id)
    except errors.BrokerError as error:
        return error.code
    return 0


def _wanted(
    context: RequestContext, group_id: str, topics: list[tuple[str, list[int]]] | None
) -> list[tuple[str, list[int]]]:
    """Return the requested partitions. None means all partitions in which the group has committed offsets."""
    if topics is not None:
        return topics
    found: dict[str, list[int]] = {}
    for name, index in sorted(context.engine.groups.offsets.of(group_id)):
        found.setdefault(name, []).append(index)
    return list(found.items())


def _position(context: RequestContext, group_id: str, key: Key, *, stable: bool) -> tuple[int, Committed]:
    code = context.fault_code(*key)
    if code:
        return code, NOT_COMMITTED
    offsets = context.engine.groups.offsets
    if stable and offsets.is_pending(group_id, key):
        return errors.UnstableOffsetCommitError.code, NOT_COMMITTED
    return 0, offsets.of(group_id).get(key, NOT_COMMITTED)


def offset_delete(context: RequestContext, request: deletion.OffsetDeleteRequest) -> deletion.OffsetDeleteResponse:
    groups = context.engine.groups
    try:
        check_coordinator(context, GROUP, request.group_id)
        if not groups.known(request.group_id):
            raise errors.GroupIdNotFoundError(f"there is no group {request.group_id}")
        subscribed = _subscribed(context, request.group_id)
    except errors.BrokerError as error:
        return deletion.OffsetDeleteResponse(error_code=error.code)
    response = deletion.OffsetDeleteResponse()
    deleted: list[Key] = []
    for wanted in request.topics:
        topic = deletion.OffsetDeleteResponseTopic(name=wanted.name)
        response.topics.append(topic)
        for part in wanted.partitions:
            code = 0
            if subscribed(wanted.name):
                code = errors.GroupSubscribedToTopicError.code
            else:
                try:
                    context.engine.state.partition(wanted.name, part.partition_index)
                except errors.UnknownTopicOrPartitionError as error:
                    code = error.code
                else:
                    deleted.append((wanted.name, part.partition_index))
            topic.partitions.append(
                deletion.OffsetDeleteResponsePartition(partition_index=part.partition_index, error_code=code)
            )
    groups.offsets.delete(request.group_id, deleted)
    return response


def _subscribed(context: RequestContext, group_id: str) -> Callable[[str], bool]:
    """Return a predicate for the topics to which a group is subscribed.

    Groups of other kinds must have no members.
    """
    consumers = context.engine.groups.consumers.get(group_id)
    if consumers is not None:
        return consumers.is_subscribed_to
    group = context.engine.groups.groups.get(group_id)
    if group is None or not group.members:
        return lambda topic: False
    if group.protocol_type != "consumer":
        raise errors.NonEmptyGroupError(f"group {group_id} has members")
    topics: set[str] = set()
    for member in group.members.values():
        for _, metadata in member.request.protocols:
            try:
                topics.update(read_subscription(metadata).topics)
            except errors.MalformedMessageError:
                # Like a real broker: the subscription of such a member is unknown.
                return lambda topic: True
    return topics.__contains__


HANDLERS = {
    commit.OffsetCommitRequest: offset_commit,
    fetch.OffsetFetchRequest: offset_fetch,
    deletion.OffsetDeleteRequest: offset_delete,
    txn.TxnOffsetCommitRequest: txn_offset_commit,
}
