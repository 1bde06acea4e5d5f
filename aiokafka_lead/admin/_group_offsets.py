"""The committed offsets of groups: list, alter, delete, reset."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from .._core.group.offsets import NO_GROUP
from .._io.connection.connection import Connection
from .._io.deadline import Deadline
from .._wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from .._wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from .._wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from ..errors import KafkaError, NonEmptyGroupError, UnknownMemberIdError, raise_for_code
from ..types import OffsetAndMetadata, TopicPartition
from ._calls import Calls, outcome, successes
from ._partitions import by_topic
from ._targets import named_partitions, targets
from .group_types import OffsetChange, ResetTo

_LAST_WITH_NAMES = 9
"""From version 10 both APIs name topics by their ids, which an administrator would have to look up first."""
_FIRST_FETCH_WITH_GROUPS = 8
_FIRST_FETCH_WITH_STABLE = 7


async def fetch(
    calls: Calls,
    group_id: str,
    partitions: Collection[TopicPartition] | None,
    require_stable: bool,
    deadline: Deadline,
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """A group's committed offsets; None asks for all that it has."""
    if partitions is None:
        return await _fetch_all(calls, group_id, require_stable, deadline)

    async def ask(
        connection: Connection, pending: Mapping[TopicPartition, None]
    ) -> Mapping[TopicPartition, OffsetAndMetadata | KafkaError | None]:
        return await _fetch_once(connection, group_id, pending, require_stable, deadline)

    return await calls.at_coordinator(group_id, ask, dict.fromkeys(partitions), deadline)


async def _fetch_all(
    calls: Calls, group_id: str, require_stable: bool, deadline: Deadline
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    async def ask(
        connection: Connection, pending: Mapping[str, None]
    ) -> Mapping[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        found = await _fetch_once(connection, group_id, None, require_stable, deadline)
        return {group_id: successes(found)}

    found = await calls.at_coordinator(group_id, ask, {group_id: None}, deadline)
    return {where: offset for where, offset in found[group_id].items() if offset is not None}


async def _fetch_once(
    connection: Connection,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    require_stable: bool,
    deadline: Deadline,
) -> dict[TopicPartition, OffsetAndMetadata | KafkaError | None]:
    version = connection.versions.version_for(OffsetFetchRequest, highest=_LAST_WITH_NAMES)
    wanted = None if partitions is None else dict.fromkeys(partitions)
    stable = require_stable and version >= _FIRST_FETCH_WITH_STABLE
    if version >= _FIRST_FETCH_WITH_GROUPS:
        group = OffsetFetchRequestGroup(
            group_id=group_id,
            topics=None
            if wanted is None
            else by_topic(
                wanted,
                lambda partition, _: partition,
                lambda name, indexes: OffsetFetchRequestTopics(name=name, partition_indexes=indexes),
            ),
        )
        request = OffsetFetchRequest(groups=[group], require_stable=stable)
    else:
        topics = None
        if wanted is not None:
            topics = by_topic(
                wanted,
                lambda partition, _: partition,
                lambda name, indexes: OffsetFetchRequestTopic(name=name, partition_indexes=indexes),
            )
        request = OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=stable)
    response = await connection.request(request, version=version, timeout_ms=deadline.request_ms())
    for code in (response.error_code, *(group.error_code for group in response.groups)):
        if code != NO_GROUP:
            raise_for_code(code)
    found: dict[TopicPartition, OffsetAndMetadata | KafkaError | None] = {} if wanted is None else dict(wanted)
    for where, entry in _entries(response):
        epoch = entry.committed_leader_epoch if entry.committed_leader_epoch >= 0 else None
        known = entry.committed_offset >= 0
        committed = OffsetAndMetadata(entry.committed_offset, entry.metadata or "", epoch) if known else None
        found[where] = outcome(committed, entry.error_code, str(where))
    return found


def _entries(
    response: OffsetFetchResponse,
) -> Iterable[tuple[TopicPartition, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]]:
    for topic in response.topics:
        for entry in topic.partitions:
            yield TopicPartition(topic.name, entry.partition_index), entry
    for group in response.groups:
        for named in group.topics:
            for each in named.partitions:
                yield TopicPartition(named.name, each.partition_index), each


async def alter(
    calls: Calls, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline
) -> None:
    """Commit offsets on behalf of a group without members."""

    async def ask(
        connection: Connection, pending: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Mapping[TopicPartition, KafkaError | None]:
        version = connection.versions.version_for(OffsetCommitRequest, highest=_LAST_WITH_NAMES)
        topics = by_topic(
            pending,
            lambda partition, offset: OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset.offset,
                committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
                committed_metadata=offset.metadata,
            ),
            lambda name, entries: OffsetCommitRequestTopic(name=name, partitions=entries),
        )
        request = OffsetCommitRequest(group_id=group_id, topics=topics)
        response = await connection.request(request, version=version, timeout_ms=deadline.request_ms())
        found: dict[TopicPartition, KafkaError | None] = {}
        for topic in response.topics:
            for entry in topic.partitions:
                where = TopicPartition(topic.name, entry.partition_index)
                found[where] = _refusal(group_id, where, entry.error_code)
        return found

    await calls.at_coordinator(group_id, ask, offsets, deadline)


def _refusal(group_id: str, where: TopicPartition, code: int) -> KafkaError | None:
    if code == UnknownMemberIdError.code:
        # The broker misses the member that commits: only a group without members takes offsets from outside.
        return NonEmptyGroupError(f"{where}: group {group_id!r} has members; stop them first")
    return outcome(None, code, str(where))


async def delete(calls: Calls, group_id: str, partitions: Collection[TopicPartition], deadline: Deadline) -> None:
    """Forget committed offsets."""

    async def ask(
        connection: Connection, pending: Mapping[TopicPartition, None]
    ) -> Mapping[TopicPartition, KafkaError | None]:
        topics = by_topic(
            pending,
            lambda partition, _: OffsetDeleteRequestPartition(partition_index=partition),
            lambda name, entries: OffsetDeleteRequestTopic(name=name, partitions=entries),
        )
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)
        response = await connection.request(request, timeout_ms=deadline.request_ms())
        raise_for_code(response.error_code)
        return {
            TopicPartition(topic.name, entry.partition_index): outcome(
                None, entry.error_code, f"{topic.name}-{entry.partition_index}"
            )
            for topic in response.topics
            for entry in topic.partitions
        }

    await calls.at_coordinator(group_id, ask, dict.fromkeys(partitions), deadline)


async def reset(
    calls: Calls,
    group_id: str,
    to: ResetTo,
    topics: Collection[str] | None,
    partitions: Collection[TopicPartition] | None,
    dry_run: bool,
    deadline: Deadline,
) -> dict[TopicPartition, OffsetChange]:
    """Where each partition's offset goes; it goes there unless this is a dry run."""
    wanted = await named_partitions(calls, topics, partitions, deadline)
    before = await fetch(calls, group_id, wanted, True, deadline)
    committed = {where: None if found is None else found.offset for where, found in before.items()}
    changes = {
        where: OffsetChange(before[where], OffsetAndMetadata(found.offset, "", found.leader_epoch))
        for where, found in (await targets(calls, committed, to, deadline)).items()
    }
    if not dry_run and changes:
        await alter(calls, group_id, {where: change.after for where, change in changes.items()}, deadline)
    return changes
