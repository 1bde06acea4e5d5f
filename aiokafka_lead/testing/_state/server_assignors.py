"""Server-side assignors (Java: ``UniformAssignor`` and ``RangeAssignor`` of the group coordinator)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from uuid import UUID

from .consumer_members import Candidate, Slot

Target = dict[str, frozenset[Slot]]
"""Assignment of each member, by its id."""

DEFAULT_ASSIGNOR = "uniform"


def _slots(topics: Mapping[UUID, int]) -> list[Slot]:
    return [(topic, index) for topic in sorted(topics) for index in range(topics[topic])]


def _in_order(members: Sequence[Candidate]) -> list[Candidate]:
    """Return static members first, by instance id."""
    return sorted(members, key=lambda member: (member.instance_id is None, member.instance_id or member.member_id))


def uniform(members: Sequence[Candidate], before: Mapping[str, Set[Slot]]) -> Target:
    """Assign evenly with few moves. Members with too many partitions give some to the members with the fewest."""
    given: dict[str, set[Slot]] = {}
    free: set[Slot] = set()
    seekers: dict[UUID, list[str]] = {}
    alike: dict[int, set[Slot]] = {}  # members with the same subscription share the topics
    for member in _in_order(members):
        wanted = alike.get(id(member.wanted))
        if wanted is None:
            wanted = alike[id(member.wanted)] = set(_slots(member.wanted))
            free |= wanted
        given[member.member_id] = set(before.get(member.member_id, ())) & wanted
        for topic in member.wanted:
            seekers.setdefault(topic, []).append(member.member_id)
    free -= set[Slot]().union(*given.values())
    loads = {member_id: len(slots) for member_id, slots in given.items()}

    def give(slot: Slot, member_id: str) -> None:
        given[member_id].add(slot)
        loads[member_id] += 1

    for slot in sorted(free):
        give(slot, min(seekers[slot[0]], key=loads.__getitem__))
    moving = True
    while moving:
        moving = False
        for rich in sorted(given, key=lambda member_id: -loads[member_id]):
            if loads[rich] <= min(loads.values()) + 1:
                break
            for slot in sorted(given[rich], reverse=True):
                poor = min(seekers[slot[0]], key=loads.__getitem__)
                if loads[poor] + 1 < loads[rich]:
                    given[rich].remove(slot)
                    loads[rich] -= 1
                    give(slot, poor)
                    moving = True
    return {member_id: frozenset(slots) for member_id, slots in given.items()}


def ranges(members: Sequence[Candidate], before: Mapping[str, Set[Slot]]) -> Target:
    """Assign consecutive partitions of each topic. The first members get one more if necessary."""
    given: dict[str, set[Slot]] = {member.member_id: set() for member in members}
    topics = {topic: count for member in members for topic, count in member.wanted.items()}
    for topic, count in topics.items():
        seekers = [member.member_id for member in _in_order(members) if topic in member.wanted]
        share, extras = divmod(count, len(seekers))
        start = 0
        for place, member_id in enumerate(seekers):
            end = start + share + (place < extras)
            given[member_id].update((topic, index) for index in range(start, end))
            start = end
    return {member_id: frozenset(slots) for member_id, slots in given.items()}


SERVER_ASSIGNORS: Mapping[str, Callable[[Sequence[Candidate], Mapping[str, Set[Slot]]], Target]] = {
    DEFAULT_ASSIGNOR: uniform,
    "range": ranges,
}
