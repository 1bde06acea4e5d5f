"""Assignment according to the subscription, updated when the cluster's topics change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.reading import Reading
from ..._core.consumer.reset_policy import EARLIEST, LATEST, ResetPolicy
from ..._core.consumer.subscription import Subscription, SubscriptionKind, for_brokers
from ..._core.metadata.types import ClusterSnapshot, Moved
from ...types import TopicPartition
from ..client import Client

if TYPE_CHECKING:
    from ..group.membership import Membership
    from ..group.standing import Standing
    from ..group.task import GroupTask

BEYOND_ANY_PARTITION = 2**31


class KeptTopics:
    """Determines the topics whose metadata is kept: the subscribed ones, and those that a group's leader needs."""

    def __init__(self, client: Client, subscription: Subscription) -> None:
        self._client = client
        self._subscription = subscription
        self._interest: frozenset[str] = frozenset()
        """Topics that this member needs as the leader of its group."""
        self._topics: frozenset[str] = frozenset()
        """Topics whose metadata is currently kept."""
        self._first_counts: dict[str, int] = {}
        """The number of partitions of each subscribed topic when it was first seen. It is used only with a group."""

    def keep(self, interest: frozenset[str]) -> None:
        """Keep the metadata of the subscribed topics and of ``interest``, the topics that the group's leader needs."""
        self._interest = interest
        before, self._topics = self._topics, self._subscription.topics | interest
        if before != self._topics:
            self._client.metadata.add_topics(self._topics - before)
            self._client.metadata.remove_topics(before - self._topics)

    def subscription_changed(self) -> None:
        """Keep the topics of the new subscription, and forget the partition counts of the old one."""
        self._first_counts.clear()
        self.keep(self._interest)

    def heard_of(self, topics: Iterable[str], snapshot: ClusterSnapshot) -> None:
        """Store the partition counts of these topics when they first appear in a snapshot. See `is_late`."""
        for topic in topics:
            if topic in snapshot.topics:
                self._first_counts.setdefault(topic, snapshot.partition_count(topic))

    def is_late(self, tp: TopicPartition) -> bool:
        """Return True if the partition was created while its topic was already being read."""
        return tp.partition >= self._first_counts.get(tp.topic, BEYOND_ANY_PARTITION)


class Subscriber:
    """Applies the subscription to the assignment.

    Without a group, it assigns all partitions of the topics. In a group, the group does. "latest" means all records
    that are written after the call of ``subscribe``. A partition that is created later is therefore read from its
    beginning, even if its topic did not exist before.
    """

    def __init__(
        self,
        client: Client,
        subscription: Subscription,
        topics: KeptTopics,
        reading: Reading,
        reset_policy: ResetPolicy | None,
        membership: Membership | None,
    ) -> None:
        self._client = client
        self._subscription = subscription
        self._topics = topics
        self._reading = reading
        self._reset_policy = reset_policy
        self._membership = membership
        self._watched: ClusterSnapshot | None = None
        """The snapshot for which the subscription was last checked."""
        self._seen: set[str] = set()
        """Topics of the current subscription that a response has mentioned, even as missing."""
        self._assigning = False
        """True while an assignment is waiting for the consumer to leave the group."""

    def start(self) -> None:
        """Start following the cluster's topics. Called after the first metadata."""
        self._client.metadata.add_listener(self._on_metadata)
        self.changed(started=True)

    def changed(self, *, started: bool) -> None:
        """Act on a change of the subscription by the application. ``started`` is True after the consumer's start."""
        subscription = self._subscription
        self._watched = None
        self._seen.clear()
        self._topics.subscription_changed()
        self._client.metadata.set_all_topics(subscription.kind is SubscriptionKind.PATTERN)
        membership = self._membership
        by_group = membership is not None and subscription.by_topics
        if membership is not None:
            self._abandon_unwanted()
        # As in Java, records of unsubscribed topics are not handed out while the group revokes their partitions.
        named = by_group and subscription.kind is SubscriptionKind.TOPICS
        self._reading.read_only(subscription.topics if named else None)
        if started and membership is not None and not by_group:
            membership.task.unsubscribe()
            if not membership.standing.out:
                if not self._assigning:
                    self._assigning = True
                    self._client.spawn(self._assign_when_out, membership.standing, name="leave the group")
                return
        if not by_group:
            self._assign(subscription.assigned)
        if started:
            self._apply(self._client.metadata.snapshot)

    def _abandon_unwanted(self) -> None:
        """Keep the group from waiting for records in hand of partitions that the application has just given up.

        The application may never read again. A call that waits for the new assignment would wait for its own caller.
        """
        wanted = self._subscription.matched(self._client.metadata.snapshot) if self._subscription.by_topics else ()
        for state in self._reading.positions:
            if state.tp.topic not in wanted:
                self._reading.in_hand.abandon(state.tp)

    async def _assign_when_out(self, standing: Standing) -> None:
        await standing.wait_until_out()
        self._assigning = False
        if not self._subscription.by_topics:
            self._assign(self._subscription.assigned)

    def watch(self, now: float) -> float | None:
        """Report missing and forbidden topics to the next read.

        Returns the time of the next check (``time.monotonic()``), or None if no topic is in question.
        """
        subscription, snapshot = self._subscription, self._client.metadata.snapshot
        due = subscription.next_problem()
        if snapshot is not self._watched or (due is not None and now >= due):
            self._watched = snapshot
            for name, error in subscription.problems(snapshot, now):
                self._reading.prefetch.report(("absent", name), error)
        return subscription.next_problem()

    def _on_metadata(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        if moved.topics:
            self._apply(snapshot)

    def _apply(self, snapshot: ClusterSnapshot) -> None:
        """Assign the partitions that the subscription selects in this snapshot.

        In a group, pass the subscription to the member instead, because the group assigns partitions.
        """
        subscription = self._subscription
        if not subscription.by_topics:
            return
        if self._membership is not None:
            self._tell_group(self._membership.task, snapshot)
            return
        wanted = set(subscription.partitions(snapshot))
        if subscription.kind is SubscriptionKind.TOPICS:
            # A topic that is missing in one response may be in the next. Dropping its positions would lose records.
            wanted |= self._reading.positions.assigned
        if wanted != self._reading.positions.assigned:
            added = self._assign(tuple(sorted(wanted)))
            if self._reset_policy is LATEST:
                for state in added:
                    if state.tp.topic in self._seen:
                        state.reset(EARLIEST)
        self._seen.update(snapshot.topics)

    def _tell_group(self, group: GroupTask, snapshot: ClusterSnapshot) -> None:
        from ..._core.group.member import Wanted  # imported here because not all consumers have a group

        subscription = self._subscription
        if subscription.pattern is None:
            wanted = Wanted(subscription.topics)
        else:
            wanted = Wanted(frozenset(subscription.matched(snapshot)), for_brokers(subscription.pattern))
        self._topics.heard_of(wanted.topics, snapshot)
        group.subscribe(wanted, subscription.listener)

    def _assign(self, partitions: tuple[TopicPartition, ...]) -> list[PartitionState]:
        membership = self._membership
        if membership is not None and membership.auto_commit is not None and len(self._reading.positions):
            membership.auto_commit.commit_soon()
        return self._reading.assign(partitions)[0]
