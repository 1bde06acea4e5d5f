"""Topics: create, delete, list and describe them, and add partitions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from .._core.admin import BY_ANYONE, failure, outcome, successes
from .._io.admin_requests import Route
from .._io.deadline import Deadline
from .._options.arguments import list_of, map_of, string, topic_name
from .._options.checks import INT16_MAX, Check, boolean, instance, integer, optional
from .._values import NamedTuple
from .._wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from .._wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from .._wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from .._wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
    ResponseCursor,
    TopicRequest,
)
from .._wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from ..errors import ConfigError, KafkaError, UnsupportedVersionError
from .base import NAMED_TOPICS, TOPICS, AdminArea


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

        NewTopic("events", num_partitions=6, replication_factor=3, topic_configs={"retention.ms": "3600000"})

    If ``num_partitions`` or ``replication_factor`` is -1 (the default), the cluster's default applies. Instead of these
    two, ``replica_assignments`` may map each partition to the ids of its brokers, with the preferred leader first.
    Configs that are not in ``topic_configs`` have the cluster's defaults.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    topic_configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created.

    ``num_partitions``, ``replication_factor`` and ``configs`` are the values in effect, including the cluster's
    defaults. Brokers before Kafka 2.4 do not report them: the numbers are -1, and ``configs`` is empty.
    """

    name: str
    topic_id: UUID
    num_partitions: int
    replication_factor: int
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The new total number of partitions of a topic, and optionally the brokers of each new partition.

        NewPartitions(8, assignments=[[1, 2], [2, 3]])  # for a topic with 6 partitions

    ``assignments`` contains one list of broker ids for each added partition, with the preferred leader first. Without
    it, the cluster chooses the brokers.
    """

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicListing(NamedTuple):
    """The name and the id of a topic."""

    name: str
    topic_id: UUID
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """The leader and the replicas of a partition, as ids of brokers.

    ``leader_id`` is -1 if the partition has no leader.
    """

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    """In-sync replicas."""
    offline_replicas: tuple[int, ...]
    """Replicas whose broker or log directory is not available."""
    eligible_leader_replicas: tuple[int, ...] | None = None
    """Replicas outside the ISR that may lead without data loss (KIP-966). None if the cluster does not report them."""
    last_known_elr: tuple[int, ...] | None = None
    """Replicas that were eligible until an unclean shutdown (KIP-966). None if the cluster does not report them."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions in numerical order, as returned by `AdminClient.describe_topics`."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


_NOT_GIVEN = -1
_BROKERS = list_of("broker ids", integer(0))
_ASSIGNMENTS = map_of("partition to broker ids", integer(0), _BROKERS)
_CONFIGS = map_of("str to str", string, optional(string))


def _new_topic(name: str, value: Any) -> NewTopic:
    topic: NewTopic = instance(NewTopic, "a NewTopic")(name, value)
    numbers = topic.num_partitions, topic.replication_factor
    checked = NewTopic(
        topic_name(f"{name}.name", topic.name),
        integer(_NOT_GIVEN)(f"{name}.num_partitions", numbers[0]),
        integer(_NOT_GIVEN, INT16_MAX)(f"{name}.replication_factor", numbers[1]),
        _ASSIGNMENTS(f"{name}.replica_assignments", topic.replica_assignments),
        _CONFIGS(f"{name}.topic_configs", topic.topic_configs),
    )
    if checked.replica_assignments and numbers != (_NOT_GIVEN, _NOT_GIVEN):
        raise ConfigError(f"{name}.replica_assignments cannot be combined with num_partitions or replication_factor")
    return checked


def _each_once(inner: Check) -> Check:
    """Require that no two topics have the same name."""

    def check(name: str, value: Any) -> dict[str, NewTopic]:
        found: dict[str, NewTopic] = {}
        for topic in inner(name, value):
            if topic.name in found:
                raise ConfigError(f"{name} must not contain the topic {topic.name!r} twice")
            found[topic.name] = topic
        return found

    return check


def _new_partitions(name: str, value: Any) -> NewPartitions:
    if not isinstance(value, NewPartitions):
        return NewPartitions(integer(1)(name, value))
    assignments = optional(list_of("lists of broker ids", _BROKERS))(f"{name}.assignments", value.assignments)
    return NewPartitions(integer(1)(f"{name}.total_count", value.total_count), assignments)


_NEW_TOPICS = _each_once(list_of("NewTopic", _new_topic))
"""Check that returns the new topics by name."""
_NEW_PARTITIONS = map_of("topic to number of partitions", topic_name, _new_partitions)
_PAGE_SIZE = integer(1)


