"""Committed offsets of groups: list, alter, delete and reset them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from .._core.admin import BY_COORDINATOR, failure, outcome, successes
from .._core.group.offsets import NO_GROUP
from .._io.connection.connection import Connection
from .._io.deadline import Deadline
from .._options.arguments import TIME_MS, map_of, offset, topic_partition
from .._options.checks import INT64_MAX, boolean, integer
from .._values import NamedTuple
from .._wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from .._wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from .._wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from ..errors import ConfigError, ConfigTypeError, KafkaError, NonEmptyGroupError, UnknownMemberIdError
from ..types import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from .base import GROUP_ID, NAMED_PARTITIONS, PARTITIONS, TOPICS, by_topic, called, indexes_by_topic, outcomes_of
from .partitions import OffsetSpec, PartitionCalls
from .topics import TopicCalls

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class ToOffset:
    """Target of a reset: this offset, or the nearest existing offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class ToShifted:
    """Target of a reset: the committed offset plus a number of records, which may be negative."""

    by: int


ResetTo = datetime | timedelta | int | ToOffset | ToShifted
"""Target of a reset. A time means the first record at or after it: a `datetime` with a time zone, an int in
milliseconds since 1970, or a `timedelta` before now. The other targets are an `OffsetSpec`, an offset (`ToOffset`), and
a shift by a number of records (`ToShifted`)."""


class OffsetChange(NamedTuple):
    """The committed offset of a partition before and after a reset."""

    before: OffsetAndMetadata | None
    """None if the group had no committed offset."""
    after: OffsetAndMetadata


_LAST_WITH_NAMES = 9
"""Last version with names of topics. Later versions need topic ids, which an administrator would have to look up first.
"""
_FIRST_FETCH_WITH_GROUPS = 8
_FIRST_FETCH_WITH_STABLE = 7
_EPOCH = datetime.fromtimestamp(0, UTC)
_OFFSETS = map_of("TopicPartition to offset", topic_partition, offset)
_OFFSET = integer(0, INT64_MAX)
_BY = integer(-INT64_MAX, INT64_MAX)


def reset_to(name: str, value: Any) -> ResetTo:
    """Check and return the target of a reset. ``name`` is the name of the argument in errors."""
    match value:
        case datetime():
            if value.tzinfo is None:
                raise ConfigError(f"{name} must be a datetime with a time zone, not {value}")
            TIME_MS(name, _milliseconds_of(value))
        case timedelta():
            if value < timedelta():
                raise ConfigError(f"{name} must be a duration before now, at least 0, not {value}")
        case ToOffset():
            _OFFSET(f"{name}.offset", value.offset)
        case ToShifted():
            _BY(f"{name}.by", value.by)
        case OffsetSpec():
            if value not in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
                raise ConfigError(f"{name} must be OffsetSpec.EARLIEST or LATEST, not {value.name}")
        case bool() | object() if isinstance(value, bool) or not isinstance(value, int):
            kinds = "a datetime, timedelta, OffsetSpec, time in milliseconds, ToOffset or ToShifted"
            raise ConfigTypeError(f"{name} must be {kinds}, not {type(value).__name__}")
        case _:
            TIME_MS(name, value)
    return value  # type: ignore[no-any-return]


