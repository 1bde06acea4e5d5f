"""The entry for one partition in a Fetch request.

There is one entry for each partition, and another for each request that includes the partition. In compiled form,
entries are not tracked by the garbage collector.
"""

from __future__ import annotations

from uuid import UUID


class PartitionFetch:
    """The entry for one partition in a Fetch request, which the broker keeps in a fetch session. Immutable."""

    __slots__ = ("fetch_offset", "last_fetched_epoch", "leader_epoch", "topic_id")

    def __init__(self, topic_id: UUID, fetch_offset: int, last_fetched_epoch: int, leader_epoch: int) -> None:
        self.topic_id = topic_id
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.leader_epoch = leader_epoch

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionFetch) and self._is(other)

    def _is(self, other: PartitionFetch) -> bool:
        return (
            self.fetch_offset == other.fetch_offset
            and self.last_fetched_epoch == other.last_fetched_epoch
            and self.leader_epoch == other.leader_epoch
            and (self.topic_id is other.topic_id or self.topic_id == other.topic_id)
        )

    def __hash__(self) -> int:
        return hash((self.topic_id, self.fetch_offset, self.last_fetched_epoch, self.leader_epoch))

    def __repr__(self) -> str:
        where = f"offset {self.fetch_offset}, epochs {self.last_fetched_epoch} and {self.leader_epoch}"
        return f"<PartitionFetch of {self.topic_id}: {where}>"
