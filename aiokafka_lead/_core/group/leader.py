"""The leader of a classic group: one of the members, which decides for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..._options.logs import ClientLog
from ..._wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ...errors import AssignorError, KafkaError, MalformedMessageError
from ..metadata.types import ClusterSnapshot
from .assignors import Assignment, GroupAssignor, MemberSubscription, TopicPartitions, decode_subscription
from .assignors.claims import Claim, Claims

__all__ = ["Leader"]

LEARN_WITHIN_S = 2.0
"""How long a leader waits for metadata of a topic that it has not heard of, once."""


class Leader:
    """What a member knows of its group in the generations that it leads; nothing in others."""

    def __init__(self, log: ClientLog) -> None:
        self._log = log
        self._members: list[MemberSubscription] = []
        self.topics: frozenset[str] = frozenset()
        """Everything that anyone is subscribed to."""
        self._counts: Mapping[str, int] = {}
        """How many partitions each topic had when they were assigned."""
        self._learn_by = 0.0
        """Until when metadata is waited for."""
        self._waited_for: frozenset[str] = frozenset()
        """Topics that were waited for before, in this generation or an earlier one."""

    def joined(self, response: JoinGroupResponse, snapshot: ClusterSnapshot, now: float) -> bool:
        """A generation begins; whether the member is to assign all partitions in it."""
        self.end()
        if response.leader != response.member_id:
            return False
        self._begin(response.members, now)
        if response.skip_assignment:  # the group goes on with the assignment that it has (KIP-814)
            self._counts = TopicPartitions.from_snapshot(snapshot, self.topics).counts
        return not response.skip_assignment

    def _begin(self, members: Sequence[JoinGroupResponseMember], now: float) -> None:
        self._members = [_subscription(member, self._log) for member in members]
        self.topics = frozenset(topic for member in self._members for topic in member.topics)
        self._counts = {}
        self._learn_by = now + LEARN_WITHIN_S

    def end(self) -> None:
        """The generation is over."""
        self._members = []
        self.topics = frozenset()

    def waits_until(self, snapshot: ClusterSnapshot, now: float) -> float | None:
        """When to ask again, for lack of metadata; None if there is nothing to wait for any more."""
        lacking = frozenset(topic for topic in self.topics if not snapshot.partition_count(topic)) - self._waited_for
        if lacking and now < self._learn_by:
            return self._learn_by
        self._waited_for |= lacking
        return None

    def assign(self, assignor: GroupAssignor, snapshot: ClusterSnapshot) -> Assignment:
        """Every member's partitions. Raises `AssignorError`."""
        topics = TopicPartitions.from_snapshot(snapshot, self.topics)
        self._counts = topics.counts
        try:
            assignment = assignor.assign(self._members, topics)
        except KafkaError:
            raise
        except Exception as cause:
            raise AssignorError(f"the assignor {assignor.name!r} has failed: {cause!r}") from cause
        # Members that came from a cooperative generation to an eager one still own what they tell.
        claims = Claims([Claim(member.member_id, member.owned, member.generation) for member in self._members], topics)
        return claims.withhold({member.member_id: assignment.get(member.member_id, []) for member in self._members})

    def outdated(self, snapshot: ClusterSnapshot) -> str | None:
        """Why the assignment does not fit the cluster any more. A topic that is not seen now may be back soon."""
        for topic in sorted(self.topics):
            count = snapshot.partition_count(topic)
            before = self._counts.get(topic, 0)
            if count and count != before:
                return f"topic {topic} has {count} partitions, not {before}"
        return None


def _subscription(member: JoinGroupResponseMember, log: ClientLog) -> MemberSubscription:
    try:
        return decode_subscription(member.metadata, member.member_id, member.group_instance_id)
    except MalformedMessageError as error:
        log.warning("member %s gets nothing, for its subscription is not readable: %s", member.member_id, error)
        return MemberSubscription(member.member_id, ())
