"""Groups of all kinds: list, describe, delete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from .. import _group_checks as _checks
from .. import _groups, _share_groups, _streams_groups
from ..group_types import (
    ClassicGroupDescription,
    ConsumerGroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    ShareGroupDescription,
    StreamsGroupDescription,
)
from .base import AdminArea


class GroupCalls(AdminArea):
    """Groups of all kinds: list, describe, delete."""

    def list_groups(
        self,
        *,
        states: Iterable[GroupState] | None = None,
        types: Iterable[GroupType] | None = None,
        protocol_types: Iterable[str] | None = None,
        timeout_ms: float | None = None,
    ) -> AsyncIterator[GroupListing]:
        """Every group of any kind that passes all filters, from all brokers: an asynchronous iterator.

        ``protocol_types`` are names as members give them, ``"consumer"`` or ``"connect"``. Where a broker fails, its
        error is raised after all that the others know. Raises `UnsupportedVersionError` where a broker is older than
        a filter: Kafka 2.6 for ``states`` (KIP-518), 3.8 for ``types`` (KIP-848).
        """
        in_states = _checks.STATES("states", states)
        of_types = _checks.TYPES("types", types)
        protocols = _checks.PROTOCOL_TYPES("protocol_types", protocol_types)
        deadline = self._calls.deadline(timeout_ms)
        return _groups.list_all(self._calls, in_states, of_types, protocols, deadline)

    async def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, ConsumerGroupDescription]:
        """Groups of consumers, of either protocol, by id: state, members and what each has.

        Raises `GroupIdNotFoundError`, for a group of another kind too.
        """
        ids = _checks.GROUP_IDS("group_ids", group_ids)
        _checks.boolean("include_authorized_operations", include_authorized_operations)
        deadline = self._calls.deadline(timeout_ms)
        return await _groups.describe_consumers(self._calls, ids, include_authorized_operations, deadline)

    async def describe_classic_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, ClassicGroupDescription]:
        """Groups of the classic protocol by id, whatever their members are: Kafka Connect's workers for one.

        Raises `GroupIdNotFoundError`, for a group of another protocol too.
        """
        ids = _checks.GROUP_IDS("group_ids", group_ids)
        _checks.boolean("include_authorized_operations", include_authorized_operations)
        deadline = self._calls.deadline(timeout_ms)
        return await _groups.describe_classic(self._calls, ids, include_authorized_operations, deadline)

    async def describe_share_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, ShareGroupDescription]:
        """Share groups by id (KIP-932, Kafka 4.1); raises `GroupIdNotFoundError`."""
        ids = _checks.GROUP_IDS("group_ids", group_ids)
        _checks.boolean("include_authorized_operations", include_authorized_operations)
        deadline = self._calls.deadline(timeout_ms)
        return await _share_groups.describe(self._calls, ids, include_authorized_operations, deadline)

    async def describe_streams_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, StreamsGroupDescription]:
        """Groups of Kafka Streams by id (KIP-1071, Kafka 4.1); raises `GroupIdNotFoundError`."""
        ids = _checks.GROUP_IDS("group_ids", group_ids)
        _checks.boolean("include_authorized_operations", include_authorized_operations)
        deadline = self._calls.deadline(timeout_ms)
        return await _streams_groups.describe(self._calls, ids, include_authorized_operations, deadline)

    async def delete_consumer_groups(self, group_ids: Iterable[str], *, timeout_ms: float | None = None) -> None:
        """Delete groups with their offsets; raises `NonEmptyGroupError` and `GroupIdNotFoundError`.

        Brokers delete a group of any kind in the same way, so that this serves for all of them.
        """
        ids = _checks.GROUP_IDS("group_ids", group_ids)
        await _groups.delete(self._calls, ids, self._calls.deadline(timeout_ms))

    async def delete_share_groups(self, group_ids: Iterable[str], *, timeout_ms: float | None = None) -> None:
        """The same, by Java's name for share groups."""
        await self.delete_consumer_groups(group_ids, timeout_ms=timeout_ms)

    async def delete_streams_groups(self, group_ids: Iterable[str], *, timeout_ms: float | None = None) -> None:
        """The same, by Java's name for groups of Kafka Streams."""
        await self.delete_consumer_groups(group_ids, timeout_ms=timeout_ms)

    async def remove_members_from_consumer_group(
        self,
        group_id: str,
        *,
        members: Iterable[str] | None = None,
        static_members: Iterable[str] | None = None,
        reason: str = "removed by an administrator",
        timeout_ms: float | None = None,
    ) -> None:
        """Take members out of a group, by member id and by ``group.instance.id``; all of them unless some are named.

        For static members that are gone for good, so that their partitions need not wait for the session timeout. A
        member that lives joins again. Raises `UnknownMemberIdError`.
        """
        _checks.GROUP_ID("group_id", group_id)
        wanted = _checks.members(members, static_members)
        why = _checks.string("reason", reason)
        deadline = self._calls.deadline(timeout_ms)
        await _groups.remove_members(self._calls, group_id, wanted, why, deadline)
