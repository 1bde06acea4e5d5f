"""The simple assignor of share groups, which distributes partitions evenly (Java: ``SimpleAssignor``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from .consumer_members import Candidate, Slot
from .server_assignors import Target


def simple(members: Sequence[Candidate], before: Mapping[str, Set[Slot]]) -> Target:
    """Assign so that the members of two partitions differ by one at most, with few changes.

    If all members want the same topics, all partitions are distributed together; otherwise each topic separately.
    """
    target: dict[str, set[Slot]] = {member.member_id: set() for member in members}
    slots = sorted(
        {(topic, index) for each in members for topic, count in each.wanted.items() for index in range(count)}
    )
    if all(member.wanted == members[0].wanted for member in members):
        _share(slots, [member.member_id for member in members], before, target)
    else:
        for topic in sorted({topic for topic, _ in slots}):
            seekers = [member.member_id for member in members if topic in member.wanted]
            _share([slot for slot in slots if slot[0] == topic], seekers, before, target)
    return {member_id: frozenset(given) for member_id, given in target.items()}


def _share(
    slots: Sequence[Slot], seekers: Sequence[str], before: Mapping[str, Set[Slot]], target: dict[str, set[Slot]]
) -> None:
    """Distribute partitions among the members that want them, and add each one's share to ``target``."""
    if not slots:
        return
    sharing = -(-len(seekers) // len(slots))
    places = sharing * len(slots)
    # As even as integers allow.
    wanted = {
        member_id: -(-places * (place + 1) // len(seekers)) + (-places * place // len(seekers))
        for place, member_id in enumerate(seekers)
    }
    holders: dict[Slot, set[str]] = {slot: set() for slot in slots}
    for member_id in seekers:
        kept = sorted(slot for slot in before.get(member_id, ()) if slot in holders)
        for slot in kept:
            if wanted[member_id] > 0 and len(holders[slot]) < sharing:
                holders[slot].add(member_id)
                wanted[member_id] -= 1
    hungry = [member_id for member_id in seekers if wanted[member_id] > 0]
    turn = 0
    for slot in slots:
        passed = 0
        while hungry and len(holders[slot]) < sharing and passed < len(hungry):
            turn %= len(hungry)
            member_id = hungry[turn]
            if member_id in holders[slot]:
                turn += 1
                passed += 1
                continue
            holders[slot].add(member_id)
            wanted[member_id] -= 1
            passed = 0
            if wanted[member_id]:
                turn += 1
            else:
                hungry.remove(member_id)
    for slot, given in holders.items():
        for member_id in given:
            target[member_id].add(slot)
