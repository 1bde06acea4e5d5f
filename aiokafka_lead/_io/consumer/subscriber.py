"""Turns the subscription into an assignment, again whenever the cluster's topics change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.positions import Positions
from ..._core.consumer.prefetch import Prefetch
from ..._core.consumer.reset_policy import EARLIEST, LATEST, ResetPolicy
from ..._core.consumer.subscription import Subscription, SubscriptionKind
from ..._core.metadata.types import ClusterSnapshot
from ...types import TopicPartition
from .auto_commit import AutoCommit

if TYPE_CHECKING:
    from ...client import Client

__all__ = ["Subscriber"]


class Subscriber:
    """Without a group: every partition of the topics. With one, only `assign` is in its hands.

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
    ) -> None:
        self._client = client
        self._subscription = subscription
        self._positions = positions
        self._prefetch = prefetch
        self._reset_policy = reset_policy
        self._auto_commit = auto_commit
        self._topics: frozenset[str] = frozenset()
        """The topics that metadata keeps for this consumer."""
        self._seen: set[str] = set()
        """Topics of the present subscription that an answer was about, whether it knew them or not."""

    def start(self) -> None:
        """Follow the cluster's topics; the client has its first metadata."""
        self._client.metadata.add_listener(self._apply)
        self._apply(self._client.metadata.snapshot)

    def changed(self, *, started: bool) -> None:
        """The application has changed the subscription."""
        subscription, metadata = self._subscription, self._client.metadata
        self._seen.clear()
        before, self._topics = self._topics, subscription.topics
        metadata.add_topics(self._topics - before)
        metadata.remove_topics(before - self._topics)
        metadata.set_all_topics(subscription.kind is SubscriptionKind.PATTERN)
        self._assign(subscription.assigned)
        if started:
            self._apply(metadata.snapshot)

    def watch(self, now: float) -> float | None:
        """Report topics that cannot be read; returns when to ask again."""
        for topic, error in self._subscription.problems(self._client.metadata.snapshot, now):
            self._prefetch.report(("topic", topic), error)
        return self._subscription.next_problem()

    def _apply(self, snapshot: ClusterSnapshot) -> None:
        subscription = self._subscription
        if subscription.kind not in (SubscriptionKind.TOPICS, SubscriptionKind.PATTERN):
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

    def _assign(self, partitions: tuple[TopicPartition, ...]) -> list[PartitionState]:
        if self._auto_commit is not None and len(self._positions):
            self._auto_commit.commit_soon()
        added, removed = self._positions.assign(partitions)
        for state in removed:
            self._prefetch.drop(state)
        return added
