"""The offsets of groups: list, alter, delete, reset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...types import OffsetAndMetadata, TopicPartition
from .. import _group_checks as _checks
from .. import _group_offsets, _share_groups
from ..group_types import OffsetChange, ResetTo, ShareGroupOffset, StartOffsetChange
from .base import AdminArea


class GroupOffsetCalls(AdminArea):
    """The offsets of groups: list, alter, delete, reset. Groups of Kafka Streams have those of consumer groups."""

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """A group's committed offsets by partition, all that it has unless some are named.

        None where it has committed nothing; a group that does not exist has committed nothing anywhere.
        ``require_stable`` waits for transactions that are about to change an offset (KIP-447).
        """
        _checks.GROUP_ID("group_id", group_id)
        named = _checks.PARTITIONS("partitions", partitions)
        _checks.boolean("require_stable", require_stable)
        deadline = self._calls.deadline(timeout_ms)
        return await _group_offsets.fetch(self._calls, group_id, named, require_stable, deadline)

    async def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Set a group's committed offsets; the group must have no members, and is made if there is none.

        Raises `NonEmptyGroupError` where members would not hear of it, and `UnknownTopicOrPartitionError`.
        """
        _checks.GROUP_ID("group_id", group_id)
        wanted = _checks.OFFSETS("offsets", offsets)
        await _group_offsets.alter(self._calls, group_id, wanted, self._calls.deadline(timeout_ms))

    async def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> None:
        """Forget a group's committed offsets in partitions (KIP-496).

        Raises `GroupSubscribedToTopicError` while a member subscribes to the topic, and `GroupIdNotFoundError`.
        """
        _checks.GROUP_ID("group_id", group_id)
        wanted = _checks.NAMED_PARTITIONS("partitions", partitions)
        await _group_offsets.delete(self._calls, group_id, wanted, self._calls.deadline(timeout_ms))

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
        """Let a group without members begin elsewhere; the result is each offset before and after.

        ``to`` says where: a `datetime` with time zone or milliseconds since 1970 (the first record at or after it, else
        the end), a `timedelta` (so long before now), an `OffsetSpec` (``LATEST`` is the topic's end), `ToOffset` or
        `ToShifted` (both within what the partition has). ``topics`` and ``partitions`` say what; without both it is
        every partition in which the group has an offset. ``dry_run`` changes nothing. Raises `NonEmptyGroupError`.
        Java: ``kafka-consumer-groups --reset-offsets``.
        """
        _checks.GROUP_ID("group_id", group_id)
        target = _checks.reset_to("to", to)
        named = _checks.TOPICS("topics", topics)
        single = _checks.PARTITIONS("partitions", partitions)
        _checks.boolean("dry_run", dry_run)
        deadline = self._calls.deadline(timeout_ms)
        return await _group_offsets.reset(self._calls, group_id, target, named, single, dry_run, deadline)

    async def list_share_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, ShareGroupOffset | None]:
        """Where a share group begins in each partition, and its lag; of all that it has unless some are named.

        None where it has not begun; a group that does not exist has begun nowhere.
        """
        _checks.GROUP_ID("group_id", group_id)
        named = _checks.PARTITIONS("partitions", partitions)
        return await _share_groups.offsets(self._calls, group_id, named, self._calls.deadline(timeout_ms))

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> None:
        """Let a share group without members begin at other offsets; raises `NonEmptyGroupError`.

        The group is made if there is none.
        """
        _checks.GROUP_ID("group_id", group_id)
        wanted = _checks.START_OFFSETS("offsets", offsets)
        await _share_groups.alter(self._calls, group_id, wanted, self._calls.deadline(timeout_ms))

    async def reset_share_group_offsets(
        self,
        group_id: str,
        to: ResetTo,
        *,
        topics: Iterable[str] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
        dry_run: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, StartOffsetChange]:
        """Let a share group without members begin elsewhere; the result is each start offset before and after.

        What has been delivered or acknowledged behind the new start counts no more. ``to``, ``topics``, ``partitions``
        and ``dry_run`` are those of `reset_consumer_group_offsets`; without topics and partitions it is every partition
        that a member of the group was ever assigned. Raises `NonEmptyGroupError`. Java: ``kafka-share-groups
        --reset-offsets``.
        """
        _checks.GROUP_ID("group_id", group_id)
        target = _checks.reset_to("to", to)
        named = _checks.TOPICS("topics", topics)
        single = _checks.PARTITIONS("partitions", partitions)
        _checks.boolean("dry_run", dry_run)
        deadline = self._calls.deadline(timeout_ms)
        return await _share_groups.reset(self._calls, group_id, target, named, single, dry_run, deadline)

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: float | None = None
    ) -> None:
        """Forget what a share group without members knows of topics; raises `NonEmptyGroupError`."""
        _checks.GROUP_ID("group_id", group_id)
        wanted = _checks.NAMED_TOPICS("topics", topics)
        await _share_groups.delete_offsets(self._calls, group_id, wanted, self._calls.deadline(timeout_ms))

    async def list_streams_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The same as `list_consumer_group_offsets`, by Java's name for groups of Kafka Streams."""
        return await self.list_consumer_group_offsets(
            group_id, partitions, require_stable=require_stable, timeout_ms=timeout_ms
        )

    async def alter_streams_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """The same as `alter_consumer_group_offsets`, by Java's name for groups of Kafka Streams."""
        await self.alter_consumer_group_offsets(group_id, offsets, timeout_ms=timeout_ms)

    async def delete_streams_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> None:
        """The same as `delete_consumer_group_offsets`, by Java's name for groups of Kafka Streams."""
        await self.delete_consumer_group_offsets(group_id, partitions, timeout_ms=timeout_ms)
