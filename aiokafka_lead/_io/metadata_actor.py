"""The task that keeps the client's view of the cluster fresh, and the sole owner of that view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .._core.metadata import ClusterSnapshot, LeaderHint, TopicMetadata


class MetadataActor:
    """Owns the cluster snapshot: refreshes it, merges leader hints into it, tells listeners."""

    snapshot: ClusterSnapshot
    """The latest one: replaced, never changed."""

    def request_update(self) -> None:
        """Ask for a refresh as soon as its backoff allows; any number of calls cause at most one more refresh."""
        raise NotImplementedError

    def add_topics(self, topics: Iterable[str]) -> None:
        """Keep these topics known until `remove_topics` (a consumer's assignment or subscription)."""
        raise NotImplementedError

    def remove_topics(self, topics: Iterable[str]) -> None:
        """Take back `add_topics`."""
        raise NotImplementedError

    def set_all_topics(self, wanted: bool) -> None:
        """Know every topic of the cluster (a subscription by pattern), or no longer."""
        raise NotImplementedError

    def use_topic(self, topic: str) -> None:
        """Note that the producer writes to the topic: it is forgotten ``metadata_max_idle_ms`` after the last call.

        Cheap, call it for each new batch. Also has an unknown topic looked up.
        """
        raise NotImplementedError

    async def topic(self, name: str, timeout_ms: float) -> TopicMetadata:
        """The topic, at once when it is known, else as soon as it is; counts as `use_topic`.

        Raises `UnknownTopicOrPartitionError`, `TopicAuthorizationFailedError`, `InvalidTopicError` or
        `RequestTimedOutError` that say what was tried.
        """
        raise NotImplementedError

    async def wait_newer(self, generation: int, timeout_ms: float) -> ClusterSnapshot:
        """A snapshot of a later generation than this one; raises `RequestTimedOutError`."""
        raise NotImplementedError

    def offer_hints(self, hints: Sequence[LeaderHint]) -> list[bool]:
        """Merge what former leaders said about their successors; which hints were accepted, in order.

        Requests a refresh whatever becomes of the hints.
        """
        raise NotImplementedError

    def add_listener(self, listener: Callable[[ClusterSnapshot], None]) -> None:
        """Call this with each new snapshot, after it became `snapshot`."""
        raise NotImplementedError

    def remove_listener(self, listener: Callable[[ClusterSnapshot], None]) -> None:
        """Take back `add_listener`."""
        raise NotImplementedError
