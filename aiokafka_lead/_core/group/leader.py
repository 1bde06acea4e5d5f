"""What the leader of a classic group assigns, and whether it fits the member that gets it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..._options.logs import ClientLog
from ..._wire import Response
from ..._wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ..._wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ...errors import AssignorError, KafkaError, MalformedMessageError
from ...types import TopicPartition
from ..metadata.types import ClusterSnapshot
from .assignors import (
    Assignment,
    GroupAssignor,
    MemberSubscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
)
from .assignors.claims import Claim, Claims


class Fit:
    """Compares the assignment of a member with the topics with which it joined.

    The coordinator gives a static member that returns its place and its former assignment, without a rebalance, though
    its subscription may have changed (KIP-345, KAFKA-12759). Such a member would get nothing of its new topics, and
    hold partitions of topics that it no longer reads, until the group rebalances for another reason. So it asks for a
    rebalance, once for each subscription: what does not fit after that is its leader's doing, and would never end.
    Java asks if the assignment has topics to which the member is not subscribed (the end of
    ``ConsumerCoordinator.onJoinComplete``), and does nothing if it lacks topics.
    """

    def __init__(self, group_id: str, log: ClientLog) -> None:
        self._group_id = group_id
        self._log = log
        self.topics: frozenset[str] = frozenset()
        """Those with which the member asked to join last."""
        self._comes_back = False
        self._tried_for: frozenset[str] | None = None
        """The topics for which a rebalance was asked for, in vain so far."""
        self._lacks: frozenset[str] = frozenset()
        """Topics of which the member got nothing, after `doubts`."""

    def joins(self, topics: frozenset[str], *, comes_back: bool) -> None:
        """The member asks to join with these topics. ``comes_back``: it may be given a place that it had before."""
        self.topics, self._comes_back = topics, comes_back

    def misfit(self, assigned: Iterable[TopicPartition]) -> str | None:
        """Why the group is to rebalance, if the member got what it is not subscribed to; None if it is not to."""
        unwanted = {tp.topic for tp in assigned} - self.topics
        if not unwanted:
            self._tried_for = None
            return None
        if self._tried_for == self.topics:
            self._log.warning(
                "the leader of group %r assigns partitions of %s, to which this member is not subscribed: nobody reads "
                "these partitions",
                self._group_id,
                ", ".join(sorted(unwanted)),
            )
            return None
        self._tried_for = self.topics
        return f"the assignment is that of another subscription, with {', '.join(sorted(unwanted))}"

    def doubts(self, assigned: Iterable[TopicPartition], snapshot: ClusterSnapshot) -> bool:
        """Whether a member that has come back got nothing of a topic, so that the coordinator is to be asked whether
        others have it (by `question`)."""
        lacks = self.topics - {tp.topic for tp in assigned} if self._comes_back else ()
        self._lacks = frozenset(topic for topic in lacks if _may_exist(topic, snapshot))
        return bool(self._lacks)

    def question(self) -> DescribeGroupsRequest:
        """What all members have."""
        return DescribeGroupsRequest(groups=[self._group_id])

    def nobodys(self, response: Response | None) -> str | None:
        """Why the group is to rebalance, by the answer: a topic is nobody's. None where nothing shows that."""
        if not isinstance(response, DescribeGroupsResponse) or not response.groups:
            return None
        group = response.groups[0]
        if group.error_code or not group.members:
            return None
        try:
            held = {tp.topic for member in group.members for tp in decode_assignment(member.member_assignment)}
        except MalformedMessageError:
            return None  # a member of another kind of client: what it has cannot be known
        lacking = self._lacks - held
        return f"no member was assigned anything of {', '.join(sorted(lacking))}" if lacking else None


def _may_exist(topic: str, snapshot: ClusterSnapshot) -> bool:
    return topic not in snapshot.topics or bool(snapshot.partition_count(topic))


LEARN_WITHIN_S = 2.0
"""How long a leader waits for metadata of a topic that it has not heard of, once."""


class Leader:
    """The member that decides for all: it knows its group in the generations that it leads, and nothing in others."""

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
