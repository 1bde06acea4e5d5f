"""The admin client: a thin facade, each area in a module of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Self, Unpack

from .._core.metadata.metrics import MetadataMetrics
from .._io.client import Client
from .._options.arguments import TIMEOUT
from ..config import AdminConfig, AdminOptions
from ..errors import ConfigError
from ..types import OffsetAndTimestamp, TopicPartition
from . import _checks, _cluster, _configs, _hanging, _partitions, _topics, _transactions
from ._calls import Calls
from .types import (
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    ElectionType,
    FencedProducer,
    HangingTransaction,
    NewPartitions,
    NewTopic,
    PartitionReassignment,
    ProducerState,
    TopicDescription,
    TopicListing,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)


class AdminClient:
    """Creates, inspects and changes what a Kafka cluster consists of.

    Use it as ``async with AdminClient("host:9092") as admin``, or await `start` and `stop`.

    Every call ends within its ``timeout_ms`` (``default_api_timeout_ms``) and then raises `RequestTimedOutError` with
    what was tried last. What may pass is tried again until then: lost connections, a controller or leader that moved, a
    quota. A call about several items does what it can; if some fail in the end, the first failure is raised, and a note
    on it names all that failed. Nothing here ever creates a topic but `create_topics`. Arguments that cannot be right
    raise `ConfigError` (a ValueError) or `ConfigTypeError` (a TypeError), and nothing is sent then.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Unpack[AdminOptions]) -> None:
        config = AdminConfig.from_options(bootstrap_servers, options)
        self._client = Client(config)
        self._calls = Calls(self._client, config.default_api_timeout_ms)

    async def start(self) -> None:
        """Connect to the cluster.

        Raises `KafkaConnectionError` that names each bootstrap server and why it could not be used.
        """
        await self._client.start()

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Close every connection; ends within ``timeout_ms`` (10000)."""
        await self._client.stop(TIMEOUT("timeout_ms", timeout_ms))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def metrics(self) -> MetadataMetrics:
        """Counts of refreshes, bootstraps and the like since the client was made."""
        return self._client.metadata.metrics()

    # --- topics ------------------------------------------------------------------------------------------------------

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

        An asynchronous iterator of descriptions in the order of the names; a topic that is on several pages comes as
        often, each time with the partitions of that page. ``timeout_ms`` bounds all pages together. Raises
        `UnsupportedVersionError` where the cluster is older.
        """
        names = _checks.TOPICS("topics", topics)
        _checks.PAGE_SIZE("page_size", page_size)
        return _topics.describe_by_pages(self._calls, names, page_size, self._calls.deadline(timeout_ms))

    # --- partitions --------------------------------------------------------------------------------------------------

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election_type: ElectionType = ElectionType.PREFERRED,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, bool]:
        """Elect leaders, of all partitions unless some are named; False where the right one leads already.

        Raises `PreferredLeaderNotAvailableError` and the like for a partition that was named.
        """
        named = _checks.PARTITIONS("partitions", partitions)
        _checks.ELECTION("election_type", election_type)
        deadline = self._calls.deadline(timeout_ms)
        return await _partitions.elect_leaders(self._calls, election_type, named, deadline)

    async def alter_partition_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None], *, timeout_ms: float | None = None
    ) -> None:
        """Begin to move partitions to other brokers, the first one their preferred leader; None cancels.

        Returns when the cluster has taken the order; `list_partition_reassignments` shows what is under way (KIP-455).
        """
        wanted = _checks.REPLICAS("replicas", replicas)
        await _partitions.reassign(self._calls, wanted, self._calls.deadline(timeout_ms))

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Reassignments under way, of all partitions unless some are named."""
        named = _checks.PARTITIONS("partitions", partitions)
        return await _partitions.list_reassignments(self._calls, named, self._calls.deadline(timeout_ms))

    async def list_offsets(
        self, at: Mapping[TopicPartition, int], *, read_committed: bool = False, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Offsets by partition: of the first record at or after a time in milliseconds, or by an `OffsetSpec`.

        None where there is no such record.
        """
        wanted = _checks.OFFSETS_AT("at", at)
        _checks.boolean("read_committed", read_committed)
        return await _partitions.list_offsets(self._calls, wanted, read_committed, self._calls.deadline(timeout_ms))

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset (-1: all); the result is the first offset that is left."""
        wanted = _checks.DELETE_BEFORE("before", before)
        return await _partitions.delete_records(self._calls, wanted, self._calls.deadline(timeout_ms))

    # --- configurations ----------------------------------------------------------------------------------------------

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        timeout_ms: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The configurations of topics, brokers and others, by resource and name; all unless some are named."""
        wanted = _checks.RESOURCES("resources", resources)
        named = _checks.NAMES("names", names)
        return await _configs.describe(self._calls, wanted, named, self._calls.deadline(timeout_ms))

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Change single configurations, or only check that they could be; all others stay (KIP-339)."""
        wanted = _checks.CHANGES("changes", changes)
        _checks.boolean("validate_only", validate_only)
        await _configs.alter(self._calls, wanted, validate_only, self._calls.deadline(timeout_ms))

    # --- transactions ------------------------------------------------------------------------------------------------

    async def list_transactions(
        self,
        *,
        states: Iterable[TransactionState] | None = None,
        producer_ids: Iterable[int] | None = None,
        longer_than_ms: float | None = None,
        transactional_id_pattern: str | None = None,
        timeout_ms: float | None = None,
    ) -> dict[str, TransactionListing]:
        """Every transactional id that passes all filters, by id, from all brokers (KIP-664, Kafka 3.0).

        ``longer_than_ms`` passes those whose latest transaction began longer ago (KIP-994, Kafka 3.8);
        ``transactional_id_pattern`` is a regular expression of RE2 for the whole id (KIP-1152, Kafka 4.1). Raises
        `UnsupportedVersionError` where a broker is older than a filter.
        """
        in_states = _checks.STATES("states", states)
        ids = _checks.PRODUCER_IDS("producer_ids", producer_ids)
        duration = _checks.DURATION("longer_than_ms", longer_than_ms)
        pattern = _checks.PATTERN("transactional_id_pattern", transactional_id_pattern)
        deadline = self._calls.deadline(timeout_ms)
        return await _transactions.list_all(self._calls, in_states, ids, duration, pattern, deadline)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> dict[str, TransactionDescription]:
        """Transactional ids by id: state, producer, timeout, and what is part of an open transaction (KIP-664).

        Raises `TransactionalIdNotFoundError`.
        """
        ids = _checks.TRANSACTIONAL_IDS("transactional_ids", transactional_ids)
        return await _transactions.describe(self._calls, ids, self._calls.deadline(timeout_ms))

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """The producers that wrote to partitions, as their leaders know them, or one broker's replicas (KIP-664)."""
        wanted = _checks.NAMED_PARTITIONS("partitions", partitions)
        broker = _checks.BROKER("broker_id", broker_id)
        deadline = self._calls.deadline(timeout_ms)
        return await _transactions.describe_producers(self._calls, wanted, broker, deadline)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        start_offset: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        coordinator_epoch: int = 0,
        timeout_ms: float | None = None,
    ) -> None:
        """Abort a transaction that hangs in a partition (KIP-664); its coordinator is not asked.

        Say which: by the offset at which it begins, or by its producer's id and epoch as `describe_producers` tells
        them, with the coordinator's epoch. Needs cluster permission. Raises `InvalidProducerEpochError` or
        `TransactionCoordinatorFencedError` where the partition knows newer epochs, and `KafkaError` where no open
        transaction begins at the offset. Never use it for a transaction that its producer still works at.
        """
        where = _checks.topic_partition("partition", partition)
        offset = _checks.START_OFFSET("start_offset", start_offset)
        number = _checks.PRODUCER_ID("producer_id", producer_id)
        epoch = _checks.PRODUCER_EPOCH("producer_epoch", producer_epoch)
        coordinator = _checks.COORDINATOR_EPOCH("coordinator_epoch", coordinator_epoch)
        deadline = self._calls.deadline(timeout_ms)
        if offset is not None:
            if number is not None or epoch is not None:
                raise ConfigError("start_offset excludes producer_id and producer_epoch")
            await _transactions.abort_at(self._calls, where, offset, deadline)
            return
        if number is None or epoch is None:
            raise ConfigError("start_offset is needed, or producer_id and producer_epoch")
        await _transactions.abort(self._calls, where, number, epoch, coordinator, deadline)

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> dict[str, FencedProducer]:
        """Refuse the producers that write with these transactional ids from now on; what they have open is aborted.

        A producer that starts with one of the ids afterwards is welcome.
        """
        ids = _checks.TRANSACTIONAL_IDS("transactional_ids", transactional_ids)
        return await _transactions.fence(self._calls, ids, self._calls.deadline(timeout_ms))

    async def find_hanging_transactions(
        self,
        topics: Iterable[str] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        broker_id: int | None = None,
        max_transaction_timeout_ms: float = 900_000,
        timeout_ms: float | None = None,
    ) -> list[HangingTransaction]:
        """Transactions that nobody will end: they keep consumers of committed records where they begin (KIP-664).

        Searched are topics, partitions, or all replicas of a broker, at least one of the three. Only what was last
        written to longer ago than ``max_transaction_timeout_ms`` (the brokers' transaction.max.timeout.ms) can hang.
        """
        names = None if topics is None else _checks.TOPICS("topics", topics)
        wanted = _checks.PARTITIONS("partitions", partitions)
        broker = _checks.BROKER("broker_id", broker_id)
        age = _checks.milliseconds()("max_transaction_timeout_ms", max_transaction_timeout_ms)
        deadline = self._calls.deadline(timeout_ms)
        if names is None and wanted is None and broker is None:
            raise ConfigError("topics, partitions or broker_id is needed: to search everything takes long")
        return await _hanging.find(self._calls, names, wanted, broker, age, deadline)

    # --- the cluster -------------------------------------------------------------------------------------------------

    async def describe_cluster(
        self, *, include_fenced_brokers: bool = False, timeout_ms: float | None = None
    ) -> ClusterDescription:
        """The cluster's id, brokers and controller; fenced brokers on request (Kafka 4.0)."""
        _checks.boolean("include_fenced_brokers", include_fenced_brokers)
        return await _cluster.describe(self._calls, include_fenced_brokers, self._calls.deadline(timeout_ms))
