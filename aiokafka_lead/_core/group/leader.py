"""The leader of a classic group: one of the members, which decides for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..._logs import ClientLog
from ..._wire.messages.join_group import JoinGroupResponseMember
from ...errors import AssignorError, KafkaError, MalformedMessageError
from ..metadata.types import ClusterSnapshot
from .assignors import Assignment, GroupAssignor, MemberSubscription, TopicPartitions, decode_subscription
from .assignors.claims import Claim, Claims

__all__ = ["Leader"]


class Leader:
    """What a generation's leader knows of its group."""

    def __init__(self, members: Sequence[JoinGroupResponseMember], log: ClientLog) -> None:
        self.members = [_subscription(member, log) for member in members]
        self.topics = frozenset(topic for member in self.members for topic in member.topics)
        """Everything that anyone is subscribed to."""
        self._counts: Mapping[str, int] = {}
        """How many partitions each topic had when they were assigned."""

    def lacks(self, snapshot: ClusterSnapshot) -> frozenset[str]:
        """Topics that the client has not heard of."""
        return frozenset(topic for topic in self.topics if not snapshot.partition_count(topic))

    def assign(self, assignor: GroupAssignor, snapshot: ClusterSnapshot) -> Assignment:
        """Every member's partitions. Raises `AssignorError`."""
        topics = TopicPartitions.from_snapshot(snapshot, self.topics)
        self._counts = topics.counts
        try:
            assignment = assignor.assign(self.members, topics)
        except KafkaError:
            raise
        except Exception as cause:
            raise AssignorError(f"the assignor {assignor.name!r} has failed: {cause!r}") from cause
        # Members that came from a cooperative generation to an eager one still own what they tell.
        claims = Claims([Claim(member.member_id, member.owned, member.generation) for member in self.members], topics)
        return claims.withhold({member.member_id: assignment.get(member.member_id, []) for member in self.members})

    def keep(self, snapshot: ClusterSnapshot) -> None:
        """The group goes on with the assignment that it has (KIP-814)."""
        self._counts = TopicPartitions.from_snapshot(snapshot, self.topics).counts

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
