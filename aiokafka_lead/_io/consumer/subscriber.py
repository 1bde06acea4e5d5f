"""Turns the subscription into an assignment, again whenever the cluster's topics change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.positions import Positions
from ..._core.consumer.prefetch import Prefetch
from ..._core.consumer.reset_policy import EARLIEST, LATEST, ResetPolicy
from ..._core.consumer.subscription import Subscription, SubscriptionKind
from ..._core.group.member import Wanted
from ..._core.metadata.types import ClusterSnapshot
from ...types import TopicPartition
from ..client import Client

if TYPE_CHECKING:
    from ..group.auto_commit import AutoCommit
    from ..group.task import GroupTask

__all__ = ["Subscriber"]

BEYOND_ANY_PARTITION = 2**31


class Subscriber:
    """Without a group: every partition of the topics. With one, the group is told what is wanted, and assigns it.

    "latest" means the records written from now on. So a partition that is made later is read from its beginning, be it
    because its topic grew or because its topic was not there before.
    """

    def __init__(
        self,
        client: Client,
        subscription: Subscription,
        positions: Positions,
        prefetch: Prefetch,
        reset_policy: ResetPolicy | None,
        auto_commit: AutoCommit | None,
        group: GroupTask | None,
    ) -> None:
        self._client = client
        self._subscription = subscription
        self._positions = positions
        self._prefetch = prefetch
        self._reset_policy = reset_policy
        self._auto_commit = auto_commit
        self._group = group
        if group is not None:
            group.on_interest = self._keep
            group.tell_late(lambda tp: tp.partition >= self._first_counts.get(tp.topic, BEYOND_ANY_PARTITION))
        self._watched: ClusterSnapshot | None = None
        """What the subscription was last compared with for problems."""
        self._interest: frozenset[str] = frozenset()
        """Topics that the group's leader needs to know."""
        self._topics: frozenset[str] = frozenset()
        """The topics that metadata keeps for this consumer."""
        self._seen: set[str] = set()
        """Topics of the present subscription that an answer was about, whether it knew them or not."""
        self._first_counts: dict[str, int] = {}
        """With a group: how many partitions the topics had when they were first heard of."""
        self._assigning = False
        """Partitions are to be assigned as soon as the group has been left."""

    def start(self) -> None:
        """Follow the cluster's topics; the client has its first metadata."""
        self._client.metadata.add_listener(self._apply)
        self.changed(started=True)

    def changed(self, *, started: bool) -> None:
        """The application has changed the subscription."""
        subscription = self._subscription
        self._watched = None
        self._seen.clear()
        self._first_counts.clear()
        self._keep(self._interest)
        self._client.metadata.set_all_topics(subscription.kind is SubscriptionKind.PATTERN)
        by_group = self._group is not None and subscription.by_topics
        if started and self._group is not None and not by_group:
            self._group.unsubscribe()
            if not self._group.out:
                if not self._assigning:
                    self._assigning = True
                    self._client.spawn(self._assign_when_out, self._group, name="leave the group")
                return
        if not by_group:
            self._assign(subscription.assigned)
        if started:
            self._apply(self._client.metadata.snapshot)

    async def _assign_when_out(self, group: GroupTask) -> None:
        await group.wait_until_out()
        self._assigning = False
        if not self._subscription.by_topics:
            self._assign(self._subscription.assigned)

    def watch(self, now: float) -> float | None:
        """Report what cannot be read; returns when to ask again."""
        subscription, snapshot = self._subscription, self._client.metadata.snapshot
        due = subscription.next_problem()
        if snapshot is not self._watched or (due is not None and now >= due):
            self._watched = snapshot
            for name, error in subscription.problems(snapshot, now):
                self._prefetch.report(("absent", name), error)
        return subscription.next_problem()

    def _keep(self, interest: frozenset[str]) -> None:
        """Have metadata of the subscription's topics, and of those that the group's leader needs."""
        self._interest = interest
        before, self._topics = self._topics, self._subscription.topics | interest
        if before != self._topics:
            self._client.metadata.add_topics(self._topics - before)
            self._client.metadata.remove_topics(before - self._topics)

    def _apply(self, snapshot: ClusterSnapshot) -> None:
        subscription = self._subscription
        if not subscription.by_topics:
            return
        if self._group is not None:
            self._tell_group(self._group, snapshot)
            return
        wanted = set(subscription.partitions(snapshot))
        if subscription.kind is SubscriptionKind.TOPICS:
            # A topic that an answer did not know may be back with the next one; to forget its positions loses records.
            wanted |= self._positions.assigned
        if wanted != self._positions.assigned:
            added = self._assign(tuple(sorted(wanted)))
            if self._reset_policy is LATEST:
                for state in added:
                    if state.tp.topic in self._seen:
                        state.reset(EARLIEST)
        self._seen.update(snapshot.topics)

    def _tell_group(self, group: GroupTask, snapshot: ClusterSnapshot) -> None:
        subscription = self._subscription
        if subscription.pattern is None:
            wanted = Wanted(subscription.topics)
        else:
            wanted = Wanted(frozenset(subscription.matched(snapshot)), subscription.pattern.pattern)
        for topic in wanted.topics:
            if topic in snapshot.topics:
                self._first_counts.setdefault(topic, snapshot.partition_count(topic))
        group.subscribe(wanted, subscription.listener)

    def _assign(self, partitions: tuple[TopicPartition, ...]) -> list[PartitionState]:
        if self._auto_commit is not None and len(self._positions):
            self._auto_commit.commit_soon()
        added, removed = self._positions.assign(partitions)
        for state in removed:
            self._prefetch.drop(state)
        return added
