"""A consumer group of the new protocol (KIP-848; Java: ``ConsumerGroup``, ``GroupMetadataManager``).

The group epoch increases with every change of members, subscriptions or topics. The next heartbeat computes the target
assignment for the new epoch. With each heartbeat, a member then moves one step towards its part of the target. Members
may also use the classic protocol: see `classic_members`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from ... import errors
from . import consumer_members
from .clock import Clock
from .configs import GroupConfigs
from .members import GroupOptions
from .offsets import Key

if TYPE_CHECKING:
    from .cluster import ClusterState

_FIRST_COMMIT_VERSION = 9
"""First version of OffsetCommit for members of the new protocol."""


class ConsumerGroup:
    """A group of the new protocol (KIP-848): its members, and the assignment that they move to."""

    def __init__(
        self,
        group_id: str,
        clock: Clock,
        options: GroupOptions,
        configs: GroupConfigs,
        cluster: ClusterState,
        only_classic_left: Callable[[ConsumerGroup], None],
    ) -> None:
        self.group_id = group_id
        self.clock = clock
        self._options = options
        self._configs = configs
        self._cluster = cluster
        # Called when the last member of the new protocol has left and other members remain.
        self._only_classic_left = only_classic_left
        self.epoch = 1
        # Epoch of the target assignment.
        self.target_epoch = 0
        self.target: dict[str, frozenset[consumer_members.Slot]] = {}
        self.members: dict[str, consumer_members.ConsumerMember] = {}
        # Static members' ids by instance id.
        self.static: dict[str, str] = {}
        # The topics of the members' subscriptions at the last check.
        self._subscribed: dict[UUID, int] = {}
        # The assignor named by most members at the last check.
        self._preferred = consumer_members.DEFAULT_ASSIGNOR

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def heartbeat(self, beat: consumer_members.Beat) -> consumer_members.BeatResult:
        """Process a heartbeat, by which a member joins, stays, leaves or reports changes.

        Raises the errors of the response.
        """
        if beat.epoch in (consumer_members.LEAVES, consumer_members.LEAVES_FOR_A_WHILE):
            return self._leave(beat)
        member = self._joining(beat) if beat.epoch == 0 else self._checked(beat)
        had = member.assigned.keys()
        self.advance(member, changed=member.update(beat), owned=beat.owned)
        self.heard_of(member, self._session_timeout_ms)
        says_all = beat.epoch == 0 or None not in (beat.rebalance_timeout_ms, beat.topics, beat.owned)
        tell = says_all or had != member.assigned.keys()
        return consumer_members.BeatResult(member.member_id, member.epoch, frozenset(member.assigned) if tell else None)

    @property
    def _session_timeout_ms(self) -> int:
        """Session timeout of members of the new protocol."""
        return self._configs.number(self.group_id, "consumer.session.timeout.ms")

    def _joining(self, beat: consumer_members.Beat) -> consumer_members.ConsumerMember:
        if beat.instance_id is None:
            known = self.members.get(beat.member_id)
            return self.add(beat.member_id) if known is None else known
        old = self.static_member(beat.instance_id)
        if old is not None and old.classic is None and old.epoch != consumer_members.LEAVES_FOR_A_WHILE:
            raise errors.UnreleasedInstanceIdError(
                f"instance id {beat.instance_id} is in use by member {old.member_id}"
            )
        return self.add_static(beat.member_id, beat.instance_id)

    def add(self, member_id: str) -> consumer_members.ConsumerMember:
        limit = self._options.max_size
        if limit is not None and len(self.members) >= limit:
            raise errors.GroupMaxSizeReachedError(f"group {self.group_id} already has {limit} members")
        member = consumer_members.ConsumerMember(member_id or str(uuid4()))
        self.members[member.member_id] = member
        return member

    def add_static(self, member_id: str, instance_id: str) -> consumer_members.ConsumerMember:
        """Add a static member, which replaces any member with the same instance id."""
        old = self.static_member(instance_id)
        if old is None:
            member = self.add(member_id)
        else:
            old.cancel_timers()
            del self.members[old.member_id]
            member = self.add(member_id)
            member.succeed(old)
            self.target[member.member_id] = self.target.pop(old.member_id, frozenset())
        self.static[instance_id] = member.member_id
        return member

    def static_member(self, instance_id: str) -> consumer_members.ConsumerMember | None:
        return self.members.get(self.static.get(instance_id, ""))

    def known_member(self, member_id: str, instance_id: str | None) -> consumer_members.ConsumerMember:
        """Return the member with these ids.

        Raises UnknownMemberIdError, or FencedInstanceIdError if another member has the instance id.
        """
        if instance_id is not None:
            static = self.static_member(instance_id)
            if static is None:
                raise errors.UnknownMemberIdError(f"Instance id {instance_id} is unknown.")
            if static.member_id != member_id:
                raise errors.FencedInstanceIdError(
                    f"instance id {instance_id} now belongs to member {static.member_id}"
                )
        member = self.members.get(member_id)
        if member is None:
            raise errors.UnknownMemberIdError(f"there is no member {member_id}")
        return member

    def _checked(self, beat: consumer_members.Beat) -> consumer_members.ConsumerMember:
        member = self.known_member(beat.member_id, beat.instance_id)
        if beat.epoch > member.epoch:
            raise errors.FencedMemberEpochError(
                f"member {beat.member_id} is at epoch {member.epoch}, not yet at {beat.epoch}"
            )
        if beat.epoch < member.epoch:
            # The response with the new epoch may have been lost, in which case the member has only its earlier
            # partitions.
            only_old = beat.owned is not None and beat.owned <= member.assigned.keys()
            if beat.epoch != member.previous_epoch or not only_old:
                raise errors.FencedMemberEpochError(
                    f"member {beat.member_id} is at epoch {member.epoch}, no longer at {beat.epoch}"
                )
        return member

    def _leave(self, beat: consumer_members.Beat) -> consumer_members.BeatResult:
        member = self.known_member(beat.member_id, beat.instance_id)
        if beat.epoch == consumer_members.LEAVES_FOR_A_WHILE:
            member.epoch, member.revoking = consumer_members.LEAVES_FOR_A_WHILE, frozenset()
        else:
            self.remove(member)
        return consumer_members.BeatResult(beat.member_id, beat.epoch, None)

    # --- epochs and the target ---------------------------------------------------------------------------------------

    def advance(
        self, member: consumer_members.ConsumerMember, *, changed: bool, owned: frozenset[consumer_members.Slot] | None
    ) -> None:
        """Advance the group's epoch and target if something has changed, and move ``member`` one step.

        ``changed`` is True if the member has joined or changed its subscription. ``owned`` contains the partitions that
        it has reported, or is None.
        """
        subscribed, assignor = self._topics_wanted(), self.assignor
        if changed or subscribed != self._subscribed or assignor != self._preferred:
            self.epoch += 1
            self._subscribed, self._preferred = subscribed, assignor
        if self.epoch > self.target_epoch:
            wanted = self._subscriptions()
            candidates = [
                consumer_members.Candidate(each.member_id, each.instance_id, wanted[each.topics, each.pattern])
                for each in self.members.values()
            ]
            self.target = consumer_members.SERVER_ASSIGNORS[assignor](candidates, self.target)
            self.target_epoch = self.epoch
        target = self.target.get(member.member_id, frozenset())
        member.reconcile(self.target_epoch, target, owned, lambda slot: not self._is_held(slot))
        self._watch_revocation(member)

    @property
    def assignor(self) -> str:
        """Name of the assignor that most members request, or the default on a tie or if no member requests one."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return max(
            votes,
            key=lambda name: (votes[name], name == consumer_members.DEFAULT_ASSIGNOR),
            default=consumer_members.DEFAULT_ASSIGNOR,
        )

    def _subscriptions(self) -> dict[tuple[frozenset[str], str], Mapping[UUID, int]]:
        """Return the topics of each distinct subscription, with their partition counts."""
        return {
            (names, pattern): {
                topic.topic_id: len(topic.partitions)
                for topic in self._cluster.topics.values()
                if topic.name in names or (pattern and re.fullmatch(pattern, topic.name))
            }
            for names, pattern in {(member.topics, member.pattern) for member in self.members.values()}
        }

    def _topics_wanted(self) -> dict[UUID, int]:
        return {topic: count for wanted in self._subscriptions().values() for topic, count in wanted.items()}

    def is_subscribed_to(self, topic: str) -> bool:
        found = self._cluster.topics.get(topic)
        return found is not None and found.topic_id in self._topics_wanted()

    @property
    def state_name(self) -> str:
        """Name of the state in ConsumerGroupDescribe."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        settled = all(member.is_reconciled(self.target_epoch) for member in self.members.values())
        return "Stable" if settled else "Reconciling"

    def is_waiting(self, member: consumer_members.ConsumerMember) -> bool:
        """Return True if the member cannot reach its target yet, because other members still own some of the
        partitions.
        """
        missing = self.target.get(member.member_id, frozenset()) - member.assigned.keys()
        return any(map(self._is_held, missing))

    def _is_held(self, slot: consumer_members.Slot) -> bool:
        """Return True if a member owns the partition or has not given it up yet."""
        return any(slot in each.assigned or slot in each.revoking for each in self.members.values())

    # --- commits -----------------------------------------------------------------------------------------------------

    def check_commit(
        self, member_id: str, epoch: int, version: int, *, transactional: bool
    ) -> Callable[[Key], None] | None:
        """Raise an error if the member may not commit offsets of the group.

        If the decision depends on the partition, returns a function that checks a partition.
        """
        if epoch < 0 and not self.members:
            return None
        member = self.known_member(member_id, None)
        if member.classic is None and not transactional and version < _FIRST_COMMIT_VERSION:
            raise errors.UnsupportedVersionError(
                f"members of group {self.group_id} need OffsetCommit version 9 or later"
            )
        if epoch == member.epoch:
            return None
        stale = (
            errors.StaleMemberEpochError(f"member {member_id} is at epoch {member.epoch}, not {epoch}")
            if member.classic is None
            else errors.IllegalGenerationError(f"member {member_id} is at generation {member.epoch}, not {epoch}")
        )
        if epoch > member.epoch:
            raise stale

        def check(key: Key) -> None:
            topic = self._cluster.topics.get(key[0])
            since = None if topic is None else member.assigned.get((topic.topic_id, key[1]))
            if since is None or epoch < since:
                raise stale

        return check

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise an error if a member with this epoch may not fetch the group's committed offsets."""
        if member_id is None and epoch < 0:
            return
        member = self.known_member(member_id or "", None)
        if epoch != member.epoch:
            raise errors.StaleMemberEpochError(f"member {member_id} is at epoch {member.epoch}, not {epoch}")

    # --- sessions and the end of membership --------------------------------------------------------------------------

    def heard_of(self, member: consumer_members.ConsumerMember, session_timeout_ms: int) -> None:
        """Restart the session timeout of a member that has sent a request.

        The timer is not moved, because it checks the deadline when it fires.
        """
        member.deadline = self.clock.now() + session_timeout_ms / 1000
        if member.session_timer is None:
            member.session_timer = self.clock.call_at(member.deadline, lambda: self._look_at_session(member))

    def _look_at_session(self, member: consumer_members.ConsumerMember) -> None:
        member.session_timer = None
        if self.members.get(member.member_id) is not member:
            return
        if self.clock.now() < member.deadline:
            member.session_timer = self.clock.call_at(member.deadline, lambda: self._look_at_session(member))
        else:
            self.remove(member)

    def _watch_revocation(self, member: consumer_members.ConsumerMember) -> None:
        """Set a member's rebalance timer, which removes the member if it does not give up its partitions."""
        if member.classic is not None or member.state is not consumer_members.MemberState.UNREVOKED:
            if member.rebalance_timer is not None:
                member.rebalance_timer.cancel()
                member.rebalance_timer = None
        elif member.rebalance_timer is None:
            when = self.clock.now() + member.rebalance_timeout_ms / 1000
            member.rebalance_timer = self.clock.call_at(when, lambda: self.remove(member))

    def remove(self, member: consumer_members.ConsumerMember) -> None:
        """Remove a member that has left or timed out. The group gets a new epoch."""
        if self.members.get(member.member_id) is not member:
            return
        del self.members[member.member_id]
        self.target.pop(member.member_id, None)
        member.cancel_timers()
        if member.instance_id is not None and self.static.get(member.instance_id) == member.member_id:
            del self.static[member.instance_id]
        if self.members and all(each.classic is not None for each in self.members.values()):
            self._only_classic_left(self)
            return
        self.epoch += 1
        self._subscribed, self._preferred = self._topics_wanted(), self.assignor
        if not self.members:  # there is no member to which to assign partitions
            self.target_epoch = self.epoch

    def coordinator_moved(self) -> None:
        """Restart all sessions, because another coordinator has taken over."""
        for member in self.members.values():
            timeout_ms = self._session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
            self.heard_of(member, timeout_ms)

    def close(self) -> None:
        """Cancel every timer, because the group is being deleted or becomes a classic group."""
        for member in self.members.values():
            member.cancel_timers()