class OffsetCalls(TopicCalls, PartitionCalls):
    """Admin calls for the committed offsets of groups."""

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of a group in each partition.

            committed = await admin.list_consumer_group_offsets("billing")
            print(committed[TopicPartition("events", 0)].offset)

        Without ``partitions``, the result contains all partitions with a committed offset. Otherwise, it contains the
        given partitions; the value is None for a partition without a committed offset, or if the group does not exist.

        With ``require_stable``, the call waits until no open transaction would change an offset (KIP-447), and raises
        `RequestTimedOutError` if one is still open after ``timeout_ms``. Raises `GroupAuthorizationFailedError` if this
        user may not describe the group.
        """
        GROUP_ID("group_id", group_id)
        named = PARTITIONS("partitions", partitions)
        boolean("require_stable", require_stable)
        deadline = self._calls.deadline(timeout_ms)
        return await self._fetch_offsets(group_id, named, require_stable, deadline)

    async def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Set the committed offsets of a group without members. If the group does not exist, it is created.

            await admin.alter_consumer_group_offsets("billing", {TopicPartition("events", 0): 42})

        Each value is the offset of the next record to read. Other partitions of the group keep their offsets.

        Raises `NonEmptyGroupError` if the group has members; stop them first. Raises `UnknownTopicOrPartitionError` if
        a partition does not exist; the offsets of the other partitions are still set.
        """
        GROUP_ID("group_id", group_id)
        wanted = _OFFSETS("offsets", offsets)
        await self._alter_offsets(group_id, wanted, self._calls.deadline(timeout_ms))

    async def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> None:
        """Delete the committed offsets of a group in these partitions (KIP-496).

        Raises `GroupSubscribedToTopicError` for a partition of a topic to which a member is subscribed, and
        `GroupIdNotFoundError` if the group does not exist. The offsets of the other partitions are still deleted, and
        the error's ``outcomes`` map each partition to None or its error.
        """
        GROUP_ID("group_id", group_id)
        wanted = NAMED_PARTITIONS("partitions", partitions)
        deadline = self._calls.deadline(timeout_ms)

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
            if response.error_code:
                raise failure(response.error_code, called(group_id))
            return {
                TopicPartition(topic.name, entry.partition_index): outcome(
                    None, entry.error_code, f"{topic.name}-{entry.partition_index}"
                )
                for topic in response.topics
                for entry in topic.partitions
            }

        await self._calls.at_coordinator(group_id, ask, dict.fromkeys(wanted), deadline)

    async def reset_consumer_group_offsets(
        self,
        group_id: str,
        to: ResetTo,
        *,
        topics: Iterable[str] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
        dry_run: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetChange]:
        """Reset the committed offsets of a group without members.

            await admin.reset_consumer_group_offsets("billing", to=timedelta(hours=1), topics=["events"], dry_run=True)

        Returns the committed offset of each partition before and after. ``to`` is the target:

        - A `datetime` with a time zone, or milliseconds since 1970: the first record at or after that time, or the end
          of the partition if there is none.
        - A `timedelta` before now: the first record at or after that time.
        - An `OffsetSpec`. ``LATEST`` is the end of the partition.
        - `ToOffset` or `ToShifted`: an offset, or a number of records. The result is limited to existing offsets.

        ``topics`` and ``partitions`` select the partitions (default: all partitions with a committed offset of the
        group). With ``dry_run``, the call only returns the changes. In either case, it waits for open transactions that
        would change an offset.

        Raises `NonEmptyGroupError` if the group has members, `UnknownTopicOrPartitionError`, and `KafkaError` if
        `ToShifted` is used for a partition without a committed offset. (Java: ``kafka-consumer-groups
        --reset-offsets``.)
        """
        GROUP_ID("group_id", group_id)
        target = reset_to("to", to)
        named = TOPICS("topics", topics)
        single = PARTITIONS("partitions", partitions)
        boolean("dry_run", dry_run)
        deadline = self._calls.deadline(timeout_ms)
        wanted = await self._named_partitions(named, single, deadline)
        before = await self._fetch_offsets(group_id, wanted, True, deadline)
        committed = {where: None if found is None else found.offset for where, found in before.items()}
        changes = {
            where: OffsetChange(before[where], OffsetAndMetadata(found.offset, "", found.leader_epoch))
            for where, found in (await self._targets(committed, target, deadline)).items()
        }
        if not dry_run and changes:
            await self._alter_offsets(group_id, {where: change.after for where, change in changes.items()}, deadline)
        return changes

    async def _fetch_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition] | None,
        require_stable: bool,
        deadline: Deadline,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets of a group, for all its partitions if ``partitions`` is None."""

        async def ask(
            connection: Connection, pending: Iterable[TopicPartition] | None
        ) -> Mapping[TopicPartition, OffsetAndMetadata | KafkaError | None]:
            return await _fetch_once(connection, group_id, pending, require_stable, deadline)

        found = await self._of_partitions(group_id, partitions, ask, deadline)
        return found if partitions is not None else {where: each for where, each in found.items() if each is not None}

    async def _of_partitions(
        self,
        group_id: str,
        partitions: Collection[TopicPartition] | None,
        ask: Callable[
            [Connection, Iterable[TopicPartition] | None], Awaitable[Mapping[TopicPartition, V | KafkaError]]
        ],
        deadline: Deadline,
    ) -> dict[TopicPartition, V]:
        """Request data about the partitions of a group from its coordinator, and return a dict by partition.

        If ``partitions`` is None, the request is about all partitions of the group. Partitions with a retriable error
        are requested again. Raises the first final error, whose ``outcomes`` are by partition.
        """
        if partitions is not None:
            return await self._calls.at_coordinator(group_id, ask, dict.fromkeys(partitions), deadline)

        async def ask_all(connection: Connection, _: object) -> Mapping[str, Mapping[TopicPartition, V | KafkaError]]:
            return {group_id: await ask(connection, None)}

        answers = await self._calls.at_coordinator(group_id, ask_all, {group_id: None}, deadline)
        found = dict(answers[group_id])
        again = [
            where for where, each in found.items() if isinstance(each, KafkaError) and BY_COORDINATOR.allows(each, 1)
        ]
        if again:
            try:
                found |= await outcomes_of(self._of_partitions(group_id, again, ask, deadline))
            except KafkaError as error:
                found |= dict.fromkeys(again, error)
        return successes(found)

    async def _alter_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline
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

        await self._calls.at_coordinator(group_id, ask, offsets, deadline)

    async def _named_partitions(
        self,
        topics: Collection[str] | None,
        partitions: Collection[TopicPartition] | None,
        deadline: Deadline,
    ) -> list[TopicPartition] | None:
        """Return the given partitions and all partitions of the given topics.

        If neither is given, return None, which means all partitions of the group.
        """
        if topics is None and partitions is None:
            return None
        wanted = list(partitions or ())
        if topics is not None:
            described = await self._describe_topics(topics, deadline)
            wanted += [
                TopicPartition(name, partition.partition)
                for name, topic in described.items()
                for partition in topic.partitions
            ]
        return list(dict.fromkeys(wanted))

    async def _targets(
        self, before: Mapping[TopicPartition, int | None], to: ResetTo, deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the new offset of each partition, given its current offset."""
        ends = await self._existing(before, OffsetSpec.LATEST, deadline)
        if isinstance(to, (ToOffset, ToShifted)):
            starts = await self._existing(before, OffsetSpec.EARLIEST, deadline)
            found = {}
            for where, present in before.items():
                if isinstance(to, ToOffset):
                    offset = to.offset
                elif present is None:
                    raise KafkaError(f"{where}: the group has no committed offset to shift")
                else:
                    offset = present + to.by
                found[where] = OffsetAndTimestamp(max(starts[where].offset, min(offset, ends[where].offset)), -1)
            return found
        at = await self._list_offsets(dict.fromkeys(before, _moment(to)), False, deadline)
        # If no record has such a late timestamp, the target is the end of the partition.
        return {where: each or ends[where] for where, each in at.items()}

    async def _existing(
        self, partitions: Iterable[TopicPartition], spec: OffsetSpec, deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the start or end of each partition, of which `list_offsets` never returns None."""
        found = successes(await self._list_offsets(dict.fromkeys(partitions, spec), False, deadline))
        return {where: each for where, each in found.items() if each is not None}


async def _fetch_once(
    connection: Connection,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    require_stable: bool,
    deadline: Deadline,
) -> dict[TopicPartition, OffsetAndMetadata | KafkaError | None]:
    """Send one OffsetFetch request. Return each partition's committed offset, None if it has none, or its error.

    If ``partitions`` is None, these are all partitions with a committed offset. Raises errors of the whole group.
    """
    version = connection.versions.version_for(OffsetFetchRequest, highest=_LAST_WITH_NAMES)
    wanted = None if partitions is None else dict.fromkeys(partitions)
    stable = require_stable and version >= _FIRST_FETCH_WITH_STABLE
    if version >= _FIRST_FETCH_WITH_GROUPS:
        group = OffsetFetchRequestGroup(
            group_id=group_id,
            topics=None
            if wanted is None
            else indexes_by_topic(
                wanted,
                lambda name, indexes: OffsetFetchRequestTopics(name=name, partition_indexes=indexes),
            ),
        )
        request = OffsetFetchRequest(groups=[group], require_stable=stable)
    else:
        topics = None
        if wanted is not None:
            topics = indexes_by_topic(
                wanted,
                lambda name, indexes: OffsetFetchRequestTopic(name=name, partition_indexes=indexes),
            )
        request = OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=stable)
    response = await connection.request(request, version=version, timeout_ms=deadline.request_ms())
    codes = {response.error_code, *(group.error_code for group in response.groups)}
    for code in codes - {0, NO_GROUP}:
        raise failure(code, called(group_id))
    found: dict[TopicPartition, OffsetAndMetadata | KafkaError | None] = {}
    if wanted is not None and NO_GROUP in codes:
        found.update(wanted)
    for where, entry in _entries(response):
        epoch = entry.committed_leader_epoch if entry.committed_leader_epoch >= 0 else None
        known = entry.committed_offset >= 0
        committed = OffsetAndMetadata(entry.committed_offset, entry.metadata or "", epoch) if known else None
        found[where] = outcome(committed, 0 if entry.error_code == NO_GROUP else entry.error_code, str(where))
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


def _refusal(group_id: str, where: TopicPartition, code: int) -> KafkaError | None:
    if code == UnknownMemberIdError.code:
        # The broker does not know the committing member: a group accepts such commits only while it has no members.
        return NonEmptyGroupError(f"{where}: group {group_id!r} has members: stop them first")
    return outcome(None, code, str(where))


def _moment(to: datetime | timedelta | int) -> int:
    """Return the time ``to`` in milliseconds since 1970. A `timedelta` counts back from now."""
    if isinstance(to, datetime):
        return _milliseconds_of(to)
    if isinstance(to, timedelta):
        return max(0, int(time.time() * 1000) - to // timedelta(milliseconds=1))
    return int(to)


def _milliseconds_of(moment: datetime) -> int:
    """Return the first whole millisecond since 1970 at or after a time with a time zone, without rounding errors."""
    return -((_EPOCH - moment) // timedelta(milliseconds=1))
