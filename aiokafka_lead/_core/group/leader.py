"""Assignment by the leader of a classic group, and each member's check that its own assignment fits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..._options.checks import INT32_MAX
from ..._options.logs import ClientLog
from ..._wire import Response
from ..._wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ..._wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ...errors import AssignorError, KafkaError, MalformedMessageError
from ...errors.shown import PARTITIONS_NAMED, some_of
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
from .assignors.types import Claim, Claims


class Fit:
    """Compares a member's assignment with the topics with which it joined.

    When a static member returns, the coordinator gives it its former assignment without a rebalance, even if its
    subscription has changed (KIP-345, KAFKA-12759). Until the next rebalance, the member would get no partitions of new
    topics, and keep partitions of topics that it no longer reads. If it leads the group, no member would get partitions
    that were created while it was away. It therefore requests a rebalance. It does so once for each subscription: if
    the assignment still does not fit, the group's leader has decided so, and further requests would never end. Java
    requests a rebalance if the assignment contains topics that are not subscribed (the end of
    ``ConsumerCoordinator.onJoinComplete``), but not if topics or partitions are missing.
    """

    def __init__(self, group_id: str, log: ClientLog) -> None:
        self._group_id = group_id
        self._log = log
        self.topics: frozenset[str] = frozenset()
        """The topics of the last JoinGroup request."""
        self._comes_back = False
        self._tried_for: frozenset[str] | None = None
        """The topics for which a rebalance was requested, until the assignment fits."""
        self._lacks: frozenset[str] = frozenset()
        """The topics of which the member got no partition, according to the last `doubts`."""
        self._uncertain: frozenset[TopicPartition] = frozenset()
        """Partitions that the member did not get, although it leads the group, according to the last `doubts`."""

    def joins(self, topics: frozenset[str], *, comes_back: bool) -> None:
        """Remember the topics of a JoinGroup request, to compare the assignment with them.

        ``comes_back`` is True if the member may get its former assignment.
        """
        self.topics, self._comes_back = topics, comes_back

    def misfit(self, assigned: Iterable[TopicPartition]) -> str | None:
        """Return the reason for a rebalance if the member got topics to which it is not subscribed, otherwise None."""
        unwanted = {tp.topic for tp in assigned} - self.topics
        if not unwanted:
            self._tried_for = None
            return None
        if self._tried_for == self.topics:
            self._log.warning(
                "the leader of group %r assigns this member partitions of %s, which it does not subscribe to: "
                "no member reads them",
                self._group_id,
                ", ".join(sorted(unwanted)),
            )
            return None
        self._tried_for = self.topics
        return f"the assignment is for another subscription, with {', '.join(sorted(unwanted))}"

    def doubts(self, assigned: Collection[TopicPartition], led: Collection[str], snapshot: ClusterSnapshot) -> bool:
        """Return True if a returning member should send `question` to check its assignment.

        It got no partition of some topic, or it leads the group. While the leader was away, no member noticed new
        partitions of ``led``, the topics of the group (empty for other members).
        """
        if not self._comes_back:
            return False
        lacks = self.topics - {tp.topic for tp in assigned}
        self._lacks = frozenset(topic for topic in lacks if _may_exist(topic, snapshot))
        existing = (TopicPartition(topic, i) for topic in led for i in range(snapshot.partition_count(topic)))
        self._uncertain = frozenset(existing).difference(assigned)
        return bool(self._lacks or self._uncertain)

    def question(self) -> DescribeGroupsRequest:
        """Return the request for the assignments of all members. `nobodys` reads the response."""
        return DescribeGroupsRequest(groups=[self._group_id])

    def nobodys(self, response: Response | None) -> str | None:
        """Return the reason for a rebalance if the members lack a partition or topic that one should have.

        Otherwise, returns None.
        """
        if not isinstance(response, DescribeGroupsResponse) or not response.groups:
            return None
        group = response.groups[0]
        if group.error_code or not group.members:
            return None
        try:
            held = {tp for member in group.members for tp in decode_assignment(member.member_assignment)}
        except MalformedMessageError:
            return None  # its partitions are unknown, because it is another kind of client
        lacking = self._lacks - {tp.topic for tp in held}
        if lacking:
            return f"no member was assigned a partition of {', '.join(sorted(lacking))}"
        new = sorted(self._uncertain - held)
        return f"no member was assigned {some_of(new, PARTITIONS_NAMED)}" if new else None


def _may_exist(topic: str, snapshot: ClusterSnapshot) -> bool:
    return topic not in snapshot.topics or bool(snapshot.partition_count(topic))


LEARN_WITHIN_S = 2.0
"""Seconds for which a leader waits for the metadata of a new topic. It waits once for each topic."""


class Leader:
    """Assigns the group's partitions while this member leads the group.

    While another member leads, it knows no members and no topics.
    """

    def __init__(self, log: ClientLog) -> None:
        self._log = log
        self._members: list[MemberSubscription] = []
        self.topics: frozenset[str] = frozenset()
        """All topics to which any member subscribes."""
        self._counts: Mapping[str, int] = {}
        """The number of partitions of each topic at the last assignment."""
        self._learn_by = 0.0
        """Deadline for metadata of a new topic."""
        self._waited_for: frozenset[str] = frozenset()
        """The topics for which the leader has already waited, or whose partitions it has already assigned, in any
        generation.
        """

    def joined(self, response: JoinGroupResponse, snapshot: ClusterSnapshot, now: float) -> bool:
        """Start a generation. Return True if this member has to assign the partitions.

        It has to if it leads the group, unless the group keeps its assignment (KIP-814).
        """
        self.end()
        if response.leader != response.member_id:
            return False
        self._begin(response.members, now)
        if response.skip_assignment:  # the group keeps its assignment (KIP-814)
            self._counts = TopicPartitions.from_snapshot(snapshot, self.topics).counts
        return not response.skip_assignment

    def _begin(self, members: Sequence[JoinGroupResponseMember], now: float) -> None:
        self._members = [_subscription(member, self._log) for member in members]
        self.topics = frozenset(topic for member in self._members for topic in member.topics)
        # A topic that had partitions is missing only if several responses agree that it was deleted. If no member has
        # subscribed to a topic for a while, its metadata has been dropped, so it counts as new.
        self._waited_for |= {topic for topic, count in self._counts.items() if count}
        self._waited_for &= self.topics
        self._counts = {}
        self._learn_by = now + LEARN_WITHIN_S

    def end(self) -> None:
        """Forget the members and their topics, because the membership has ended."""
        self._members = []
        self.topics = frozenset()

    def waits_until(self, snapshot: ClusterSnapshot, now: float) -> float | None:
        """Return the deadline for metadata of new topics, or None if there is nothing to wait for."""
        lacking = frozenset(topic for topic in self.topics if not snapshot.partition_count(topic)) - self._waited_for
        if lacking and now < self._learn_by:
            return self._learn_by
        self._waited_for |= lacking
        return None

    def assign(self, assignor: GroupAssignor, snapshot: ClusterSnapshot) -> Assignment:
        """Return the partitions of each member. Raises `AssignorError` if the assignor fails."""
        topics = TopicPartitions.from_snapshot(snapshot, self.topics)
        self._counts = topics.counts
        try:
            assignment = _checked(assignor.assign(self._members, topics), self._members)
        except KafkaError:
            raise
        except Exception as cause:
            raise AssignorError(f"the assignor {assignor.name!r} has failed: {cause!r}") from cause
        # Members that have changed from a cooperative to an eager assignor still own the partitions that they report.
        claims = Claims([Claim(member.member_id, member.owned, member.generation) for member in self._members], topics)
        return claims.withhold(assignment)

    def outdated(self, snapshot: ClusterSnapshot) -> str | None:
        """Return the reason why the assignment no longer fits the cluster, or None.

        A missing topic is not a reason, because it may return.
        """
        for topic in sorted(self.topics):
            count = snapshot.partition_count(topic)
            before = self._counts.get(topic, 0)
            if count and count != before:
                return f"topic {topic} has {count} partitions, not {before}"
        return None


def _checked(found: Any, members: Iterable[MemberSubscription]) -> Assignment:
    """Return an assignor's result after checking it against these members. Raises TypeError if it is invalid."""
    if not isinstance(found, Mapping):
        raise TypeError(f"assign() must return a dict of member ids to partitions, not {type(found).__name__}")
    return {member.member_id: [_partition(tp) for tp in found.get(member.member_id, ())] for member in members}


def _partition(given: Any) -> TopicPartition:
    if isinstance(given, tuple) and len(given) == 2:
        topic, partition = given
        if isinstance(topic, str) and isinstance(partition, int) and 0 <= partition <= INT32_MAX:
            return given if type(given) is TopicPartition else TopicPartition(topic, partition)
    raise TypeError(f"assign() must assign TopicPartition(topic, partition), not {given!r}")


def _subscription(member: JoinGroupResponseMember, log: ClientLog) -> MemberSubscription:
    try:
        return decode_subscription(member.metadata, member.member_id, member.group_instance_id)
    except MalformedMessageError as error:
        log.warning(
            "member %s gets no partitions, because its subscription cannot be read: %s", member.member_id, error
        )
        return MemberSubscription(member.member_id, ())
