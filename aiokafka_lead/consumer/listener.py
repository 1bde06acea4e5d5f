"""A base class for what an application does when partitions come and go."""

from __future__ import annotations

from collections.abc import Awaitable

from ..types import TopicPartition


class RebalanceListener:
    """Hears of the partitions that a consumer group assigns to a `Consumer`; see `Consumer.subscribe`.

        class Store(RebalanceListener):
            async def on_partitions_assigned(self, partitions):
                ...

    Override the methods that are needed, plain or async. Each may take ``rebalance_timeout_ms``. An error that one
    raises stops no rebalance, and is the cause of a `RebalanceListenerError` from the next read. Any other object with
    some of these methods is a listener, too; a name that begins with ``on_partition`` and is none of theirs is refused.
    """

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Called before the first record of these partitions is handed out: seek here."""

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Called before these partitions are given up: their positions can still be committed."""

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Called when other members may own these partitions already. Calls `on_partitions_revoked` by default."""
        return self.on_partitions_revoked(partitions)