class TopicCalls(AdminArea):
    """Admin calls for topics."""

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: float | None = None
    ) -> dict[str, CreatedTopic]:
        """Create topics, and return the created topics by name.

            await admin.create_topics([NewTopic("events", num_partitions=6, replication_factor=3)])

        With ``validate_only``, the brokers check the topics without creating them. Some brokers may learn of the new
        topics only a moment after this call returns.

        Raises `TopicAlreadyExistsError`, `InvalidTopicError` for an invalid name, `InvalidReplicationFactorError` for
        more replicas than brokers, `InvalidConfigError`, `PolicyViolationError`, or another error from the brokers. The
        other topics are still created, and the error's ``outcomes`` map each name to its `CreatedTopic` or its error.
        """
        wanted = _NEW_TOPICS("topics", topics)
        boolean("validate_only", validate_only)
        deadline = self._calls.deadline(timeout_ms)

        def build(pending: Mapping[str, CreatableTopic]) -> CreateTopicsRequest:
            return CreateTopicsRequest(topics=list(pending.values()), validate_only=validate_only)

        def read(response: CreateTopicsResponse) -> Iterator[tuple[str, CreatedTopic | KafkaError]]:
            for entry in response.topics:
                what = f"topic {entry.name!r}"
                yield entry.name, outcome(_created(entry), entry.error_code, what, entry.error_message)

        creatable = {name: _creatable(topic) for name, topic in wanted.items()}
        return await self._calls.batch(creatable, Route.CONTROLLER, build, read, deadline)

    async def delete_topics(self, topics: Iterable[str], *, timeout_ms: float | None = None) -> None:
        """Delete topics by name.

        Brokers may need a moment after this call to remove the topics. Raises `UnknownTopicOrPartitionError` if a topic
        does not exist, and `TopicDeletionDisabledError` if the brokers have ``delete.topic.enable=false``. The other
        topics are still deleted, and the error's ``outcomes`` map each name to None or its error.
        """
        names = NAMED_TOPICS("topics", topics)
        deadline = self._calls.deadline(timeout_ms)

        def build(pending: Mapping[str, None]) -> DeleteTopicsRequest:
            return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in pending])

        def build_before_topic_ids(pending: Mapping[str, None]) -> DeleteTopicsRequest:
            return DeleteTopicsRequest(topic_names=list(pending))

        def read(response: DeleteTopicsResponse) -> Iterator[tuple[str, KafkaError | None]]:
            for entry in response.responses:
                name = entry.name or ""
                yield name, outcome(None, entry.error_code, f"topic {name!r}", entry.error_message)

        wanted = dict.fromkeys(names)
        try:
            await self._calls.batch(wanted, Route.CONTROLLER, build, read, deadline)
        except UnsupportedVersionError:  # before Kafka 2.8
            await self._calls.batch(wanted, Route.CONTROLLER, build_before_topic_ids, read, deadline)

    async def create_partitions(
        self,
        topics: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Increase the number of partitions of topics.

            await admin.create_partitions({"events": 12})

        Each value is the new total number, or a `NewPartitions`. With ``validate_only``, the brokers check the changes
        without making them. After a change, new records of a key may go to a different partition than its earlier
        records.

        Raises `InvalidPartitionsError` if a new number is not greater than the current number,
        `InvalidReplicaAssignmentError` for unsuitable brokers, and `UnknownTopicOrPartitionError` if a topic does not
        exist. The other topics are still changed.
        """
        wanted = _NEW_PARTITIONS("topics", topics)
        boolean("validate_only", validate_only)
        deadline = self._calls.deadline(timeout_ms)

        def build(pending: Mapping[str, CreatePartitionsTopic]) -> CreatePartitionsRequest:
            return CreatePartitionsRequest(topics=list(pending.values()), validate_only=validate_only)

        def read(response: CreatePartitionsResponse) -> Iterator[tuple[str, KafkaError | None]]:
            for entry in response.results:
                yield entry.name, outcome(None, entry.error_code, f"topic {entry.name!r}", entry.error_message)

        items = {name: _more_partitions(name, plan) for name, plan in wanted.items()}
        await self._calls.batch(items, Route.CONTROLLER, build, read, deadline)

    async def list_topics(
        self, *, include_internal: bool = False, timeout_ms: float | None = None
    ) -> dict[str, TopicListing]:
        """Return the name and id of each topic that this user may describe, by name.

        Kafka's internal topics, such as ``__consumer_offsets``, are included only with ``include_internal``.
        """
        boolean("include_internal", include_internal)
        deadline = self._calls.deadline(timeout_ms)
        response = await self._calls.metadata(None, deadline)
        return {
            topic.name: TopicListing(topic.name, topic.topic_id, topic.is_internal)
            for topic in response.topics
            if topic.name is not None and not topic.error_code and (include_internal or not topic.is_internal)
        }

    async def describe_topics(
        self, topics: Iterable[str] | None = None, *, timeout_ms: float | None = None
    ) -> dict[str, TopicDescription]:
        """Return the partitions, leaders and replicas of topics, by topic name (default: all topics).

        Without ``topics``, the result contains all topics that this user may describe. Raises
        `UnknownTopicOrPartitionError` if a given topic does not exist, and `TopicAuthorizationFailedError` if this user
        may not describe it. The error's ``outcomes`` contain the descriptions of the other topics.
        """
        names = TOPICS("topics", topics)
        return await self._describe_topics(names, self._calls.deadline(timeout_ms))

    def describe_topic_partitions(
        self, topics: Iterable[str], *, page_size: int = 2000, timeout_ms: float | None = None
    ) -> AsyncIterator[TopicDescription]:
        """Iterate asynchronously over the descriptions of topics, with eligible leader replicas (KIP-966, Kafka 3.7).

            async for topic in admin.describe_topic_partitions(["events"]):
                print(topic.name, len(topic.partitions))

        Each request returns at most ``page_size`` partitions (default: 2000). A topic that spans several pages is
        yielded once for each page, with the partitions on that page. Topics are sorted by name, but a topic that the
        first broker does not know is requested again and comes last. ``timeout_ms`` limits all pages together, from the
        call of this method.

        If a topic cannot be described, for example because it does not exist, its error is raised after all other
        topics. Raises `UnsupportedVersionError` if the brokers are older than Kafka 3.7.
        """
        names = NAMED_TOPICS("topics", topics)
        _PAGE_SIZE("page_size", page_size)
        return self._describe_by_pages(names, page_size, self._calls.deadline(timeout_ms))

    async def _describe_topics(self, topics: Iterable[str] | None, deadline: Deadline) -> dict[str, TopicDescription]:
        """Return topics with their partitions, from Metadata, or all topics if ``topics`` is None."""
        if topics is None:
            response = await self._calls.metadata(None, deadline)
            return {topic.name: _described(topic) for topic in response.topics if topic.name and not topic.error_code}

        asked: set[int] = set()

        async def ask(pending: Mapping[str, None]) -> dict[str, TopicDescription | KafkaError]:
            # A broker that lags behind may not know a new topic yet, so each attempt asks another broker.
            answer = await self._calls.metadata_of_another(pending, asked, deadline)
            return {
                topic.name or "": outcome(_described(topic), topic.error_code, f"topic {topic.name!r}")
                for topic in answer.topics
            }

        return await self._calls.settle(dict.fromkeys(topics), ask, BY_ANYONE, deadline)

    async def _describe_by_pages(
        self, topics: Iterable[str], page_size: int, deadline: Deadline
    ) -> AsyncIterator[TopicDescription]:
        """Yield topics with their partitions from DescribeTopicPartitions, one description for each topic and page.

        The error of a topic that cannot be described is raised at the end.
        """
        wanted = pending = sorted(set(topics))
        refused: dict[str, KafkaError] = {}
        tries = 0
        while pending:
            tries += 1
            names, cursor = pending, None
            for name in pending:
                refused[name] = KafkaError(f"topic {name!r}: the broker's response lacks it")
            while names:
                request = DescribeTopicPartitionsRequest(
                    topics=[TopicRequest(name=name) for name in names],
                    response_partition_limit=page_size,
                    cursor=cursor,
                )
                response = await self._calls.call(Route.ANY, request, deadline)
                for topic in response.topics:
                    if topic.error_code:
                        refused[topic.name or ""] = failure(topic.error_code, f"topic {topic.name!r}")
                    else:
                        refused.pop(topic.name or "", None)
                        yield _page_of(topic)
                following = response.next_cursor
                if following is None:
                    break
                if cursor is not None and _place(following) <= _place(cursor):
                    raise KafkaError(f"the broker's response for topic {cursor.topic_name!r} does not end")
                names = [name for name in names if name >= following.topic_name]
                cursor = RequestCursor(topic_name=following.topic_name, partition_index=following.partition_index)
            pending = [name for name in pending if name in refused and BY_ANYONE.allows(refused[name], tries)]
            if pending:
                await self._calls.pause(tries, refused[pending[0]], deadline)
        successes({name: refused.get(name) for name in wanted})


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
            for partition, replicas in topic.replica_assignments.items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.topic_configs.items()],
    )


def _created(entry: CreatableTopicResult) -> CreatedTopic:
    return CreatedTopic(
        entry.name,
        entry.topic_id,
        entry.num_partitions,
        entry.replication_factor,
        {config.name: config.value for config in entry.configs or ()},
    )


def _more_partitions(name: str, plan: NewPartitions) -> CreatePartitionsTopic:
    assignments = None
    if plan.assignments is not None:
        assignments = [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in plan.assignments]
    return CreatePartitionsTopic(name=name, count=plan.total_count, assignments=assignments)


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return TopicDescription(topic.name or "", topic.topic_id, topic.is_internal, tuple(map(_partition, partitions)))


def _partition(
    entry: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition,
    eligible: list[int] | None = None,
    last_known: list[int] | None = None,
) -> PartitionDescription:
    return PartitionDescription(
        entry.partition_index,
        entry.leader_id,
        entry.leader_epoch,
        tuple(entry.replica_nodes),
        tuple(entry.isr_nodes),
        tuple(entry.offline_replicas),
        None if eligible is None else tuple(eligible),
        None if last_known is None else tuple(last_known),
    )


def _place(cursor: RequestCursor | ResponseCursor) -> tuple[str, int]:
    return cursor.topic_name, cursor.partition_index


def _page_of(topic: DescribeTopicPartitionsResponseTopic) -> TopicDescription:
    return TopicDescription(
        topic.name or "",
        topic.topic_id,
        topic.is_internal,
        tuple(
            _partition(entry, entry.eligible_leader_replicas or [], entry.last_known_elr or [])
            for entry in topic.partitions
        ),
    )
