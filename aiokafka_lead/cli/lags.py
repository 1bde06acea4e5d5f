"""How far groups are behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import anyio

from ..admin import AdminClient, GroupType, OffsetSpec, outcomes_of
from ..errors import GroupIdNotFoundError, KafkaError
from ..types import OffsetAndTimestamp, TopicPartition

__all__ = ["PartitionLag", "lag_of_groups", "sharing_groups"]

_AT_ONCE = 32
"""Groups that are asked about at the same time."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A group's place in a partition."""

    group: str
    where: TopicPartition
    committed: int | None
    end: int | None
    member: str | None
    """The client that has the partition."""

    @property
    def lag(self) -> int | None:
        """Records that are left; None where either end is not known."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


async def sharing_groups(admin: AdminClient) -> list[str]:
    """Every group of consumers that commits offsets."""
    listed = [group async for group in admin.list_groups()]
    return sorted(
        group.group_id
        for group in listed
        if group.type in (GroupType.CLASSIC, GroupType.CONSUMER, GroupType.UNKNOWN)
        and group.protocol_type in ("", "consumer")
    )


async def lag_of_groups(admin: AdminClient, groups: Iterable[str]) -> list[PartitionLag]:
    """Every partition in which a group has an offset or a member, by group; raises for a group that is not there."""
    names = list(groups)
    committed: dict[str, dict[TopicPartition, int | None]] = {}
    room = anyio.Semaphore(_AT_ONCE)

    async def ask(group: str) -> None:
        async with room:
            offsets = await admin.list_consumer_group_offsets(group)
        committed[group] = {where: None if each is None else each.offset for where, each in offsets.items()}

    described = await outcomes_of(admin.describe_consumer_groups(names))
    async with anyio.create_task_group() as asking:
        for name in names:
            asking.start_soon(ask, name)
    holders: dict[str, dict[TopicPartition, str]] = {}
    for name, found in described.items():
        if isinstance(found, GroupIdNotFoundError) and committed[name]:
            continue  # an older broker may not describe what has offsets alone
        if isinstance(found, KafkaError):
            raise found
        holders[name] = {where: member.client_id for member in found.members for where in member.assignment}
        for where in holders[name]:
            committed[name].setdefault(where, None)
    ends = await _ends(admin, {where for offsets in committed.values() for where in offsets})
    return [
        PartitionLag(name, where, offset, _offset(ends.get(where)), holders.get(name, {}).get(where))
        for name in names
        for where, offset in sorted(committed[name].items())
    ]


async def _ends(
    admin: AdminClient, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, OffsetAndTimestamp | KafkaError | None]:
    """The ends of partitions; of one that is gone, or has no leader, why it is not known."""
    wanted = dict.fromkeys(partitions, int(OffsetSpec.LATEST))
    return await outcomes_of(admin.list_offsets(wanted, timeout_ms=5000)) if wanted else {}


def _offset(end: OffsetAndTimestamp | KafkaError | None) -> int | None:
    return end.offset if isinstance(end, OffsetAndTimestamp) else None
