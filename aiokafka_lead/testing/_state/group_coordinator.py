"""All consumer groups of the cluster."""

from __future__ import annotations

from ...errors import (
    GroupIdNotFoundError,
    InvalidSessionTimeoutError,
    NonEmptyGroupError,
    NotCoordinatorError,
    UnknownMemberIdError,
)
from .clock import Clock
from .coordinators import slot_of
from .group import Group
from .members import GroupOptions, JoinRequest
from .offsets import Offsets


class GroupCoordinator:
    """Groups by id. A group is there from its first member, or as long as it has offsets."""

    def __init__(self, clock: Clock, options: GroupOptions) -> None:
        self._clock = clock
        self.options = options
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()

    def to_join(self, group_id: str, request: JoinRequest) -> Group:
        """The group that somebody wants to join; a new one for a new member."""
        limits = self.options
        if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
            raise InvalidSessionTimeoutError(
                f"session timeout {request.session_timeout_ms} ms is not in "
                f"{limits.min_session_timeout_ms}..{limits.max_session_timeout_ms}"
            )
        group = self.groups.get(group_id)
        if group is None:
            if request.member_id:
                raise UnknownMemberIdError(f"there is no group {group_id}")
            group = self.groups[group_id] = Group(group_id, self._clock, self.options)
        return group

    def of_member(self, group_id: str) -> Group:
        """The group of somebody who says that he is a member."""
        group = self.groups.get(group_id)
        if group is None:
            raise UnknownMemberIdError(f"there is no group {group_id}")
        return group

    def check_commit(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, *, transactional: bool = False
    ) -> None:
        group = self.groups.get(group_id)
        if group is not None:
            group.check_commit(member_id, instance_id, generation, transactional=transactional)
        elif generation >= 0 and self.known(group_id):
            raise UnknownMemberIdError(f"group {group_id} has no members")
        elif generation >= 0:
            raise GroupIdNotFoundError(f"there is no group {group_id}")

    def known(self, group_id: str) -> bool:
        return group_id in self.groups or bool(self.offsets.of(group_id))

    def all_ids(self) -> list[str]:
        return sorted({*self.groups, *self.offsets.groups()})

    def delete(self, group_id: str) -> None:
        """Delete a group without members, with its offsets."""
        if not self.known(group_id):
            raise GroupIdNotFoundError(f"there is no group {group_id}")
        group = self.groups.get(group_id)
        if group is not None:
            if group.members:
                raise NonEmptyGroupError(f"group {group_id} has members")
            group.close()
            del self.groups[group_id]
        self.offsets.delete_group(group_id)

    def slot_moved(self, slot: int) -> None:
        """The groups of a slot have another coordinator: nobody is answered at the old one."""
        for group in self.groups.values():
            if slot_of(group.group_id) == slot:
                group.coordinator_moved(NotCoordinatorError())
