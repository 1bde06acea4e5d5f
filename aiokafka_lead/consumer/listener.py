"""A base class for an application's reactions to assigned and revoked partitions."""

from __future__ import annotations

from collections.abc import Awaitable

from ..types import TopicPartition


class RebalanceListener:
    """Receives the partitions that a consumer group assigns to a `Consumer`; see `Consumer.subscribe`.

        class Store(RebalanceListener):
            async def on_partitions_assigned(self, partitions):
                ...

    Override the methods that you need, plain or async. Each may take ``rebalance_timeout_ms``. An error raised in one
    does not stop the rebalance, but is the cause of a `RebalanceListenerError` from the next read. Any other object
    with some of these methods is also a listener; other names that begin with ``on_partition`` are refused.
    """

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Called before the first record of these partitions is handed out: seek here."""

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Called before these partitions are given up: their positions can still be committed."""

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Called when other members may already own these partitions. Calls `on_partitions_revoked` by default."""
        return self.on_partitions_revoked(partitions)
