"""Where a reader begins and where it ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..admin import AdminClient, OffsetSpec
from ..errors import ConfigError
from ..types import TopicPartition
from .times import moment_ms

__all__ = ["beginnings", "endings"]


async def beginnings(
    admin: AdminClient, partitions: Collection[TopicPartition], place: str
) -> dict[TopicPartition, int]:
    """The offset at which each partition is begun.

    ``beginning``, ``end``, an offset, ``-N`` for the last so many records, ``@TIME`` for the first at or after a time.
    """
    first = await _offsets(admin, dict.fromkeys(partitions, int(OffsetSpec.EARLIEST)))
    last = await _offsets(admin, dict.fromkeys(partitions, int(OffsetSpec.LATEST)))
    if place in ("beginning", "earliest"):
        return first
    if place in ("end", "latest"):
        return last
    if place.startswith("@"):
        found = await admin.list_offsets(dict.fromkeys(partitions, moment_ms(place[1:])))
        return {where: last[where] if at is None else at.offset for where, at in found.items()}
    number = _number(place, "--offset")
    if place.startswith("-"):
        return {where: max(first[where], last[where] + number) for where in partitions}
    return {where: max(first[where], min(number, last[where])) for where in partitions}


async def endings(
    admin: AdminClient, partitions: Collection[TopicPartition], place: str | None
) -> Mapping[TopicPartition, int] | None:
    """The offset before which each partition ends; None for a reader that does not end.

    ``end``, an offset, or ``@TIME``; never beyond the end as it is now.
    """
    if place is None:
        return None
    last = await _offsets(admin, dict.fromkeys(partitions, int(OffsetSpec.LATEST)))
    if place in ("end", "latest"):
        return last
    if place.startswith("@"):
        found = await admin.list_offsets(dict.fromkeys(partitions, moment_ms(place[1:])))
        return {where: last[where] if at is None else at.offset for where, at in found.items()}
    number = _number(place, "--until")
    return {where: min(number, last[where]) for where in partitions}


async def _offsets(admin: AdminClient, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {where: 0 if found is None else found.offset for where, found in (await admin.list_offsets(at)).items()}


def _number(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{option} takes beginning, end, an offset or @TIME, not {text!r}") from None
