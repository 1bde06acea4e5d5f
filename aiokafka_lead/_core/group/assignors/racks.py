"""Condition for racks to matter in an assignment (KIP-881)."""

from __future__ import annotations

from collections.abc import Iterable

from .types import TopicPartitions


def racks_matter(members: Iterable[str | None], topics: TopicPartitions, names: Iterable[str]) -> bool:
    """Return True if members and replicas share racks, and not every rack has a replica of every partition."""
    member_racks = {rack for rack in members if rack}
    if not member_racks:
        return False
    sets = {topics.partition_racks(name, index) for name in names for index in range(topics.counts[name])}
    everywhere = frozenset[str]().union(*sets)
    return not everywhere.isdisjoint(member_racks) and sets != {everywhere}
