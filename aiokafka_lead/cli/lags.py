"""Lag of consumer groups and share groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import anyio

from ..admin import AdminClient, GroupListing, GroupType, OffsetSpec, outcomes_of
from ..errors import GroupIdNotFoundError, KafkaError
from ..types import OffsetAndTimestamp, TopicPartition
from .failures import ExitCode, exit_code
from .names import listed_groups
from .session import Session

_AT_ONCE = 32
"""Maximum number of groups whose offsets are requested at the same time."""

OTHER_GROUPS = ""
"""Key for the error of brokers that did not answer, because the ids of their groups are unknown."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Position and lag of a group in a partition."""

    group: str
    where: TopicPartition
    committed: int | None
    """The committed offset, or the start offset of a share group; None if there is none."""
    end: int | None
    """The high watermark; None if it is unknown."""
    member: str | None
    """The client id of the member with this partition. A share group may have several, separated by commas."""
    counted: int | None = None
    """Lag that the brokers report for a share group. Records after the start offset may already be acknowledged, so
    ``end - committed`` would be too large."""
    failure: KafkaError | None = None
    """Reason why the end is unknown."""

    @property
    def lag(self) -> int | None:
        """Number of offsets between the position and the end; None if either is unknown."""
        if self.counted is not None:
            return self.counted
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


class _Places:
    """Collects the committed offsets and the members of groups, before the ends of the partitions are known."""

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        """Time limit in milliseconds of each request about groups."""
        self.committed: dict[str, dict[TopicPartition, int | None]] = {}
        self.holders: dict[str, dict[TopicPartition, str]] = {}
        self.counted: dict[tuple[str, TopicPartition], int | None] = {}
        self.failures: dict[str, KafkaError] = {}

    def within_reach(self, described: Mapping[str, object]) -> list[str]:
        """Return the groups whose coordinators have responded. Store the errors of the other groups in `failures`."""
        away = {name: each for name, each in described.items() if isinstance(each, KafkaError) and is_away(each)}
        self.failures |= away
        return [name for name in described if name not in away]


def is_away(error: KafkaError) -> bool:
    """Return True if the error means that a broker is unreachable or did not answer in time."""
    return exit_code(error) is ExitCode.UNREACHABLE


async def lag_of_groups(
    session: Session, admin: AdminClient, groups: Iterable[str] | None = None
) -> tuple[list[PartitionLag], dict[str, KafkaError]]:
    """Return the lag in each partition in which a group has an offset or a member, and the errors of groups.

    If ``groups`` is None, the result contains every share group, and every other group that commits offsets.
    """
    listing, unasked = await listed_groups(session, admin)
    listed = {group.group_id: group for group in listing}
    names = (
        sorted(name for name, group in listed.items() if _has_lag(group))
        if groups is None
        else [*dict.fromkeys(groups)]
    )
    shares = [name for name in names if name in listed and listed[name].type is GroupType.SHARE]
    places = _Places(session.options["request_timeout_ms"])
    if groups is None and unasked is not None:
        places.failures[OTHER_GROUPS] = unasked
    await _look_at_consumers(admin, [name for name in names if name not in shares], places)
    await _look_at_shares(admin, shares, places)
    ends = await _ends(admin, {where for offsets in places.committed.values() for where in offsets})
    found = [
        PartitionLag(
            name,
            where,
            offset,
            end.offset if isinstance(end, OffsetAndTimestamp) else None,
            places.holders.get(name, {}).get(where),
            places.counted.get((name, where)),
            end if isinstance(end, KafkaError) else None,
        )
        for name in names
        if name not in places.failures
        for where, offset in sorted(places.committed[name].items())
        for end in [ends.get(where)]
    ]
    return found, places.failures


def _has_lag(group: GroupListing) -> bool:
    if group.type in (GroupType.CLASSIC, GroupType.CONSUMER, GroupType.UNKNOWN):
        return group.protocol_type in ("", "consumer")
    return group.type is GroupType.SHARE


async def _look_at_consumers(admin: AdminClient, names: Sequence[str], places: _Places) -> None:
    """Store the committed offsets of consumer groups, and the members that read the partitions."""

    async def ask(group: str) -> None:
        offsets = await admin.list_consumer_group_offsets(group, timeout_ms=places.timeout_ms)
        places.committed[group] = {where: None if each is None else each.offset for where, each in offsets.items()}

    if not names:
        return
    described = await outcomes_of(admin.describe_consumer_groups(names, timeout_ms=places.timeout_ms))
    await _each(ask, places.within_reach(described), places.failures)
    for name, found in described.items():
        if name in places.failures:
            continue
        if isinstance(found, GroupIdNotFoundError) and places.committed[name]:
            continue  # older brokers do not describe a group that has offsets but never had members
        if isinstance(found, KafkaError):
            places.failures[name] = found
            continue
        places.holders[name] = {where: member.client_id for member in found.members for where in member.assignment}
        for where in places.holders[name]:
            places.committed[name].setdefault(where, None)


async def _look_at_shares(admin: AdminClient, names: Sequence[str], places: _Places) -> None:
    """Store the start offsets, lags and members of share groups in ``places``."""

    async def ask(group: str) -> None:
        offsets = await admin.list_share_group_offsets(group, timeout_ms=places.timeout_ms)
        places.committed[group] = {where: each and each.start_offset for where, each in offsets.items()}
        places.counted.update({(group, where): each and each.lag for where, each in offsets.items()})

    if not names:
        return
    described = await outcomes_of(admin.describe_share_groups(names, timeout_ms=places.timeout_ms))
    await _each(ask, places.within_reach(described), places.failures)
    for name, found in described.items():
        if name in places.failures:
            continue
        if isinstance(found, KafkaError):
            places.failures[name] = found
            continue
        sharing: dict[TopicPartition, list[str]] = {}
        for member in found.members:
            for where in member.assignment:
                sharing.setdefault(where, []).append(member.client_id)
        places.holders[name] = {where: ", ".join(sorted(clients)) for where, clients in sharing.items()}
        for where in sharing:
            places.committed[name].setdefault(where, None)


async def _each(ask: Callable[[str], Awaitable[None]], names: Iterable[str], failures: dict[str, KafkaError]) -> None:
    room = anyio.Semaphore(_AT_ONCE)

    async def in_turn(name: str) -> None:
        async with room:
            try:
                await ask(name)
            except KafkaError as error:
                failures[name] = error

    async with anyio.create_task_group() as asking:
        for name in names:
            asking.start_soon(in_turn, name)


async def _ends(
    admin: AdminClient, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, OffsetAndTimestamp | KafkaError | None]:
    """Return the end of each partition, or an error if the partition does not exist or has no leader."""
    wanted = dict.fromkeys(partitions, int(OffsetSpec.LATEST))
    return await outcomes_of(admin.list_offsets(wanted, timeout_ms=5000)) if wanted else {}
