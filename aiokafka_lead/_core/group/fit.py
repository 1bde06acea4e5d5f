"""Whether an assignment fits the member that gets it.

The coordinator gives a static member that comes back its place and the assignment that it had, without a rebalance,
though its subscription may be another one by now (KIP-345, KAFKA-12759). Such a member would get nothing of the topics
that are new to it, and hold partitions of topics that it does not read any more, for as long as the group has no other
reason to rebalance. So it asks for a rebalance (Java: the end of ``ConsumerCoordinator.onJoinComplete``, where the
assignment has topics to which the member is not subscribed; where it lacks topics to which the member is, Java does
nothing).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..._options.logs import ClientLog
from ..._wire import Response
from ..._wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ...errors import MalformedMessageError
from ...types import TopicPartition
from ..metadata.types import ClusterSnapshot
from .assignors import decode_assignment

__all__ = ["Fit"]


class Fit:
    """Compares what a member is assigned with the topics with which it joined. A rebalance is asked for once for each
    subscription: what does not fit after that either is its leader's doing, and would never end.
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
