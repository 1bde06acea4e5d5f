"""Topics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping

from .. import _checks, _topics
from ..types import CreatedTopic, NewPartitions, NewTopic, TopicDescription, TopicListing
from .base import AdminArea


class TopicCalls(AdminArea):
    """Topics."""

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: float | None = None
    ) -> dict[str, CreatedTopic]:
        """Create topics, or only check that they could be; the result is by name.

        Raises `TopicAlreadyExistsError`, `InvalidReplicationFactorError` and the like. Brokers learn of a new topic one
        after the other, shortly after this returns.
        """
        wanted = _checks.NEW_TOPICS("topics", topics)
        _checks.boolean("validate_only", validate_only)
        return await _topics.create(self._calls, wanted, validate_only, self._calls.deadline(timeout_ms))

    async def delete_topics(self, topics: Iterable[str], *, timeout_ms: float | None = None) -> None:
        """Delete topics by name; raises `UnknownTopicOrPartitionError`. Brokers forget them shortly after this."""
        names = _checks.TOPICS("topics", topics)
        await _topics.delete(self._calls, names, self._calls.deadline(timeout_ms))

    async def create_partitions(
        self,
        topics: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Give topics more partitions: their number in all, by topic. Keyed records may go elsewhere from then on.

        Raises `InvalidPartitionsError` for fewer than there are.
        """
        wanted = _checks.NEW_PARTITIONS("topics", topics)
        _checks.boolean("validate_only", validate_only)
        await _topics.add_partitions(self._calls, wanted, validate_only, self._calls.deadline(timeout_ms))

    async def list_topics(
        self, *, include_internal: bool = False, timeout_ms: float | None = None
    ) -> dict[str, TopicListing]:
        """Every topic that this user may see, by name; Kafka's own only on request."""
        _checks.boolean("include_internal", include_internal)
        return await _topics.list_all(self._calls, include_internal, self._calls.deadline(timeout_ms))

    async def describe_topics(
        self, topics: Iterable[str] | None = None, *, timeout_ms: float | None = None
    ) -> dict[str, TopicDescription]:
        """Topics with their partitions, leaders and replicas, by name; all topics unless some are named.

        Raises `UnknownTopicOrPartitionError`.
        """
        names = None if topics is None else _checks.TOPICS("topics", topics)
        return await _topics.describe(self._calls, names, self._calls.deadline(timeout_ms))

    def describe_topic_partitions(
        self, topics: Iterable[str], *, page_size: int = 2000, timeout_ms: float | None = None
    ) -> AsyncIterator[TopicDescription]:
        """The same page by page, with eligible leader replicas (KIP-966, Kafka 3.7).

        An asynchronous iterator of descriptions in the order of the names, but for topics of which the broker has not
        heard at first; a topic that is on several pages comes as often, each time with the partitions of that page.
        Where a topic cannot be described, its error is raised after all others have come. ``timeout_ms`` bounds all
        pages together. Raises `UnsupportedVersionError` where the cluster is older.
        """
        names = _checks.TOPICS("topics", topics)
        _checks.PAGE_SIZE("page_size", page_size)
        return _topics.describe_by_pages(self._calls, names, page_size, self._calls.deadline(timeout_ms))
